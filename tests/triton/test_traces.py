"""Traces: the spans of the stages below the client's span, as a collector receives them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

from endcap.client import AsyncDetectionClient, ConnectionOptions, DetectionClient
from endcap.server import ServerSettings
from endcap.server.plan import trace_options
from endcap.triton.errors import ServerError
from tests.support import jpegs
from tests.support.doc_pages import blocks
from tests.triton.running_server import RunningServer, run_server, wait_for


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


DOCS = Path(__file__).resolve().parents[2] / "docs"
REPOSITORY = Path(__file__).resolve().parents[2] / "model_repository"
GOOD = jpegs.photo_jpeg(300, 400)
BAD = GOOD[: len(GOOD) // 2]
TRACER = TracerProvider().get_tracer("test")
# Of the exporter's thread.
_SOON = "--trace-config=opentelemetry,bsp_schedule_delay=50"
_DETECT_ALONE = ("--model-control-mode=explicit", "--load-model=detect")
# Triton loses the context of some requests over gRPC: GrpcServerCarrier reads on behind its value.
_TRIES = 5
_WAIT_S = 5
_STEPS = {
    "preprocess": ["decode", "resize"],
    "detector": ["run"],
    "postprocess": ["box_decode", "nms", "output"],
}
_OWN = {stage for stages in _STEPS.values() for stage in stages}


@dataclass
class Traced:
    server: RunningServer
    receiver: TraceReceiver

    def url(self, protocol: str) -> str:
        return f"{protocol}://{getattr(self.server, protocol)}"

    def spans_of(self, request: Callable[[], object], requests: int = 1) -> list[Span]:
        """The server's spans of requests that are sent within a span of the client."""
        for _ in range(_TRIES):
            with TRACER.start_as_current_span("client") as client_span:
                request()
            context = client_span.get_span_context()
            spans = self.spans(f"{context.trace_id:032x}", f"{context.span_id:016x}", requests)
            if spans:
                return spans
        raise AssertionError(f"none of {_TRIES} tries was traced")

    def spans(self, trace_id: str, client_span: str, requests: int) -> list[Span]:
        """The spans of a trace when all are there; none if a request is not traced in time."""

        def all_there() -> list[Span]:
            spans = self.receiver.spans(trace_id)
            first = [span for span in spans if span.name == "InferRequest"]
            known = {span.span_id for span in spans} | {client_span}
            complete = len(first) == requests and all(span.parent_id in known for span in spans)
            return spans if complete else []

        try:
            return list(wait_for(all_there, timeout_s=_WAIT_S))
        except AssertionError:
            return []


@pytest.fixture(scope="module")
def traced() -> Iterator[Traced]:
    with receive_traces() as receiver:
        options = trace_options(ServerSettings(trace_url=receiver.url))
        with run_server(REPOSITORY, *options, _SOON) as server:
            yield Traced(server, receiver)


def children(spans: list[Span], parent: Span) -> list[Span]:
    return [span for span in spans if span.parent_id == parent.span_id]


def subtree(spans: list[Span], parent: Span) -> list[Span]:
    """A span and all below it."""
    below = [subtree(spans, child) for child in children(spans, parent)]
    return [parent, *(span for each in below for span in each)]


def only(spans: list[Span], name: str) -> Span:
    (span,) = [span for span in spans if span.name == name]
    return span


def check_stages(spans: list[Span], images: int = 1) -> None:
    """Each model's own spans are there once for each image, within the span of the model."""
    ensemble = only(spans, "detect")
    for model, stages in _STEPS.items():
        step = only(spans, model)
        assert step.parent_id == ensemble.span_id
        own = [span for span in children(spans, step) if span.name in _OWN]
        expected = stages * (1 if model == "detector" else images)
        assert sorted(span.name for span in own) == sorted(expected)
        for span in own:
            assert step.start <= span.start <= span.end <= step.end, span.name


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_stages_are_spans_below_the_client_s(traced: Traced, protocol: str):
    with DetectionClient(traced.url(protocol), model="detect") as client:
        spans = traced.spans_of(lambda: client.detect([GOOD]))
    assert {span.service for span in spans} == {"triton-inference-server"}
    assert len({span.trace_id for span in spans}) == 1
    check_stages(spans)
    decode, resize = only(spans, "decode"), only(spans, "resize")
    compute = only(children(spans, only(spans, "preprocess")), "compute")
    assert compute.start <= decode.start < decode.end <= resize.start < resize.end <= compute.end
    assert decode.seconds > 1e-4


def test_each_image_of_a_request_has_its_spans(traced: Traced):
    with DetectionClient(traced.url("grpc"), model="detect", batch=3) as client:
        spans = traced.spans_of(lambda: client.detect([GOOD] * 3))
    check_stages(spans, images=3)


def test_requests_of_threads_and_tasks_belong_to_the_caller_s_span(traced: Traced):
    with DetectionClient(traced.url("http"), model="detect", concurrency=3) as client:
        spans = traced.spans_of(lambda: client.detect([GOOD] * 6), requests=6)
    assert sum(span.name == "detect" for span in spans) == 6

    async def detect() -> None:
        async with AsyncDetectionClient(traced.url("http"), model="detect") as client:
            await client.detect([GOOD] * 4)

    spans = traced.spans_of(lambda: asyncio.run(detect()), requests=4)
    assert sum(span.name == "decode" for span in spans) == 4


def test_requests_of_a_stream_belong_to_the_span_in_which_it_begins(traced: Traced):
    with DetectionClient(traced.url("grpc"), model="detect") as client:
        spans = traced.spans_of(lambda: list(client.detect_stream([GOOD] * 2)), requests=2)
    assert sum(span.name == "nms" for span in spans) == 2


def test_the_program_of_the_page_is_traced(traced: Traced, tmp_path: Path):
    (block,) = [b.text for b in blocks(DOCS / "monitoring.md") if b.language == "python"]
    (tmp_path / "shelf.jpg").write_bytes(GOOD)
    program = block.replace("http://127.0.0.1:8000", traced.url("http"))
    before = {span.trace_id for span in traced.receiver.spans()}
    run = subprocess.run(
        [sys.executable, "-c", f"{program}\nassert results[0].ok\n"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert run.returncode == 0, run.stderr
    new = lambda: {span.trace_id for span in traced.receiver.spans()} - before  # noqa: E731
    wait_for(lambda: len(new()) == 1)


def test_without_a_span_nothing_is_sent_or_traced(traced: Traced):
    def traces() -> set[str]:
        return {span.trace_id for span in traced.receiver.spans()}

    with DetectionClient(traced.url("http"), model="detect") as client:
        before = traces()
        client.detect([GOOD])
        spans = traced.spans_of(lambda: client.detect([GOOD]))  # sent later: it arrives later
    assert traces() - before == {spans[0].trace_id}


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_a_context_that_the_caller_names_is_sent(traced: Traced, protocol: str):
    trace_id, span_id = secrets.token_hex(16), secrets.token_hex(8)
    options = ConnectionOptions(headers={"traceparent": f"00-{trace_id}-{span_id}-01"})
    with (
        DetectionClient(traced.url(protocol), model="detect", options=options) as client,
        TRACER.start_as_current_span("another"),
    ):
        client.detect([GOOD] * _TRIES)
    # The spans of a request do not arrive together.
    first = wait_for(
        lambda: [each for each in traced.receiver.spans(trace_id) if each.name == "InferRequest"]
    )
    assert {span.parent_id for span in first} == {span_id}


def test_a_failed_image_is_a_span_with_the_name_of_its_error(traced: Traced):
    with DetectionClient(traced.url("grpc"), model="detect") as client:
        spans = traced.spans_of(lambda: client.detect([BAD]))
    names = {span.name for span in spans}
    assert "corrupt_image" in names
    assert not names & _OWN


def test_calls_of_a_cascade_are_below_its_span(traced: Traced):
    scene = (REPOSITORY / "detect" / "samples" / "shapes_1000x872.jpg").read_bytes()
    with DetectionClient(traced.url("grpc"), model="cascade") as client:
        spans = traced.spans_of(lambda: client.detect([scene]))
    cascade = only(spans, "cascade")
    called = {span.name for span in children(spans, cascade)}
    assert called >= {"detect", "preprocess_rois", "classify"}
    check_stages(subtree(spans, only(spans, "detect")))


def test_triton_s_own_trace_file_has_the_stages(tmp_path: Path):
    file = tmp_path / "trace.json"
    options = ("--trace-config=mode=triton", f"--trace-config=triton,file={file}")
    more = ("--trace-config=level=TIMESTAMPS", "--trace-config=rate=1")
    with (
        run_server(REPOSITORY, *options, *more, *_DETECT_ALONE) as server,
        DetectionClient(f"grpc://{server.grpc}", model="detect") as client,
    ):
        assert client.detect([GOOD])[0].ok
    times: dict[str, int] = {}
    for entry in json.loads(file.read_text()):
        times |= {each["name"]: each["ns"] for each in entry.get("timestamps", [])}
    for stage in _OWN:
        assert times[f"{stage}_START"] < times[f"{stage}_END"], stage


def test_every_nth_request_is_traced():
    with receive_traces() as receiver:
        options = trace_options(ServerSettings(trace_url=receiver.url, trace_every=4))
        with run_server(REPOSITORY, *options, _SOON, *_DETECT_ALONE) as server:
            with DetectionClient(f"grpc://{server.grpc}", model="detect") as client:
                client.detect([GOOD] * 12)
            firsts = lambda: [s for s in receiver.spans() if s.name == "InferRequest"]  # noqa: E731
            wait_for(lambda: len(firsts()) >= 3)
    assert len(firsts()) == 3


@pytest.mark.parametrize("url", ["127.0.0.1:4318", "grpc://collector:4317", "http://", None])
def test_a_url_that_is_none_is_refused(url: str | None):
    with pytest.raises(ServerError, match=r"is not the address of a collector; .* --trace-url"):
        trace_options(ServerSettings(trace_url=url, trace_every=10))


def test_a_url_without_a_path_gets_otlp_s():
    options = trace_options(ServerSettings(trace_url="http://collector:4318"))
    assert "--trace-config=opentelemetry,url=http://collector:4318/v1/traces" in options
    assert trace_options(ServerSettings()) == []


def test_the_client_does_not_import_opentelemetry():
    program = (
        "import sys; from endcap.client import Connection, parse_address; "
        "headers = Connection(parse_address('127.0.0.1:1')).coroutines.headers(); "
        "print(headers, any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.stdout == "{} False\n", run.stderr
