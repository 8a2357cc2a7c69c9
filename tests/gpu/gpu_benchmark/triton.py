"""A Triton server that preprocesses on the GPU and on the CPU, and HTTP requests to it."""

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

import endcap

KINDS = ("KIND_GPU", "KIND_CPU")
_START_SECONDS = 90
_PACKAGE = Path(endcap.__file__).parent
_REPOSITORY = Path(__file__).resolve().parents[3] / "model_repository"


def model_of(kind: str) -> str:
    """The name of the model with instances of a kind."""
    return f"preprocess_{kind.lower()}"


def write_repository(folder: Path, kinds: Sequence[str]) -> None:
    """The shipped preprocess model once for each kind of instance."""
    for kind in kinds:
        model = folder / model_of(kind)
        shutil.copytree(_REPOSITORY / "preprocess", model)
        config = model / "config.pbtxt"
        text = config.read_text()
        renamed = re.sub(r'^name: ".*"$', f'name: "{model.name}"', text, flags=re.MULTILINE)
        config.write_text(f"{renamed}\ninstance_group [ {{ kind: {kind} count: 2 }} ]\n")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(server: Path, repository: Path) -> Iterator[int]:
    """Starts `server`/bin/tritonserver with the libraries of `server`/lib; gives its HTTP port."""
    port = _free_port()
    log = repository.parent / "tritonserver.log"
    backends = next(
        folder / "backends"
        for folder in map(Path, endcap.__path__)
        if (folder / "backends").is_dir()
    )
    command = [
        server / "bin" / "tritonserver",
        f"--model-repository={repository}",
        f"--backend-directory={backends}",
        f"--http-port={port}",
        "--allow-grpc=false",
        "--allow-metrics=false",
    ]
    # The driver's library may be found by the path that is set.
    places = [str(server / "lib"), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    environment = {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(places)}
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [*map(str, command)], stdout=stream, stderr=subprocess.STDOUT, env=environment
        )
    try:
        _wait_until_ready(process, port, log)
        yield port
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            opener.open(f"http://127.0.0.1:{port}/v2/health/ready", timeout=2).close()
            return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"the server did not become ready:\n{log.read_text()[-4000:]}")


def request_bytes(model: str, file: bytes, outputs: Sequence[str]) -> bytes:
    """A whole HTTP request that sends one file and asks for some of the outputs."""
    element = struct.pack("<I", len(file)) + file
    encoded = {
        "name": "encoded",
        "datatype": "BYTES",
        "shape": [1, 1],
        "parameters": {"binary_data_size": len(element)},
    }
    wanted = [{"name": name, "parameters": {"binary_data": True}} for name in outputs]
    question = json.dumps({"inputs": [encoded], "outputs": wanted}).encode()
    header = (
        f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Inference-Header-Content-Length: {len(question)}\r\n"
        f"Content-Length: {len(question) + len(element)}\r\n\r\n"
    )
    return header.encode() + question + element


@dataclass(frozen=True)
class Answer:
    """The parts of a response: the JSON in front, and the tensors behind it."""

    description: dict[str, object]
    tensors: bytes


class Connection:
    """One connection that stays open."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def exchange(self, request: bytes) -> Answer:
        """Sends a request and reads the response; RuntimeError unless it is one of success."""
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
        described = _field(header, b"inference-header-content-length")
        return Answer(json.loads(body[:described]), body[described:])

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
