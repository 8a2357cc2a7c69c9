"""Traces: the spans of the stages below the client's span, as a collector receives them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from opentelemetry.sdk.trace import TracerProvider

from endcap.client import AsyncDetectionClient, ConnectionOptions, DetectionClient
from endcap.errors import ServerError
from endcap.server import ServerSettings
from endcap.server.plan import trace_options
from tests.support import jpegs
from tests.support.damage import SHIPPED
from tests.support.doc_pages import ROOT, blocks
from tests.support.http_site import run_site
from tests.triton.running_server import RunningServer, run_server, wait_for


class Span(NamedTuple):
    """A span as it was received. Ids are in hexadecimal digits, times in nanoseconds."""

    trace_id: str
    span_id: str
    parent_id: str  # "" for the first of a trace
    name: str
    start: int
    end: int


class TraceReceiver:
    """What it has received so far."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._spans: list[Span] = []

    def add(self, body: bytes) -> None:
        texts = ("traceId", "spanId", "parentSpanId", "name")
        times = ("startTimeUnixNano", "endTimeUnixNano")
        self._spans += [
            Span(*(each.get(key, "") for key in texts), *(int(each[key]) for key in times))
            for resource in json.loads(body)["resourceSpans"]
            for scope in resource["scopeSpans"]
            for each in scope["spans"]
        ]

    def spans(self, trace_id: str | None = None) -> list[Span]:
        """Those of one trace, or all, in the order of their starts."""
        wanted = [span for span in self._spans if trace_id in (None, span.trace_id)]
        return sorted(wanted, key=lambda span: (span.start, -span.end))


@contextlib.contextmanager
def receive_traces() -> Iterator[TraceReceiver]:
    def respond(handler: Any) -> None:
        receiver.add(handler.rfile.read(int(handler.headers["Content-Length"])))
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", "2")
        handler.end_headers()
        handler.wfile.write(b"{}")

    with run_site() as site:
        site.paths["/v1/traces"] = respond
        receiver = TraceReceiver(site.url("/v1/traces"))
        yield receiver


GOOD = jpegs.photo_jpeg(260, 340)  # below 32 KiB, so that no second thread decodes, too
TRACER = TracerProvider().get_tracer("test")
# Of the exporter's thread.
_SOON = "--trace-config=opentelemetry,bsp_schedule_delay=50"
_MODELS = [f"--load-model={n}" for n in ("detect", "cascade", "preprocess_rois", "classify")]
# Triton loses the context of about half of the requests over gRPC: GrpcServerCarrier reads on
# behind its value.
_TRIES = 15
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

    def collect_spans(self, request: Callable[[], object], requests: int = 1) -> list[Span]:
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
    """A separate server: traces are an option of its start."""
    with receive_traces() as receiver:
        options = trace_options(ServerSettings(trace_url=receiver.url))
        with run_server(
            SHIPPED, *options, _SOON, "--model-control-mode=explicit", *_MODELS
        ) as server:
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


@pytest.mark.parametrize(("protocol", "images"), [("grpc", 3), ("http", 1)])
def test_stages_are_spans_below_the_client_s(traced: Traced, protocol: str, images: int):
    with DetectionClient(traced.url(protocol), model="detect", batch=images) as client:
        spans = traced.collect_spans(lambda: client.detect([GOOD] * images))
    assert len({span.trace_id for span in spans}) == 1
    check_stages(spans, images)
    if images == 1:
        decode, resize = (only(spans, name) for name in _STEPS["preprocess"])
        compute = only(children(spans, only(spans, "preprocess")), "compute")
        assert compute.start <= decode.start < decode.end <= resize.start < compute.end
        assert decode.end - decode.start > 1e5


def test_requests_of_threads_tasks_and_streams_belong_to_the_caller_s_span(traced: Traced):
    with DetectionClient(traced.url("http"), model="detect", concurrency=3) as client:
        spans = traced.collect_spans(lambda: client.detect([GOOD] * 6), requests=6)
    assert sum(span.name == "detect" for span in spans) == 6

    async def detect() -> None:
        async with AsyncDetectionClient(traced.url("http"), model="detect") as client:
            await client.detect([GOOD] * 4)

    spans = traced.collect_spans(lambda: asyncio.run(detect()), requests=4)
    assert sum(span.name == "decode" for span in spans) == 4
    with DetectionClient(traced.url("grpc"), model="detect") as client:
        spans = traced.collect_spans(lambda: list(client.detect_stream([GOOD] * 2)), requests=2)
    assert sum(span.name == "nms" for span in spans) == 2


def test_the_program_of_the_page_is_traced(traced: Traced, tmp_path: Path):
    (block,) = [b.text for b in blocks(ROOT / "docs" / "monitoring.md") if b.language == "python"]
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


def test_a_context_that_the_caller_names_is_sent(traced: Traced):
    trace_id, span_id = secrets.token_hex(16), secrets.token_hex(8)
    options = ConnectionOptions(headers={"traceparent": f"00-{trace_id}-{span_id}-01"})
    with (
        DetectionClient(traced.url("http"), model="detect", options=options) as client,
        TRACER.start_as_current_span("another"),
    ):
        client.detect([GOOD] * _TRIES)
    # The spans of a request do not arrive together.
    first = wait_for(
        lambda: [each for each in traced.receiver.spans(trace_id) if each.name == "InferRequest"]
    )
    assert {span.parent_id for span in first} == {span_id}


def test_calls_of_a_cascade_are_below_its_span(traced: Traced):
    scene = (SHIPPED / "detect" / "samples" / "shapes_1000x872.jpg").read_bytes()
    with DetectionClient(traced.url("grpc"), model="cascade") as client:
        spans = traced.collect_spans(lambda: client.detect([scene]))
    cascade = only(spans, "cascade")
    called = {span.name for span in children(spans, cascade)}
    assert called >= {"detect", "preprocess_rois", "classify"}
    check_stages(subtree(spans, only(spans, "detect")))


def test_the_options_of_the_server():
    settings = ServerSettings(trace_url="http://collector:4318", trace_every=4)
    options = trace_options(settings)
    assert "--trace-config=opentelemetry,url=http://collector:4318/v1/traces" in options
    assert "--trace-config=rate=4" in options
    assert trace_options(ServerSettings()) == []


@pytest.mark.parametrize("url", ["127.0.0.1:4318", "grpc://collector:4317", "http://", None])
def test_invalid_url_is_refused(url: str | None):
    with pytest.raises(ServerError, match=r"is not the address of a collector; .* --trace-url"):
        trace_options(ServerSettings(trace_url=url, trace_every=10))
