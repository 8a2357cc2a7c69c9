"""An HTTP server on loopback whose paths are functions, and rules that allow its URLs."""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from endcap.triton.url_patterns import parse_patterns, parse_url
from endcap.video.addresses import UrlRules
from endcap.video.downloads import DownloadedFile

CONTENT = bytes(range(256)) * 4096


@dataclass
class Site:
    """A server whose paths are functions that write the response."""

    port: int
    paths: dict[str, Callable[[Any], None]] = field(default_factory=dict)
    requested: list[str] = field(default_factory=list)
    heads: list[dict[str, str]] = field(default_factory=list)

    def url(self, path: str = "/file", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def rules(self, patterns: str | None = None, **options: Any) -> UrlRules:
        allowed = f"http://127.0.0.1:{self.port}/*" if patterns is None else patterns
        return UrlRules(parse_patterns(allowed), **options)

    def open(self, path: str = "/file", **options: Any) -> DownloadedFile:
        rules = options.pop("rules", None) or self.rules()
        limits = {"max_bytes": 1 << 24, "timeout_s": 5.0, **options}
        return DownloadedFile(parse_url(self.url(path)), rules, **limits)


@contextlib.contextmanager
def run_site() -> Iterator[Site]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            running.requested.append(self.path)
            running.heads.append(dict(self.headers.items()))
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                running.paths.get(self.path.partition("?")[0], missing)(self)

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


def content(handler: Any, *, length: bool = True, body: bytes = CONTENT) -> None:
    handler.send_response(200)
    if length:
        handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def redirect(location: str) -> Callable[[Any], None]:
    def respond(handler: Any) -> None:
        handler.send_response(302)
        handler.send_header("Location", location)
        handler.end_headers()

    return respond
