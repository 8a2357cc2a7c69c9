"""Web page that shows what a Triton server detects in dropped pictures and the camera's frames.

A Starlette application with one HTML file: `POST /detect` sends the body to Triton, draws the
result, and returns both as JSON.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import io
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from endcap._pip_commands import import_extra
from endcap.client import DetectionClient
from endcap.client.results import Task
from endcap.errors import EndcapError

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = ["PageError", "make_application", "run", "serve"]

MAX_BODY_BYTES = 64 << 20  # as the server's own default limit of an encoded image
_PAGE = Path(__file__).with_name("page.html")
_HOSTS = ["127.0.0.1", "localhost"]
# A script of another site needs a CORS preflight to send these types, and gets none.
_CONTENT_TYPES = ("image/jpeg", "application/octet-stream")
_CONCURRENCY = 4  # requests to Triton at once
_MAX_SIDE = 1600  # of the returned picture, in pixels
_BODY_WITHIN_S = 30
_ENDS_WITHIN_S = 3
_POLL_S = 0.2


class PageError(EndcapError, RuntimeError):
    """The page cannot be served; the message says what to do."""


def _detect(client: DetectionClient, drawing: threading.Lock, encoded: bytes, name: str) -> Any:
    """Return the result and, of an image without an error, the picture as a data URL."""
    result = dataclasses.replace(client.detect_one(encoded), image=name)
    row = {**result.to_dict(), "latency_ms": result.latency_ms}
    if result.ok:
        with drawing:  # Pillow's warning filters are the process's
            picture = result.draw(encoded)
        row["picture"] = _data_url(picture)
    return row


def make_application(
    client: DetectionClient, *, samples: Sequence[Path] = (), max_bytes: int = MAX_BODY_BYTES
) -> Starlette:
    """Return the application: `/`, `/samples`, `/samples/INDEX` and `POST /detect`.

    Args:
        client: Sends the images; it stays the caller's to close.
        samples: Picture files that the page offers.
        max_bytes: A larger body gets status 413.
    """
    import anyio
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.requests import ClientDisconnect
    from starlette.responses import FileResponse, JSONResponse
    from starlette.routing import Route

    drawing = threading.Lock()
    files = {str(index): path for index, path in enumerate(samples)}
    bodies = anyio.Semaphore(_CONCURRENCY)  # bounds the memory of unfinished uploads

    async def page(_: Request) -> Response:
        policy = "default-src 'self' 'unsafe-inline' data: blob:; frame-ancestors 'none'"
        return FileResponse(_PAGE, headers={"Content-Security-Policy": policy})

    async def list_samples(_: Request) -> Response:
        names = [path.name for path in samples]
        return JSONResponse({"model": client.model, "samples": names})

    async def sample(request: Request) -> Response:
        path = files.get(request.path_params["index"])
        return (
            _error(404, f"there are {len(files)} samples") if path is None else FileResponse(path)
        )

    async def detect(request: Request) -> Response:
        content_type = request.headers.get("content-type", "none")
        if content_type not in _CONTENT_TYPES:
            message = f"content type {content_type}: send the file as {_CONTENT_TYPES[0]}"
            return _error(415, message)
        body = bytearray()
        async with bodies:
            try:
                with anyio.fail_after(_BODY_WITHIN_S):
                    async for chunk in request.stream():
                        body += chunk
                        if len(body) > max_bytes:
                            message = f"the image has more than {max_bytes} bytes"
                            return _error(413, f"{message}; send a smaller one")
            except (TimeoutError, ClientDisconnect):
                return _error(408, f"the image did not arrive within {_BODY_WITHIN_S} seconds")
            name = request.query_params.get("name", "")
            row = await run_in_threadpool(_detect, client, drawing, bytes(body), name)
        return JSONResponse(row, 200 if row["status"] == "ok" else 422)

    def _error(status: int, message: str) -> Response:
        return JSONResponse({"status": "invalid_argument", "error": message}, status)

    return Starlette(
        routes=[
            Route("/", page),
            Route("/samples", list_samples),
            Route("/samples/{index}", sample),
            Route("/detect", detect, methods=["POST"]),
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=_HOSTS)],
    )


@contextlib.contextmanager
def serve(application: Starlette, port: int = 0) -> Iterator[str]:
    """Serve an application on 127.0.0.1 inside the block; yield its URL.

    Args:
        application: The application.
        port: The port; 0 picks a free one.

    Raises:
        PageError: The port cannot be used.
    """
    import uvicorn

    try:
        listener = socket.create_server(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        raise PageError(
            f"port {port} cannot be used for the page ({error}); end the program that holds it, or "
            "choose another port (0 picks a free one)"
        ) from error
    server = uvicorn.Server(
        uvicorn.Config(
            application,
            log_level="error",
            access_log=False,
            timeout_graceful_shutdown=_ENDS_WITHIN_S,
        )
    )
    # In a thread: signals belong to the caller, whose exceptions a callback would swallow.
    thread = threading.Thread(
        target=server.run, kwargs={"sockets": [listener]}, name="endcap page", daemon=True
    )
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join(2 * _ENDS_WITHIN_S)


def run(
    server_url: str,
    *,
    port: int = 8080,
    samples: Sequence[Path] = (),
    model: str = "detect",
    ready: Callable[[str], None],
    check_stop: Callable[[], None] = lambda: None,
) -> None:
    """Serve the page until the calling thread gets an exception, such as KeyboardInterrupt.

    Args:
        server_url: The Triton server, as DetectionClient takes it.
        port: The port on 127.0.0.1; 0 picks a free one.
        samples: Picture files that the page offers.
        model: The ensemble's name.
        ready: Is called with the page's URL once it can be opened.
        check_stop: Is called several times a second, and ends it by an exception.

    Raises:
        ClientError: No Triton server responds, or it does not serve the model.
        PageError: The model is a classifier, the port cannot be used, or Starlette or uvicorn is
            not installed.
    """
    for module in ("starlette", "uvicorn"):
        import_extra(module, "web", "the page", PageError)
    with DetectionClient(server_url, model=model, concurrency=_CONCURRENCY) as client:
        if client.task is not Task.detection:
            raise PageError(
                f"the page draws boxes, and '{model}' returns classes; use `endcap infer PHOTO "
                f"--model {model}`, or give --model a detector"
            )
        with serve(make_application(client, samples=samples), port) as url:
            ready(url)
            stopped = threading.Event()
            while not stopped.wait(_POLL_S):  # a signal may reach another thread
                check_stop()


def _data_url(picture: Any) -> str:
    picture.thumbnail((_MAX_SIDE, _MAX_SIDE))
    content = io.BytesIO()
    picture.save(content, "JPEG", quality=90)
    return f"data:image/jpeg;base64,{base64.b64encode(content.getvalue()).decode()}"
