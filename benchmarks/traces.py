"""The cost of traces: CPU time of a server for each request without them, and with them.

    python -m benchmarks.traces                       some minutes
    python -m benchmarks.traces --baseline FOLDER     with another build: FOLDER has its `endcap`

Servers on `detect` of the shipped repository run at the same time and are loaded in turns. The
cost is their CPU time, which other programs disturb less than they disturb throughput. It writes
benchmarks/results/traces.json.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from PIL import Image

from benchmarks import machine
from benchmarks.paths import RESULTS, ROOT
from endcap.client import DetectionClient
from endcap.server.settings import PortReservation, ServerPorts

OFF = "no traces"
CONTEXTS = "requests with a trace context: none of these"
SAMPLED = "one request in 100"
ALL = "all requests"
WAYS: dict[str, list[str]] = {
    OFF: [],
    CONTEXTS: ["--trace-every", "0"],
    SAMPLED: ["--trace-every", "100"],
    ALL: ["--trace-every", "1"],
}
BASELINE = ", of the other build"
_READY_WITHIN_S = 60.0


@dataclass
class Server:
    """A server and what was measured of it."""

    name: str
    address: str
    pid: int
    cpu_ms: list[float] = field(default_factory=list)  # for each request, of each round
    per_second: list[float] = field(default_factory=list)

    def cpu_seconds(self) -> float:
        """Return the CPU time of the server so far."""
        return machine.cpu_seconds(self.pid)


@contextlib.contextmanager
def collector() -> Iterator[str]:
    """Receive traces, drop them, and yield the URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1/traces"
        server.shutdown()


@contextlib.contextmanager
def serve(name: str, options: list[str], baseline: Path | None) -> Iterator[Server]:
    """Run a server by `endcap serve`, of this build or of another one."""
    reservation = PortReservation("127.0.0.1", ServerPorts(http=0, grpc=0, metrics=0))
    ports = reservation.ports
    # Without the finder of an installation that is not a copy, which comes before any path.
    only_paths = (
        "import sys; sys.meta_path[:] = [f for f in sys.meta_path if isinstance(f, type)]; "
    )
    run = (only_paths if baseline else "") + "from endcap.cli.app import main; main()"
    repository = str(ROOT / "model_repository")
    listen = ["--http-port", str(ports.http), "--grpc-port", str(ports.grpc),
              "--metrics-port", str(ports.metrics)]  # fmt: skip
    serve = ["serve", repository, "--model", "detect", *listen, *options]
    command = [sys.executable, "-c", run, *serve]
    environment = dict(os.environ)
    if baseline is not None:
        environment["PYTHONPATH"] = str(baseline)
    reservation.close()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        if not any(line.startswith("Ready") for line in process.stdout):
            raise RuntimeError(f"{name}: the server did not start")
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        yield Server(name, f"127.0.0.1:{ports.grpc}", int(children[0]))
    finally:
        process.terminate()
        process.wait(_READY_WITHIN_S)


def photograph() -> bytes:
    """Return a JPEG of 1920x1080: a picture of the repository, enlarged."""
    sample = ROOT / "model_repository" / "detect" / "samples" / "shapes_1000x872.jpg"
    stream = io.BytesIO()
    with Image.open(sample) as image:
        image.resize((1920, 1080), Image.Resampling.LANCZOS).save(stream, "JPEG", quality=90)
    return stream.getvalue()


def load(server: Server, client: DetectionClient, image: bytes, requests: int) -> None:
    """Send requests, two at a time, and add what they cost."""
    cpu, start = server.cpu_seconds(), time.perf_counter()
    if not all(result.ok for result in client.detect([image] * requests)):
        raise RuntimeError(f"{server.name}: a request failed")
    server.per_second.append(requests / (time.perf_counter() - start))
    time.sleep(0.3)  # for what the server does after its last response
    server.cpu_ms.append((server.cpu_seconds() - cpu) * 1e3 / requests)


def summarise(servers: list[Server]) -> dict[str, Any]:
    """Return medians, and the median of each round's ratio to the first server."""
    rows = {}
    for server in servers:
        rows[server.name] = {
            "cpu_ms_per_request": statistics.median(server.cpu_ms),
            "cpu_ratio": _ratio(server.cpu_ms, servers[0].cpu_ms),
            "requests_per_second": statistics.median(server.per_second),
            "throughput_ratio": _ratio(server.per_second, servers[0].per_second),
        }
    return rows


def _ratio(values: list[float], first: list[float]) -> list[float]:
    """Return the quartiles of each round's ratio."""
    return statistics.quantiles([a / b for a, b in zip(values, first, strict=True)], n=4)


def main() -> None:
    """Measure, and write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=100, help="to each server in a round (100)")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--baseline", type=Path, metavar="FOLDER", help="of another build")
    parser.add_argument("--output", type=Path, default=RESULTS / "traces.json")
    arguments = parser.parse_args()
    image = photograph()
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(collector())
        servers = []
        for name, options in WAYS.items():
            to = ["--trace-url", url, *options] if options else []
            servers.append(stack.enter_context(serve(name, to, None)))
            if arguments.baseline is not None and name in (OFF, ALL):
                other = serve(name + BASELINE, to, arguments.baseline)
                servers.append(stack.enter_context(other))
        clients = [
            stack.enter_context(DetectionClient(server.address, concurrency=2))
            for server in servers
        ]
        for number in range(-1, arguments.rounds):
            for turn in range(len(servers)):
                index = (turn + number) % len(servers)
                load(servers[index], clients[index], image, arguments.requests)
            if number < 0:
                for server in servers:
                    server.cpu_ms.clear()
                    server.per_second.clear()
            else:
                print(f"round {number + 1} of {arguments.rounds}", flush=True)
        rows = summarise(servers)
    document = {"machine": machine.describe(), "rounds": arguments.rounds,
                "requests": arguments.requests, "ways": rows}  # fmt: skip
    arguments.output.write_text(json.dumps(document, indent=1) + "\n")
    for name, row in rows.items():
        cpu, speed = (
            "{1:.3f} ({0:.3f} to {2:.3f})".format(*row[key])
            for key in ("cpu_ratio", "throughput_ratio")
        )
        print(f"{row['cpu_ms_per_request']:7.3f} ms CPU {cpu}  "
              f"{row['requests_per_second']:6.1f}/s {speed}  {name}")  # fmt: skip


if __name__ == "__main__":
    main()
