"""A web page that shows the detections of a Triton server in images, videos and the camera."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

from endcap._system.pip_commands import install_command
from endcap.client import DetectionClient
from endcap.errors import EndcapError
from endcap.results import Task

__all__ = ["PageError", "run"]

_CONCURRENCY = 4  # requests to Triton at once; a browser sends one per tab


class PageError(EndcapError, RuntimeError):
    """The page cannot be served; the message says what to do."""


def run(
    server_url: str,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    samples: Sequence[Path] = (),
    model: str = "detect",
    ready: Callable[[str], None],
) -> None:
    """Serve the page until the calling thread gets an exception, such as KeyboardInterrupt.

    Args:
        server_url: The Triton server, as DetectionClient takes it.
        host: Address to listen on; the default is reachable from this machine only.
        port: 0 picks a free one.
        samples: Picture files that the page offers.
        model: The ensemble's name.
        ready: Is called with the page's URL once it can be opened.

    Raises:
        ClientError: No Triton server responds, or it does not serve the model.
        PageError: The model is a classifier, the port cannot be used or aiohttp is not installed.
    """
    try:
        from endcap.tools.web.application import make_application
        from endcap.tools.web.page_server import PageServer
        from endcap.tools.web.sequences import open_tracking
    except ImportError as error:
        raise PageError(
            f"the page needs aiohttp, which is not installed ({error}); "
            f"run `{install_command('client')}`"
        ) from error
    with DetectionClient(server_url, model=model, concurrency=_CONCURRENCY) as client:
        if client.task is not Task.detection:
            raise PageError(
                f"the page draws boxes, and '{model}' returns classes; call it with "
                f"`endcap infer PHOTO --model {model}`, or give --model a detector"
            )
        with open_tracking(client, _CONCURRENCY) or contextlib.nullcontext() as tracking:
            application = make_application(client, host=host, samples=samples, tracking=tracking)
            with PageServer(application, host=host, port=port) as server:
                ready(server.url)
                server.wait()
