"""Writes the model repository of the benchmark: `detect` around a network that costs nothing."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from benchmarks.clients.picture import IMAGE, tensor
from benchmarks.paths import ROOT
from benchmarks.server.repository import SHIPPED, write_models

_OWN_MODELS = Path(__file__).resolve().parent / "models"
_SOURCE = Path(__file__).resolve().parent / "recorded_network.cc"
_PAGE_VALUES = 1024


class CompileError(Exception):
    """The network's stand-in cannot be compiled; the message says why."""


def write(folder: Path) -> None:
    """Replace `folder` by the models, the head of IMAGE recorded. Raises CompileError."""
    sources = [SHIPPED / name for name in ("preprocess", "postprocess", "detect")]
    write_models(folder, [*sources, _OWN_MODELS / "detector"])
    version = folder / "detector" / "1"
    images = tensor(IMAGE.read_bytes()).images
    session = onnxruntime.InferenceSession(
        SHIPPED / "detector" / "1" / "model.onnx", providers=["CPUExecutionProvider"]
    )
    (head,) = session.run(None, {"images": images})
    (version / "recorded.bin").write_bytes(recording(images, np.asarray(head)))
    compile_network(version / "libtriton_recorded_network.so")


def recording(images: NDArray[np.float32], head: NDArray[np.float32]) -> bytes:
    """What recorded_network.cc reads: a fingerprint of the tensor, and its head."""
    fingerprint = images.view(np.uint32).ravel()[::_PAGE_VALUES].sum(dtype=np.uint32)
    return struct.pack("<I", int(fingerprint)) + head.astype("<f4").tobytes()


def compile_network(library: Path) -> None:
    """Compile the backend; the server provides Triton's functions. Raises CompileError."""
    compiler = shutil.which("g++")
    if compiler is None:
        raise CompileError("there is no C++ compiler `g++`: apt-get install g++")
    backends = ROOT / "backends"
    options = ["-std=c++20", "-O2", "-shared", "-fPIC", "-static-libstdc++", f"-I{backends}"]
    exports = f"-Wl,--version-script={backends / 'exports.map'}"
    command = [compiler, *options, exports, "-o", str(library), str(_SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CompileError(f"{_SOURCE.name} cannot be compiled: {done.stderr.strip()}")
