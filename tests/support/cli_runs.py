"""Runs the command line, in this process, and the server with known responses that it talks to."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from PIL import Image
from typer.testing import CliRunner, Result

from endcap.cli.app import app
from endcap.server import ServerPorts, ServerSettings, TritonServer
from tests.support.echo_model import write_model
from tests.support.responding_model import CONFIG, MODEL

PROTOCOLS = ["grpc", "http"]


def endcap(*arguments: object, columns: int = 80) -> Result:
    return CliRunner(env={"COLUMNS": str(columns)}).invoke(app, [str(each) for each in arguments])


@contextlib.contextmanager
def model_server(folder: Path, *names: str) -> Iterator[dict[str, str]]:
    """Serve the responding model from a repository in `folder`; give its addresses by protocol.

    names: Of the model, "detect" where none is given.
    """
    for name in names or ["detect"]:
        repository = write_model(folder, name, CONFIG, MODEL)
    settings = ServerSettings(ports=ServerPorts(http=0, grpc=0, metrics=0))
    with TritonServer(repository, settings) as server:
        yield {
            "grpc": server.grpc_url.removeprefix("grpc://"),
            "http": server.http_url.removeprefix("http://"),
        }


def write_pictures(folder: Path) -> Path:
    """Write two JPEG files, a.JPEG and b.jpg, and a text file; returns the folder."""
    folder.mkdir()
    Image.new("RGB", (640, 480), (90, 90, 90)).save(folder / "b.jpg")
    Image.new("L", (96, 80)).save(folder / "a.JPEG", "JPEG")
    return folder


def assert_error_message(result: Result, *parts: str, exit_code: int = 2) -> None:
    assert result.exit_code == exit_code, result.output
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    (message,) = (line for line in lines if not line.startswith("endcap: skipped "))
    assert message.startswith("endcap: ")
    for part in parts:
        assert part in message
