"""An HTTP server on loopback whose paths are functions."""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

CONTENT = bytes(range(256)) * 4096


@dataclass
class Site:
    """A server whose paths are functions that write the response."""

    port: int
    paths: dict[str, Callable[[Any], None]] = field(default_factory=dict)
    requested: list[str] = field(default_factory=list)

    def url(self, path: str = "/file", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"


@contextlib.contextmanager
def run_site() -> Iterator[Site]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            running.requested.append(self.path)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                running.paths.get(self.path.partition("?")[0], missing)(self)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    running = Site(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield running
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def missing(handler: Any) -> None:
    handler.send_error(404)


def content(handler: Any, *, body: bytes = CONTENT) -> None:
    """Sends a file, from the byte on that the request names."""
    asked = handler.headers.get("Range")
    start = int(asked.removeprefix("bytes=").partition("-")[0]) if asked else 0
    handler.send_response(206 if asked else 200)
    if asked:
        handler.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
    handler.send_header("Content-Length", str(len(body) - start))
    handler.end_headers()
    handler.wfile.write(body[start:])


def redirect(location: str) -> Callable[[Any], None]:
    def respond(handler: Any) -> None:
        handler.send_response(302)
        handler.send_header("Location", location)
        handler.end_headers()

    return respond
