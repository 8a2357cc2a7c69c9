"""Preprocess under overload, with and without max_queue_cost.

    python -m benchmarks.overload                        some minutes; writes results/overload.json
    python -m benchmarks.overload --baseline FOLDER      with backends of another build, too

A server runs `preprocess` twice: with max_queue_cost and without. Requests are sent over gRPC at
times that do not depend on the responses (open loop, exponential gaps, the same for each model),
with files and tensors in shared memory, so that the network is no part of the figures. Steps:

- peak: responses per second at a fixed number of requests in flight, the best of several;
- unloaded: half of the peak;
- overload: twice the peak;
- large: half of the peak, while another client sends files of 50 megapixels, one after the other;
- off: throughput, and CPU time of the server, of a model without max_queue_cost, of this build and
  of the baseline, in turns.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
import numpy as np
import tritonclient.grpc as triton
from PIL import Image
from tritonclient.utils import shared_memory

from benchmarks import images, machine, paths
from benchmarks.raw_server import RawServer, raw_server
from benchmarks.timing import cpu_count

METHOD = "/inference.GRPCInferenceService/ModelInfer"
# Photographs of a megapixel or more, as cameras make them.
PHOTOGRAPHS = (
    "1280x720",
    "1411x1411",
    "1600x1068 EXIF 6",
    "1920x1080",
    "1920x1281 progressive",
    "4000x3000",
)
LARGE_SIZE = (8192, 6144)
SHAPE = (1, 3, 640, 640)
OUTPUTS = {"images": 4 * 3 * 640 * 640, "geometry": 32, "status": 4}
SLOTS = 512  # requests in flight at most
IN_FLIGHT = (2, 3, 4, 8, 16)


@dataclass
class Run:
    """What came of the requests of one load."""

    seconds: float
    sent: int = 0
    latency_ms: list[float] = field(default_factory=list)  # of responses without an error
    refused_ms: list[float] = field(default_factory=list)
    pixels: int = 0  # of these responses
    errors: Counter[str] = field(default_factory=Counter)

    def summary(self) -> dict[str, Any]:
        """Return the figures for JSON."""
        row: dict[str, Any] = {
            "seconds": self.seconds,
            "sent_per_second": self.sent / self.seconds,
            "responses_per_second": len(self.latency_ms) / self.seconds,
            "megapixels_per_second": self.pixels / self.seconds / 1e6,
            "refused": len(self.refused_ms),
            "errors": dict(self.errors),
        }
        for name, times in (("latency_ms", self.latency_ms), ("refusal_ms", self.refused_ms)):
            if times:
                p50, p99 = np.percentile(times, (50, 99))
                row[name] = {"p50": p50, "p99": p99, "max": max(times)}
        return row


class Region:
    """Shared memory that the server and this process have."""

    def __init__(self, client: triton.InferenceServerClient, name: str, size: int) -> None:
        self.name = f"endcap_overload_{os.getpid()}_{name}"
        self._client = client
        self._handle = shared_memory.create_shared_memory_region(self.name, f"/{self.name}", size)
        client.register_system_shared_memory(self.name, f"/{self.name}", size)

    def write(self, data: bytes, offset: int) -> None:
        """Copy bytes into the region."""
        shared_memory.set_shared_memory_region(
            self._handle, [np.frombuffer(data, np.uint8)], offset=offset
        )

    def close(self) -> None:
        """Remove the region; the server lets go of it some time after the last response."""
        for attempt in range(50):
            try:
                self._client.unregister_system_shared_memory(self.name)
                break
            except triton.InferenceServerException:
                if attempt == 49:
                    raise
                time.sleep(0.1)
        shared_memory.destroy_shared_memory_region(self._handle)


class Files:
    """Files as BYTES tensors in one region."""

    def __init__(self, client: triton.InferenceServerClient, files: Sequence[bytes]) -> None:
        tensors = [len(file).to_bytes(4, "little") + file for file in files]
        self.sizes = [len(tensor) for tensor in tensors]
        self.offsets = [sum(self.sizes[:i]) for i in range(len(tensors))]
        self.region = Region(client, "files", sum(self.sizes))
        for tensor, offset in zip(tensors, self.offsets, strict=True):
            self.region.write(tensor, offset)


class Sender:
    """Requests whose bytes are made once, by file and slot of output memory."""

    def __init__(self, address: str, files: Files, pixels: Sequence[int], outputs: Region) -> None:
        self._channel = grpc.insecure_channel(address)
        self._send = self._channel.unary_unary(METHOD)
        self._files = files
        self._pixels = pixels
        self._outputs = outputs
        self._slots = deque(range(SLOTS))
        self._made: dict[tuple[str, int, int], bytes] = {}
        self._changed = threading.Condition()
        self._in_flight = 0

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()

    def open_loop(self, model: str, rate: float, seconds: float, seed: int) -> Run:
        """Send at a mean rate, whatever the responses do."""
        random = np.random.default_rng(seed)
        run = Run(seconds)
        begin = due = time.perf_counter()
        while True:
            due += random.exponential(1 / rate)
            if due - begin >= seconds:
                break
            wait = due - time.perf_counter()
            if wait > 0:
                time.sleep(wait)
            # From when it was due: where this program is late, that counts.
            self._start(run, model, int(random.integers(len(self._pixels))), due)
        self._drain()
        run.seconds = max(seconds, time.perf_counter() - begin)
        return run

    def closed_loop(self, model: str, in_flight: int, seconds: float, seed: int) -> Run:
        """Keep a number of requests in flight."""
        random = np.random.default_rng(seed)
        run = Run(seconds)
        begin = time.perf_counter()
        while time.perf_counter() - begin < seconds:
            with self._changed:
                self._changed.wait_for(lambda: self._in_flight < in_flight)
            number = int(random.integers(len(self._pixels)))
            self._start(run, model, number, time.perf_counter())
        self._drain()
        run.seconds = time.perf_counter() - begin
        return run

    def _drain(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._in_flight == 0)

    def _start(self, run: Run, model: str, number: int, due: float) -> None:
        with self._changed:
            run.sent += 1
            if not self._slots:
                run.errors["more in flight than there is memory for"] += 1
                return
            slot = self._slots.popleft()
            self._in_flight += 1
        call = self._send.future(self._request(model, number, slot))
        call.add_done_callback(lambda done: self._finish(run, done, number, slot, due))

    def _finish(self, run: Run, done: Any, number: int, slot: int, due: float) -> None:
        took = 1e3 * (time.perf_counter() - due)
        code = done.code()
        with self._changed:
            if code is grpc.StatusCode.OK:
                run.latency_ms.append(took)
                run.pixels += self._pixels[number]
            elif code is grpc.StatusCode.UNAVAILABLE and "retry after" in done.details():
                run.refused_ms.append(took)
            else:
                run.errors[f"{code.name}: {done.details()[:80]}"] += 1
            self._slots.append(slot)
            self._in_flight -= 1
            self._changed.notify_all()

    def _request(self, model: str, number: int, slot: int) -> bytes:
        key = (model, number, slot)
        if key not in self._made:
            request = triton.service_pb2.ModelInferRequest(model_name=model)
            encoded = request.inputs.add(name="encoded", datatype="BYTES", shape=[1, 1])
            _place(encoded, self._files.region.name, self._files.offsets[number],
                   self._files.sizes[number])  # fmt: skip
            offset = slot * sum(OUTPUTS.values())
            for name, size in OUTPUTS.items():
                _place(request.outputs.add(name=name), self._outputs.name, offset, size)
                offset += size
            self._made[key] = request.SerializeToString()
        return self._made[key]


def _place(tensor: Any, region: str, offset: int, size: int) -> None:
    tensor.parameters["shared_memory_region"].string_param = region
    tensor.parameters["shared_memory_offset"].int64_param = offset
    tensor.parameters["shared_memory_byte_size"].int64_param = size


@contextlib.contextmanager
def large_client(address: str, model: str, file: bytes) -> Iterator[list[float]]:
    """Send a file again and again from another process' view: one request at a time.

    Yields the list that gets the milliseconds of each response, or -1 for a refusal.
    """
    stop = threading.Event()
    took: list[float] = []
    with triton.InferenceServerClient(address) as client:
        region = Region(client, f"large_{model}", len(file) + 4)
        region.write(len(file).to_bytes(4, "little") + file, 0)
        encoded = triton.InferInput("encoded", [1, 1], "BYTES")
        encoded.set_shared_memory(region.name, len(file) + 4)
        result = Region(client, f"large_result_{model}", OUTPUTS["images"])
        wanted = triton.InferRequestedOutput("images")
        wanted.set_shared_memory(result.name, OUTPUTS["images"])

        def send() -> None:
            while not stop.is_set():
                start = time.perf_counter()
                try:
                    client.infer(model, [encoded], outputs=[wanted])
                    took.append(1e3 * (time.perf_counter() - start))
                except triton.InferenceServerException:
                    took.append(-1.0)
                    time.sleep(0.05)

        thread = threading.Thread(target=send)
        thread.start()
        try:
            yield took
        finally:
            stop.set()
            thread.join()
            region.close()
            result.close()


def write_models(folder: Path, max_queue_cost: float) -> None:
    """Write the models `limited` and `open`."""
    for name in ("limited", "open"):
        (folder / name / "1").mkdir(parents=True)
        parameters = {"preset": "ultralytics", "size": "640,640"}
        if name == "limited":
            parameters["max_queue_cost"] = f"{max_queue_cost:g}"
        lines = ['backend: "endcap_preprocess"', "max_batch_size: 16", "dynamic_batching { }"]
        lines += [
            f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}'
            for key, value in parameters.items()
        ]
        (folder / name / "config.pbtxt").write_text("\n".join(lines) + "\n")


@contextlib.contextmanager
def serve(repository: Path, *, one_cpu: bool, backend: Path | None = None) -> Iterator[RawServer]:
    """Run a server; with one CPU for it, the clients have the others.

    Args:
        repository: The model repository.
        one_cpu: Whether the server has one CPU alone.
        backend: A folder with another endcap_preprocess.
    """
    if backend is not None:
        for model in repository.iterdir():
            for file in backend.iterdir():
                (model / file.name).symlink_to(file)
    allowed, cpus = os.sched_getaffinity(0), server_cpus(one_cpu)
    with raw_server(repository, cpus=cpus, client_shared_memory=True) as server:
        os.sched_setaffinity(0, allowed - cpus or allowed)
        try:
            yield server
        finally:
            os.sched_setaffinity(0, allowed)


def server_cpus(one_cpu: bool) -> set[int]:
    """Return the CPUs of the server: the first one, which is then its alone, or all."""
    allowed = os.sched_getaffinity(0)
    return {min(allowed)} if one_cpu else allowed


@contextlib.contextmanager
def sending(address: str, files: Sequence[bytes], pixels: Sequence[int]) -> Iterator[Sender]:
    """Yield a sender for a server."""
    with triton.InferenceServerClient(address) as client:
        inputs = Files(client, files)
        outputs = Region(client, "outputs", SLOTS * sum(OUTPUTS.values()))
        sender = Sender(address, inputs, pixels, outputs)
        try:
            yield sender
        finally:
            sender.close()
            inputs.region.close()
            outputs.close()


def large_file() -> bytes:
    """Return a JPEG of 50 megapixels."""
    path = paths.IMAGES / f"{LARGE_SIZE[0]}x{LARGE_SIZE[1]}.jpg"
    if not path.exists():
        with Image.open(images.make("4000x3000", paths.IMAGES).path) as opened:
            picture = np.asarray(opened.resize(LARGE_SIZE, Image.Resampling.BICUBIC), np.int16)
        # With grain, without which an enlarged picture is cheaper to decode than a camera's.
        grain = np.random.default_rng(1).normal(0, 5, picture.shape[:2]).astype(np.int16)
        made = np.clip(picture + grain[..., None], 0, 255).astype(np.uint8)
        Image.fromarray(made).save(path, "JPEG", quality=88)
    return path.read_bytes()


def measure_load(address: str, sender: Sender, seconds: float, rounds: int) -> dict[str, Any]:
    """Return the figures of peak, unloaded, overload and large."""
    for model in ("open", "limited"):
        sender.closed_loop(model, 2, 3.0, seed=0)
    peaks = {n: sender.closed_loop("open", n, seconds / 2, seed=1).summary() for n in IN_FLIGHT}
    best = max(peaks.values(), key=lambda row: row["responses_per_second"])
    peak = best["responses_per_second"]
    print(f"peak {peak:.1f}/s, {best['megapixels_per_second']:.0f} MP/s", flush=True)
    steps: dict[str, list[dict[str, Any]]] = {}
    file = large_file()

    def add(name: str, run: Run, large: list[float] | None = None) -> None:
        row = run.summary()
        if large is not None:
            served = [each for each in large if each >= 0]
            row["large"] = {"responses": len(served), "refused": len(large) - len(served),
                            "median_ms": statistics.median(served) if served else None}  # fmt: skip
        steps.setdefault(name, []).append(row)
        latency = row.get("latency_ms", {"p50": 0, "p99": 0})
        print(
            f"{name:18} {row['responses_per_second']:6.1f}/s"
            f" {row['megapixels_per_second']:6.0f} MP/s"
            f" p50 {latency['p50']:6.1f} p99 {latency['p99']:7.1f} refused {row['refused']}"
            f" {row['errors']} {row.get('large', '')}",
            flush=True,
        )

    for number in range(rounds):
        seed = 10 + number
        add("unloaded, open", sender.open_loop("open", peak / 2, seconds, seed))
        add("unloaded, limited", sender.open_loop("limited", peak / 2, seconds, seed))
        add("overload, limited", sender.open_loop("limited", 2 * peak, seconds, seed))
        with large_client(address, "limited", file) as took:
            add("large, limited", sender.open_loop("limited", peak / 2, seconds, seed), took)
        with large_client(address, "open", file) as took:
            add("large, open", sender.open_loop("open", peak / 2, seconds, seed), took)
    add("overload, open", sender.open_loop("open", 2 * peak, min(seconds, 5.0), 10))
    return {"peaks": peaks, "peak": best, "steps": steps}


def measure_off(
    scratch: Path, backend: Path, files: Sequence[bytes], pixels: Sequence[int], rounds: int
) -> dict[str, Any]:
    """Return throughput and CPU time of this build and another one, without max_queue_cost."""
    with contextlib.ExitStack() as stack:
        senders: dict[str, tuple[Sender, int]] = {}
        for name, folder in (("this build", None), ("baseline", backend)):
            repository = scratch / name.replace(" ", "_")
            write_models(repository, 1.0)
            for file in (repository / "limited").rglob("*"):
                if file.is_file():
                    file.unlink()
            (repository / "limited" / "1").rmdir()
            (repository / "limited").rmdir()
            server = stack.enter_context(serve(repository, one_cpu=False, backend=folder))
            sender = stack.enter_context(sending(server.grpc, files, pixels))
            senders[name] = sender, server.pid
        rates: dict[str, list[float]] = {name: [] for name in senders}
        cpu_ms: dict[str, list[float]] = {name: [] for name in senders}
        for number in range(-1, rounds):
            for name in list(senders)[:: 1 if number % 2 else -1]:
                sender, pid = senders[name]
                cpu_s = machine.cpu_seconds(pid)
                run = sender.closed_loop("open", 4, 3.0, seed=100 + number)
                cpu_s = machine.cpu_seconds(pid) - cpu_s
                if number >= 0:
                    rates[name].append(run.summary()["responses_per_second"])
                    cpu_ms[name].append(1e3 * cpu_s / (run.pixels / 1e6))
    document: dict[str, Any] = {}
    for name, found in (("responses_per_second", rates), ("cpu_ms_per_megapixel", cpu_ms)):
        ratios = [a / b for a, b in zip(found["this build"], found["baseline"], strict=True)]
        quartiles = statistics.quantiles(ratios, n=4)
        document[name] = {**found, "ratio_quartiles": quartiles}
        low, middle, high = quartiles
        print(f"off: {name}, ratio {middle:.3f} ({low:.3f} to {high:.3f})", flush=True)
    return document


def main() -> None:
    """Measure, and write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--one-cpu", action="store_true", help="the server has the first CPU alone")
    parser.add_argument("--max-queue-cost", type=float, default=20.0, metavar="MS")
    parser.add_argument("--seconds", type=float, default=15.0, help="of each load")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--baseline", type=Path, metavar="FOLDER", help="of an endcap_preprocess")
    parser.add_argument("--part", choices=("all", "load", "off"), default="all")
    parser.add_argument("--output", type=Path, default=paths.RESULTS / "overload.json")
    arguments = parser.parse_args()
    pictures = [images.make(name, paths.IMAGES) for name in PHOTOGRAPHS]
    files = [picture.encoded for picture in pictures]
    pixels = [picture.width * picture.height for picture in pictures]
    document: dict[str, Any] = {
        "machine": machine.describe(),
        "server_cpus": 1 if arguments.one_cpu else cpu_count(),
        "max_queue_cost": arguments.max_queue_cost,
    }
    sys.setswitchinterval(1e-3)
    with tempfile.TemporaryDirectory(prefix="endcap-bench-") as folder:
        scratch = Path(folder)
        if arguments.part != "off":
            repository = scratch / "models"
            write_models(repository, arguments.max_queue_cost)
            with (
                serve(repository, one_cpu=arguments.one_cpu) as server,
                sending(server.grpc, files, pixels) as sender,
            ):
                document["load"] = measure_load(
                    server.grpc, sender, arguments.seconds, arguments.rounds
                )
        if arguments.part != "load" and arguments.baseline is not None:
            document["off"] = measure_off(scratch, arguments.baseline, files, pixels, 10)
    arguments.output.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
