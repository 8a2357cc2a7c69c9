"""A Triton server with both ends of a pipeline on the GPU or on the CPU, and requests to it."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import struct
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import endcap

_START_SECONDS = 60
_POOL_BYTES = 4 << 30  # of GPU memory, for tensors between the steps
_REPOSITORY = Path(__file__).resolve().parents[3] / "model_repository"
_METRIC = re.compile(r"^(\w+)\{(.*)\} (\S+)$", re.MULTILINE)
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
# One anchor, whose class and coefficients are 0: no detection.
HEAD = np.zeros((1, 8, 1), np.float32)


@dataclass(frozen=True)
class Pipeline:
    """A pair of models and the ensemble of them.

    There is no network between the two: postprocess takes the images as the prototypes of
    ``yolov8_seg``, and a head of one anchor from the client. So the tensor of images is made by one
    step and read by the next where it lies.

    Attributes:
        name: of the ensemble.
        kind: KIND_GPU or KIND_CPU, of both models.
        decode: ``exact`` or ``fast``.
    """

    name: str
    kind: str
    decode: str = "exact"

    @property
    def steps(self) -> tuple[str, str]:
        """The names of both models."""
        return f"{self.name}_pre", f"{self.name}_post"


PIPELINES = (
    Pipeline("gpu", "KIND_GPU"),
    Pipeline("gpu_fast", "KIND_GPU", "fast"),
    Pipeline("cpu", "KIND_CPU"),
)
_BATCH = 16
_POSTPROCESS = {
    **{"head": "yolov8_seg", "num_classes": "1", "mask_coefficients": "3"},
    **{"prototype_size": "640,640", "input_size": "640,640"},
}
_ENSEMBLE = """
platform: "ensemble"
max_batch_size: {batch}
input {{ name: "encoded" data_type: TYPE_STRING dims: [ 1 ] }}
input {{ name: "head" data_type: TYPE_FP32 dims: [ 8, 1 ] }}
output {{ name: "geometry" data_type: TYPE_FP32 dims: [ 8 ] }}
output {{ name: "num_detections" data_type: TYPE_INT32 dims: [ 1 ] }}
ensemble_scheduling {{
  step {{
    model_name: "{pre}" model_version: -1
    input_map {{ key: "encoded" value: "encoded" }}
    output_map {{ key: "images" value: "images" }}
    output_map {{ key: "geometry" value: "geometry" }}
  }}
  step {{
    model_name: "{post}" model_version: -1
    input_map {{ key: "head" value: "head" }}
    input_map {{ key: "protos" value: "images" }}
    output_map {{ key: "num_detections" value: "num_detections" }}
  }}
}}
"""


def write_repository(folder: Path, pipelines: Sequence[Pipeline]) -> None:
    """Write the models of pipelines; preprocess is the shipped model."""
    for pipeline in pipelines:
        pre, post = pipeline.steps
        instances = f"instance_group [ {{ kind: {pipeline.kind} count: 2 }} ]\n"
        shutil.copytree(_REPOSITORY / "preprocess", folder / pre)
        config = folder / pre / "config.pbtxt"
        text = re.sub(r'^name: ".*"$', f'name: "{pre}"', config.read_text(), flags=re.MULTILINE)
        config.write_text(text + _parameters({"decode": pipeline.decode}) + instances)
        (folder / post / "1").mkdir(parents=True)
        (folder / post / "config.pbtxt").write_text(
            f'backend: "endcap_postprocess"\nmax_batch_size: {_BATCH}\n'
            + _parameters(_POSTPROCESS)
            + "dynamic_batching { }\n"
            + instances
        )
        (folder / pipeline.name / "1").mkdir(parents=True)
        ensemble = _ENSEMBLE.format(batch=_BATCH, pre=pre, post=post)
        (folder / pipeline.name / "config.pbtxt").write_text(ensemble)


def _parameters(values: dict[str, str]) -> str:
    return "".join(
        f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n'
        for key, value in values.items()
    )


@dataclass(frozen=True)
class Server:
    """A running server: its ports on this machine."""

    http: int
    metrics: int

    def unavailable(self) -> dict[str, str]:
        """Return the models that could not be loaded, each with the reason."""
        request = f"http://127.0.0.1:{self.http}/v2/repository/index"
        with _OPENER.open(urllib.request.Request(request, data=b"{}"), timeout=10) as response:
            models = json.loads(response.read())
        return {
            model["name"]: model.get("reason", "not loaded")
            for model in models
            if model.get("state") != "READY"
        }

    def metric(self, name: str, model: str) -> float:
        """Return the value of a metric of a model.

        Raises:
            KeyError: the server has none of that name for the model.
        """
        with _OPENER.open(f"http://127.0.0.1:{self.metrics}/metrics", timeout=10) as response:
            text = response.read().decode()
        for found, labels, value in _METRIC.findall(text):
            if found == name and f'model="{model}"' in labels:
                return float(value)
        raise KeyError(f"the server has no {name} of {model}")

    def mean_batch(self, model: str) -> float:
        """Return how many requests a model has worked on at once, on average."""
        url = f"http://127.0.0.1:{self.http}/v2/models/{model}/stats"
        with _OPENER.open(url, timeout=10) as response:
            stats = json.loads(response.read())["model_stats"][0]
        return float(stats["inference_count"]) / max(1.0, float(stats["execution_count"]))


@contextmanager
def running(server: Path, repository: Path, log: Path, *, gpu: bool) -> Iterator[Server]:
    """Run `server`/bin/tritonserver with the libraries of `server`/lib.

    Args:
        server: folder with bin/ and lib/.
        repository: the models; those that cannot be loaded are named by Server.unavailable.
        log: file that gets the server's output.
        gpu: whether there is a GPU whose memory tensors between steps take.
    """
    http, metrics = _free_ports(2)
    backends = next(
        folder / "backends"
        for folder in map(Path, endcap.__path__)
        if (folder / "backends").is_dir()
    )
    command = [
        str(server / "bin" / "tritonserver"),
        f"--model-repository={repository}",
        f"--backend-directory={backends}",
        f"--http-port={http}",
        f"--metrics-port={metrics}",
        "--allow-grpc=false",
        "--allow-gpu-metrics=false",
        "--exit-on-error=false",
        *([f"--cuda-memory-pool-byte-size=0:{_POOL_BYTES}"] if gpu else []),
    ]
    # The driver's library may be found by the path that is set.
    places = [str(server / "lib"), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    environment = {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(places)}
    with log.open("wb") as stream:
        process = subprocess.Popen(
            command, stdout=stream, stderr=subprocess.STDOUT, env=environment
        )
    try:
        _wait_until_live(process, http, log)
        yield Server(http, metrics)
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()


def _wait_until_live(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            _OPENER.open(f"http://127.0.0.1:{port}/v2/health/live", timeout=2).close()
            return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"the server did not become live:\n{log.read_text()[-4000:]}")


def request_bytes(
    model: str, file: bytes, outputs: Sequence[str], *, with_head: bool = False
) -> bytes:
    """Return a whole HTTP request that sends one file and requests some of the outputs."""
    element = struct.pack("<I", len(file)) + file
    tensors = [("encoded", "BYTES", [1, 1], element)]
    if with_head:
        tensors.append(("head", "FP32", list(HEAD.shape), HEAD.tobytes()))
    inputs = [
        {
            "name": name,
            "datatype": datatype,
            "shape": shape,
            "parameters": {"binary_data_size": len(data)},
        }
        for name, datatype, shape, data in tensors
    ]
    wanted = [{"name": name, "parameters": {"binary_data": True}} for name in outputs]
    described = json.dumps({"inputs": inputs, "outputs": wanted}).encode()
    body = described + b"".join(data for *_, data in tensors)
    header = (
        f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Inference-Header-Content-Length: {len(described)}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return header.encode() + body


class Connection:
    """One connection that stays open."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def exchange(self, request: bytes) -> bytes:
        """Send a request; return the tensors of the response, one after the other.

        Raises:
            RuntimeError: the response is an error.
        """
        self._socket.sendall(request)
        received = b""
        while b"\r\n\r\n" not in received:
            received += self._more()
        header, _, body = received.partition(b"\r\n\r\n")
        length = _field(header, b"content-length")
        parts = [body]
        missing = length - len(body)
        while missing > 0:
            parts.append(self._more())
            missing -= len(parts[-1])
        body = b"".join(parts)
        if not header.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(body.decode(errors="replace"))
        return body[_field(header, b"inference-header-content-length") :]

    def _more(self) -> bytes:
        received = self._socket.recv(1 << 20)
        if not received:
            raise RuntimeError("the server closed the connection")
        return received


def _field(header: bytes, name: bytes) -> int:
    found = re.search(rb"^" + name + rb": *(\d+)", header, re.MULTILINE | re.IGNORECASE)
    if found is None:
        raise RuntimeError(f"the response has no {name.decode()}")
    return int(found[1])
