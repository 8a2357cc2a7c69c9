"""A receiver of traces by OTLP over HTTP in JSON, which Triton sends; a collector is one, too."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Span:
    """A span as it was received. Ids are in hexadecimal digits, times in nanoseconds."""

    trace_id: str
    span_id: str
    parent_id: str  # "" for the first of a trace
    name: str
    start: int
    end: int
    service: str
    attributes: dict[str, str] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        return (self.end - self.start) / 1e9


class TraceReceiver:
    """What it has received so far. Thread-safe."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._lock = threading.Lock()
        self._spans: list[Span] = []

    def add(self, body: bytes) -> None:
        spans = []
        for resource in json.loads(body)["resourceSpans"]:
            about = _texts(resource["resource"]["attributes"])
            for scope in resource["scopeSpans"]:
                spans += [_span(each, about["service.name"]) for each in scope["spans"]]
        with self._lock:
            self._spans += spans

    def spans(self, trace_id: str | None = None) -> list[Span]:
        """Those of one trace, or all, in the order of their starts."""
        with self._lock:
            wanted = [span for span in self._spans if trace_id in (None, span.trace_id)]
        return sorted(wanted, key=lambda span: (span.start, -span.end))


@contextlib.contextmanager
def receive_traces() -> Iterator[TraceReceiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            receiver.add(self.rfile.read(int(self.headers["Content-Length"])))
            body = b"{}"
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver = TraceReceiver(f"http://127.0.0.1:{server.server_port}/v1/traces")
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()


def _span(span: dict[str, Any], service: str) -> Span:
    return Span(
        span["traceId"],
        span["spanId"],
        span.get("parentSpanId", ""),
        span["name"],
        int(span["startTimeUnixNano"]),
        int(span["endTimeUnixNano"]),
        service,
        _texts(span.get("attributes", [])),
    )


def _texts(attributes: list[dict[str, Any]]) -> dict[str, str]:
    return {each["key"]: str(next(iter(each["value"].values()))) for each in attributes}
