"""What a connection costs a client, and explicit model control a server, side by side.

    python -m benchmarks.connections            about two minutes

Every way sends the same photograph to `detect` of the shipped repository, one request at a time, in
turns, once its detections were found to be those of the first way. Writes
benchmarks/results/connections.json and the tables of docs/tuning.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import tritonclient.http as triton

from benchmarks import machine
from benchmarks.paths import RESULTS, ROOT
from benchmarks.pipelines.tables import TextTable, between_marks
from benchmarks.raw_server import raw_server
from benchmarks.timing import Budget, Case, measure, summary
from endcap.client import ConnectionOptions, DetectionClient, ImageResult, Keepalive
from endcap.server import ServerPorts, ServerSettings, TritonServer

Json = dict[str, Any]
REPOSITORY = ROOT / "model_repository"
IMAGE = REPOSITORY / "detect" / "samples" / "shapes_640x427.jpg"
PAGE = ROOT / "docs" / "tuning.md"
DOCUMENT = RESULTS / "connections.json"
MODEL, STEPS = "detect", ("preprocess", "detector", "postprocess")
RELOADED = "detector"
TRANSPORTS = ("grpc", "http")
KEPT, NEW, GZIP, PINGED = (
    "one `DetectionClient` for all images",
    "a new client for each image",
    "compression of requests by gzip",
    "gRPC keepalive, a ping each second",
)
_EACH_S = 5.0  # of requests in explicit mode
_RELOAD_EVERY_S = 0.2
_POLL_S = 0.0002


@dataclass(frozen=True)
class Way:
    """How a client sends its images."""

    name: str
    transport: str
    options: ConnectionOptions = field(default_factory=ConnectionOptions)
    is_new_each_time: bool = False


def ways() -> list[Way]:
    """Return all of them, for each transport its reference first."""
    found = []
    for transport in TRANSPORTS:
        found += [
            Way(KEPT, transport),
            Way(NEW, transport, is_new_each_time=True),
            Way(GZIP, transport, ConnectionOptions(compression="gzip")),
        ]
    pings = ConnectionOptions(keepalive=Keepalive(time_s=1.0))
    return [*found, Way(PINGED, "grpc", pings)]


@contextlib.contextmanager
def sender(way: Way, url: str) -> Iterator[Callable[[bytes], ImageResult]]:
    """Yield what sends one image and returns its detections."""

    def once(image: bytes) -> ImageResult:
        with DetectionClient(url, options=way.options) as client:
            return client.detect_one(image)

    if way.is_new_each_time:
        yield once
        return
    with DetectionClient(url, options=way.options) as client:
        yield client.detect_one


def check(name: str, result: ImageResult, expected: ImageResult) -> None:
    """Raise RuntimeError where detections are not those of the first way."""
    same = result.ok and result.detections == expected.detections
    if not (same and result.detections):
        raise RuntimeError(f"{name}: {result.error or 'other detections'}")


def measure_ways(server: TritonServer, image: bytes, budget: Budget) -> list[Json]:
    """Return the time of a request in each way."""
    urls = {"grpc": server.grpc_url, "http": server.http_url}
    with contextlib.ExitStack() as stack:
        send = {
            (way.name, way.transport): stack.enter_context(sender(way, urls[way.transport]))
            for way in ways()
        }
        expected = send[KEPT, "grpc"](image)
        for key, each in send.items():
            check(", ".join(key), each(image), expected)
        cases = {", ".join(key): Case(each, prepare=lambda: image) for key, each in send.items()}
        timings = measure(cases, budget)
    return [
        {"name": name, "transport": transport, **asdict(timings[f"{name}, {transport}"])}
        for name, transport in send
    ]


def measure_control(image: bytes, expected: ImageResult, rounds: int) -> Json:
    """Return the times of loading and unloading models, and of requests while one is reloaded."""
    control_options = ["--model-control-mode=explicit"]
    control_options += [f"--load-model={name}" for name in (*STEPS, MODEL)]
    closed = ("--http-restricted-api=", "--grpc-restricted-protocol=")
    with (
        raw_server(REPOSITORY, *control_options, without=closed) as server,
        triton.InferenceServerClient(server.http) as control,
        DetectionClient(f"grpc://{server.grpc}") as client,
    ):

        def request(_: object) -> None:
            check("explicit mode", client.detect_one(image), expected)

        budget = Budget(_EACH_S, fewest=rounds)
        steady = measure({"request": Case(request)}, budget)["request"]
        with _reloading(server.http, RELOADED):
            reloaded = measure({"request": Case(request)}, budget)["request"]
        steps = {name: _reload(control, name, rounds) for name in STEPS}
        control.load_model(MODEL)
        request(None)
    return {"request": asdict(steady), "request_while_reloading": asdict(reloaded), "steps": steps}


def _reload(control: Any, name: str, rounds: int) -> Json:
    loads, unloads = [], []
    for _ in range(rounds):
        begin = time.perf_counter()
        control.unload_model(name)
        while control.is_model_ready(name):
            time.sleep(_POLL_S)
        unloaded = time.perf_counter()
        control.load_model(name)
        loads.append(time.perf_counter() - unloaded)
        unloads.append(unloaded - begin)
    return {"load": asdict(summary(loads)), "unload": asdict(summary(unloads))}


@contextlib.contextmanager
def _reloading(address: str, name: str) -> Iterator[None]:
    """Load a model again and again, unchanged, while the block runs."""
    done = threading.Event()
    failures: list[Exception] = []

    def work() -> None:
        try:
            with triton.InferenceServerClient(address) as control:
                while not done.wait(_RELOAD_EVERY_S):
                    control.load_model(name)
        except triton.InferenceServerException as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    if failures:
        raise failures[0]


def figures(document: Json) -> str:
    """Return the tables of a document as Markdown."""
    about, control = document["machine"], document["explicit"]
    heading = (
        f"{about['cpu']}, {about['cpus']} CPUs, {about['date'][:10]}, commit {about['commit']}: "
        f"the sample repository, one request at a time, a JPEG of {document['image_kb']} KB "
        f"(640x427), medians of {document['ways'][0]['rounds']} requests in turns."
    )
    times = {(row["name"], row["transport"]): f"{row['median_ms']:.1f}" for row in document["ways"]}
    rows = [
        (name, *(times.get((name, each), "") for each in TRANSPORTS))
        for name in dict.fromkeys(row["name"] for row in document["ways"])
    ]
    connections = TextTable("Connections", ("connection", "gRPC, ms", "HTTP, ms"), rows, words=1)
    steps = [
        (f"`{name}`", *(f"{step[kind]['median_ms']:.1f}" for kind in ("load", "unload")))
        for name, step in control["steps"].items()
    ]
    models = TextTable("Models", ("model", "loading, ms", "unloading, ms"), steps, words=1)
    requests = (
        f"In explicit mode a request takes {control['request']['median_ms']:.1f} ms, and "
        f"{control['request_while_reloading']['median_ms']:.1f} ms while `{RELOADED}` is loaded "
        f"again every {_RELOAD_EVERY_S:g} s, unchanged; none failed. The models alone, medians of "
        f"{control['steps'][RELOADED]['load']['rounds']}:"
    )
    return "\n\n".join([heading, connections.markdown(), requests, models.markdown()])


def committed() -> Json | None:
    """Return the committed results, None before there are any."""
    return json.loads(DOCUMENT.read_text()) if DOCUMENT.exists() else None


def fill(page: str, document: Json | None) -> str:
    """Return the page with the figures of a document."""
    return between_marks(page, figures(document) if document else "Not measured yet.")


def main() -> None:
    """Measure, and write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="some requests, and nothing is written"
    )
    quick = parser.parse_args().quick
    image = IMAGE.read_bytes()
    settings = ServerSettings(models=(MODEL,), ports=ServerPorts(http=0, grpc=0, metrics=0))
    about = machine.describe()
    with TritonServer(REPOSITORY, settings) as server:
        with DetectionClient(server.grpc_url) as client:
            expected = client.detect_one(image)
        rows = measure_ways(server, image, Budget(2.0 if quick else 40.0))
    document = {
        "machine": about,
        "image_kb": round(len(image) / 1e3),
        "ways": rows,
        "explicit": measure_control(image, expected, 3 if quick else 15),
    }
    print(figures(document))
    if not quick:
        DOCUMENT.write_text(json.dumps(document, indent=1) + "\n")
        PAGE.write_text(fill(PAGE.read_text(encoding="utf-8"), document), encoding="utf-8")


if __name__ == "__main__":
    main()
