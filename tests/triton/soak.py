"""Soak test of the real server: many requests, some of them faulty, while parts of it are killed.

Every request must get a response: good ones with the bytes that the library
gives for the same input, faulty ones with the error of their kind. The server's processes must not
grow in the second half of the run. Stubs are killed before that: with each that dies over requests
Triton loses 0.7 MiB, also where all of its models are Triton's own. Clients give requests up over
HTTP only: over gRPC that ends the server of release 24.10 now and then (docs/security.md).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import errno
import functools
import itertools
import json
import math
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tritonclient.grpc as grpc_client
import tritonclient.grpc.aio as aio_client
import tritonclient.http as http_client
from tritonclient.utils import InferenceServerException

import endcap
from tests.support import jpegs
from tests.support.bad_jpegs import bomb
from tests.triton.calls import Arrays, grpc_inputs, http_inputs, strings, to_arrays
from tests.triton.model_folders import (
    ON_CPU,
    batching,
    tensor,
    write_ensemble,
    write_model,
    write_postprocess,
    write_preprocess,
)
from tests.triton.running_server import RunningServer, run_server

SIZE = (96, 128)
CLASSES, ANCHORS, MAX_DETECTIONS = 3, 50, 20
POSTPROCESS = {"head": "yolov8", "num_classes": CLASSES, "max_detections": MAX_DETECTIONS}
SHARED_MEMORY = Path("/dev/shm")
SHARED_MEMORY_MB = 256
PYTHON_MODELS = ("pre_python", "network")
TASKS = 32
FAULTY = 0.05
RESPONSE_WITHIN_S = 60
SAMPLED_EVERY_S = 0.25
LINES_SHOWN = 40
# Up to which part of the requests stubs are killed.
STUBS_KILLED_UNTIL = 0.4
# One arena: with more, what glibc keeps of each varies by several percent in a run.
ENVIRONMENT = {"MALLOC_ARENA_MAX": "1"}
# How much more the processes may hold in the last fifth than around the middle, of what they held.
MOST_GROWTH = 0.01

_NETWORK = f"""
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [self.respond(request) for request in requests]

    def respond(self, request):
        images = pb_utils.get_input_tensor_by_name(request, "images").as_numpy()
        head = images.reshape(-1)[:{(4 + CLASSES) * ANCHORS}].reshape({4 + CLASSES}, {ANCHORS})
        return pb_utils.InferenceResponse([pb_utils.Tensor("head", np.ascontiguousarray(head))])
"""


def write_repository(repository: Path) -> None:
    """Writes the models: compiled stages, regions, a Python stage, and an ensemble of three."""
    encoded = tensor("encoded", "TYPE_STRING", [1])
    images = tensor("images", "TYPE_FP32", [3, *SIZE])
    head = tensor("head", "TYPE_FP32", [4 + CLASSES, ANCHORS])
    given: Mapping[str, object] = {"preset": "ultralytics", "size": f"{SIZE[0]},{SIZE[1]}"}
    batched = {"max_batch_size": 16, "more": batching(200)}
    write_preprocess(repository, "pre", parameters=given, **batched)
    write_preprocess(repository, "pre_single", parameters=given)
    write_preprocess(repository, "pre_python", parameters=given, variant="python", **batched)
    rois = tensor("rois", "TYPE_FP32", [-1, 4])
    write_preprocess(repository, "rois", parameters=given, inputs=[encoded, rois], more=ON_CPU)
    write_postprocess(repository, "post", parameters=POSTPROCESS, **batched)
    write_postprocess(repository, "post_single", parameters=POSTPROCESS)
    write_model(
        repository,
        "network",
        backend="python",
        inputs=[images],
        outputs=[head],
        more=ON_CPU,
        files={"1/model.py": _NETWORK},
    )
    detections = {
        "detection_boxes": tensor("detection_boxes", "TYPE_FP32", [MAX_DETECTIONS, 4]),
        "detection_scores": tensor("detection_scores", "TYPE_FP32", [MAX_DETECTIONS]),
    }
    side = {"geometry": "geometry", "status": "status"}
    write_ensemble(
        repository,
        "detect",
        inputs=[encoded],
        outputs=list(detections.values()),
        steps=[
            ("pre_single", {"encoded": "encoded"}, {"images": "images", **side}),
            ("network", {"images": "images"}, {"head": "head"}),
            ("post_single", {"head": "head", **side}, {name: name for name in detections}),
        ],
    )


@dataclass(frozen=True)
class Request:
    """A request, and the expected response: arrays, or an error that holds one of some texts."""

    kind: str
    model: str
    inputs: Arrays
    expected: Arrays = field(default_factory=dict)
    errors: tuple[str, ...] = ()
    timeout_s: float | None = None
    outputs: tuple[str, ...] = ()


def make_requests() -> tuple[list[Request], list[Request]]:
    """Returns the good requests and the faulty ones."""
    files = [jpegs.photo_jpeg(40 + 37 * i, 300 - 23 * i, seed=i) for i in range(8)]
    alone = [endcap.preprocess(file, preset="ultralytics", size=SIZE) for file in files]
    good: list[Request] = []
    for file, one in zip(files, alone, strict=True):
        made = {"images": one.images, "geometry": one.geometry}
        # The geometry's last column is the item's place in the library's call: 0, as in the server.
        good += 3 * [Request("image", "pre", {"encoded": strings([file])}, made)]
        good.append(Request("python", "pre_python", {"encoded": strings([file])}, made))
        good.append(_detect_request(file, one))
    batch = endcap.preprocess(files, preset="ultralytics", size=SIZE)
    together = {"images": batch.images}
    good += 3 * [Request("batch", "pre", {"encoded": strings(files)}, together)]
    good += _rois_requests(files)
    good += [_head_request(seed) for seed in range(8)]
    return good, _faulty_requests(files[-1])


def _detect_request(file: bytes, one: endcap.PreprocessResult) -> Request:
    count = (4 + CLASSES) * ANCHORS
    head = np.ascontiguousarray(one.images.reshape(-1)[:count].reshape(1, 4 + CLASSES, ANCHORS))
    found = endcap.Postprocessor(**POSTPROCESS)(head, one.geometry, one.status)
    expected = {"detection_boxes": found.boxes[0], "detection_scores": found.scores[0]}
    return Request("ensemble", "detect", {"encoded": strings([file], batched=False)}, expected)


def _rois_requests(files: list[bytes]) -> list[Request]:
    rois = np.float32([[0, 0, 30, 30], [5.5, 2.25, 38, 20], [1, 1, 9, 39]])
    requests = []
    for file in files[:4]:
        made = endcap.preprocess(file, preset="ultralytics", size=SIZE, rois=rois)
        inputs = {"encoded": strings([file], batched=False), "rois": rois}
        requests.append(Request("rois", "rois", inputs, {"images": made.images}))
    return requests


def _head_request(seed: int) -> Request:
    random_numbers = np.random.default_rng(seed)
    head = random_numbers.random((1, 4 + CLASSES, ANCHORS), np.float32)
    head[:, :4] *= 90
    found = endcap.Postprocessor(**POSTPROCESS)(head)
    expected = {"detection_boxes": found.boxes, "detection_scores": found.scores}
    return Request("head", "post", {"head": head}, expected)


def _faulty_requests(file: bytes) -> list[Request]:
    def image(content: bytes, *errors: str, kind: str, model: str = "pre") -> Request:
        batched = model != "detect"
        inputs: Arrays = {"encoded": strings([content], batched=batched)}
        return Request(kind, model, inputs, errors=errors)

    middle = len(file) // 2
    garbled = file[:middle] + b"\xff\xd9\xff\x07" + file[middle + 4 :]
    late = {"encoded": strings([file])}
    return [
        image(b"", "corrupt_image", kind="bad image"),
        image(b"no image at all", "corrupt_image", kind="bad image"),
        image(file[:middle], "corrupt_image", kind="bad image"),
        image(garbled, "corrupt_image", kind="bad image"),
        image(bomb(64250, 64250), "image_limit", kind="bad image"),
        image(file[:middle], "corrupt_image", kind="bad image", model="pre_python"),
        image(file[:middle], "corrupt_image", kind="bad image", model="detect"),
        Request("bad tensor", "post", {"head": np.zeros((1, 3, 4), np.float32)}, errors=("shape",)),
        Request("expired deadline", "pre", late, timeout_s=1e-4),
        Request("expired deadline", "pre", late, timeout_s=2e-3),
    ]


@dataclass
class Tally:
    """What came of the requests."""

    responded: Counter[str] = field(default_factory=Counter)
    disturbed: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    memory: list[tuple[int, dict[str, int]]] = field(default_factory=list)


class Soak:
    """One run over a server."""

    def __init__(
        self, server: RunningServer, requests: int, *, disturbed_every: int, seed: int
    ) -> None:
        self.server = server
        self.requests = requests
        self.tally = Tally()
        self._disturbed_every = disturbed_every
        self._disturbed = 0
        self._random = random.Random(seed)
        self._good, self._faulty = make_requests()
        self._sent = 0
        # Until when a model may refuse requests: its process was killed and is being replaced, or
        # it finds no shared memory.
        self._refusing: dict[str, float] = {}
        stubs = {name: functools.partial(self._kill_stub, name) for name in PYTHON_MODELS}
        self._stub_kills = list(stubs.values())
        self._disturbances: Iterator[Callable[[], Any]] = itertools.cycle(
            [
                stubs["pre_python"],
                self._abandon_request,
                self._reload,
                self._kill_client,
                self._fill_shared_memory,
                stubs["network"],
            ]
        )

    async def run(self) -> None:
        """Sends all requests from TASKS tasks, and disturbs the server meanwhile."""
        async with aio_client.InferenceServerClient(self.server.grpc) as client:
            self._client = client
            work = asyncio.gather(*(self._work() for _ in range(TASKS)), self._disturb())
            watch = asyncio.create_task(self._watch())
            await work
            watch.cancel()

    async def _work(self) -> None:
        while self._sent < self.requests:
            if self._sent >= (self._disturbed + 1) * self._disturbed_every:
                await asyncio.sleep(0.01)  # the disturbance is not over
                continue
            self._sent += 1
            faulty = self._random.random() < FAULTY
            await self._send(self._random.choice(self._faulty if faulty else self._good))

    async def _disturb(self) -> None:
        """Disturbs the server while each batch of requests but the first is under way."""
        while (self._disturbed + 1) * self._disturbed_every < self.requests:
            if self._sent < self._disturbed * self._disturbed_every + 1:
                await asyncio.sleep(0.01)
                continue
            disturbance = next(self._disturbances)
            while self._sent >= STUBS_KILLED_UNTIL * self.requests and (
                disturbance in self._stub_kills
            ):
                disturbance = next(self._disturbances)
            await asyncio.to_thread(disturbance)
            self._disturbed += 1

    async def _watch(self) -> None:
        """Samples the server's memory and shows progress."""
        started = time.monotonic()
        while True:
            await asyncio.sleep(SAMPLED_EVERY_S)
            self.tally.memory.append((self._sent, resident(self.server.pid)))
            _show_progress(self._sent, self.requests, started, self.tally)

    async def _send(self, request: Request) -> None:
        if request.timeout_s is not None:
            await self._give_up(request, request.timeout_s)
            return
        names = request.expected or {}
        wanted = [grpc_client.InferRequestedOutput(name) for name in names]
        started = time.monotonic()
        try:
            result = await self._client.infer(
                request.model,
                grpc_inputs(request.inputs),
                outputs=wanted or None,
                client_timeout=RESPONSE_WITHIN_S,
            )
        except InferenceServerException as error:
            self._check_error(request, started, str(error))
        else:
            self._check_result(request, to_arrays(result))

    async def _give_up(self, request: Request, timeout_s: float) -> None:
        """Sends a request over HTTP, and closes the connection at its deadline."""
        _, to_server = await asyncio.open_connection("127.0.0.1", self.server.ports.http)
        to_server.write(http_request(request))
        await to_server.drain()
        await asyncio.sleep(timeout_s)
        to_server.close()
        self.tally.responded[request.kind] += 1

    def _check_result(self, request: Request, arrays: Arrays) -> None:
        if request.errors:
            self.tally.wrong.append(f"{request.kind} on {request.model}: response without an error")
            return
        for name, expected in request.expected.items():
            if arrays[name].dtype != expected.dtype or arrays[name].tobytes() != expected.tobytes():
                self.tally.wrong.append(f"{request.kind} on {request.model}: another {name}")
                return
        self.tally.responded[request.kind] += 1

    def _check_error(self, request: Request, started: float, message: str) -> None:
        if any(text in message for text in request.errors):
            self.tally.responded[request.kind] += 1
        elif self._may_refuse(request.model, started):
            self.tally.responded["refused for want of its process or of memory"] += 1
        else:
            self.tally.wrong.append(f"{request.kind} on {request.model}: {message}")

    def _may_refuse(self, model: str, started: float) -> bool:
        """Whether the model lacked its process or memory when the request was sent, or later."""
        needed = {"detect": "network"}.get(model, model)
        return started < self._refusing.get(needed, -math.inf)

    def _kill_stub(self, model: str) -> None:
        """Kills a model's process; the server starts another when the model is loaded again."""
        for pid, command in children(self.server.pid):
            if f"/{model}/1/model.py" in command:
                self._refusing[model] = math.inf
                os.kill(pid, signal.SIGKILL)
                self.tally.disturbed["killed stubs"] += 1
        time.sleep(0.05)
        with grpc_client.InferenceServerClient(self.server.grpc) as client:
            client.unload_model(model)
            client.load_model(model)
        self._refusing[model] = time.monotonic()

    def _abandon_request(self) -> None:
        """Closes connections in the middle of a request, as the kernel does for a killed client."""
        fields = "Host: localhost\r\nContent-Length: 100000"
        head = f"POST /v2/models/pre/infer HTTP/1.1\r\n{fields}\r\n\r\n"
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", self.server.ports.http)) as connection:
                connection.sendall(head.encode() + b"{" * 1000)
            self.tally.disturbed["abandoned requests"] += 1

    def _kill_client(self) -> None:
        """Kills a client with requests in flight."""
        program = (
            "import socket, sys, threading\n"
            "port, request = int(sys.argv[1]), open(sys.argv[2], 'rb').read()\n"
            "def send():\n"
            "    while True:\n"
            "        with socket.create_connection(('127.0.0.1', port)) as to_server:\n"
            "            to_server.sendall(request)\n"
            "            to_server.recv(1)\n"
            "            print(flush=True)\n"
            "for _ in range(16):\n"
            "    threading.Thread(target=send).start()\n"
        )
        image = Request("image", "pre", {"encoded": strings([jpegs.photo_jpeg(480, 640)])})
        with tempfile.NamedTemporaryFile() as file:
            file.write(http_request(image))
            file.flush()
            command = [sys.executable, "-c", program, str(self.server.ports.http), file.name]
            with subprocess.Popen(command, stdout=subprocess.PIPE) as client:
                assert client.stdout is not None  # PIPE above
                client.stdout.readline()
                time.sleep(0.02)
                client.kill()
        self.tally.disturbed["killed clients"] += 1

    def _fill_shared_memory(self) -> None:
        """Leaves no byte free in /dev/shm for a while."""
        # A Python model needs more of it where it was loaded a moment ago.
        self._refusing |= dict.fromkeys(PYTHON_MODELS, math.inf)
        with tempfile.NamedTemporaryFile(dir=SHARED_MEMORY, prefix="endcap-soak-") as file:
            _fill(file.fileno(), SHARED_MEMORY)
            time.sleep(0.2)
        self._refusing |= dict.fromkeys(PYTHON_MODELS, time.monotonic())
        self.tally.disturbed["full /dev/shm"] += 1

    def _reload(self) -> None:
        with grpc_client.InferenceServerClient(self.server.grpc) as client:
            client.load_model("pre")
        self.tally.disturbed["model reloads"] += 1


def http_request(request: Request) -> bytes:
    """Returns a request for one model as it goes to the server's HTTP port."""
    body, json_bytes = http_client.InferenceServerClient.generate_request_body(
        http_inputs(request.inputs)
    )
    lengths = f"Content-Length: {len(body)}\r\nInference-Header-Content-Length: {json_bytes}"
    head = f"POST /v2/models/{request.model}/infer HTTP/1.1\r\nHost: localhost\r\n{lengths}\r\n\r\n"
    return head.encode() + bytes(body)


def _fill(file: int, folder: Path) -> None:
    """Lets an open file take all bytes that are free in its folder, which others use meanwhile."""
    while True:
        try:
            os.posix_fallocate(file, 0, os.fstat(file).st_size + shutil.disk_usage(folder).free)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
        else:
            return


def children(parent: int) -> Iterator[tuple[int, str]]:
    """Yields the process id and the command line of each process that `parent` started."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):  # it has ended meanwhile
                about = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(about[1]) == parent:
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    yield int(entry.name), command


def resident(server: int) -> dict[str, int]:
    """Returns the bytes of memory that the server and its stubs hold each on their own."""
    stubs = [pid for pid, command in children(server) if "python_backend_stub" in command]
    shared = sum(file.stat().st_blocks * 512 for file in SHARED_MEMORY.iterdir())
    return {
        "server": _private_bytes(server),
        "stubs": sum(_private_bytes(pid) for pid in stubs),
        "shared memory": shared,
    }


def _private_bytes(pid: int) -> int:
    with contextlib.suppress(OSError):  # a killed stub
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssAnon"):
                return int(line.split()[1]) * 1024
    return 0


def _show_progress(sent: int, requests: int, started: float, tally: Tally) -> None:
    seconds = time.monotonic() - started
    memory = {name: f"{value >> 20} MiB" for name, value in tally.memory[-1][1].items()}
    line = f"{sent}/{requests}  {sent / seconds:.0f}/s  {memory}  wrong: {len(tally.wrong)}"
    print(f"\r{line:<110}", end="", file=sys.stderr, flush=True)


def summarize(tally: Tally, requests: int) -> dict[str, Any]:
    """Returns the figures of a run: counts, and memory half way and at the end (medians)."""
    growth = {}
    for name in ("server", "stubs", "shared memory"):
        half, end = (
            statistics.median(
                held[name] for sent, held in tally.memory if low <= sent / requests <= high
            )
            for low, high in ((0.4, 0.6), (0.8, 1.0))
        )
        growth[name] = {"half_way": int(half), "at_the_end": int(end)}
    return {
        "requests": requests,
        "responded": dict(sorted(tally.responded.items())),
        "disturbances": dict(sorted(tally.disturbed.items())),
        "wrong": tally.wrong[:100],
        "wrong_count": len(tally.wrong),
        "memory_bytes": growth,
    }


def run_soak(requests: int, *, disturbed_every: int, seed: int) -> dict[str, Any]:
    """Runs the server and the requests; returns the figures."""
    with tempfile.TemporaryDirectory(prefix="endcap-soak-") as folder:
        repository = Path(folder)
        write_repository(repository)
        options = ("--model-control-mode=explicit", "--load-model=*")
        with run_server(repository, *options) as server:
            soak = Soak(server, requests, disturbed_every=disturbed_every, seed=seed)
            try:
                asyncio.run(soak.run())
            except BaseException:
                print("\nthe last lines of the server's log:", file=sys.stderr)
                print(*server.log.lines()[-LINES_SHOWN:], sep="\n", file=sys.stderr)
                raise
            print(file=sys.stderr)
            return summarize(soak.tally, requests)


def own_shared_memory(command: list[str]) -> list[str]:
    """Returns `command` so that it runs with a /dev/shm of its own, which it may fill."""
    mount = f'mount -t tmpfs -o size={SHARED_MEMORY_MB}m tmpfs {SHARED_MEMORY} && exec "$@"'
    root = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", "--mount", *root, "sh", "-c", mount, "sh", *command]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=200_000)
    parser.add_argument(
        "--disturb-every",
        type=int,
        default=1000,
        metavar="N",
        help="in each N requests a model's process or a client is killed, /dev/shm is filled, "
        "connections are abandoned or a model is loaded again (default: 1000)",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="a JSON file for the figures")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if not given.inside:
        environment = ENVIRONMENT | os.environ
        command = [sys.executable, "-m", "tests.triton.soak", "--inside", *sys.argv[1:]]
        return subprocess.run(own_shared_memory(command), env=environment, check=False).returncode
    figures = run_soak(given.requests, disturbed_every=given.disturb_every, seed=given.seed)
    print(json.dumps(figures, indent=2))
    if given.output is not None:
        given.output.write_text(json.dumps(figures, indent=2) + "\n")
    # Not shared memory: Triton keeps the region of a killed stub until the server ends.
    memory = {name: figures["memory_bytes"][name] for name in ("server", "stubs")}
    grown = [
        name
        for name, held in memory.items()
        if held["at_the_end"] > held["half_way"] * (1 + MOST_GROWTH)
    ]
    return 1 if figures["wrong_count"] or grown else 0


if __name__ == "__main__":
    sys.exit(main())
