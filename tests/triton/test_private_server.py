"""endcap's own server: installed without a network, and Python models apart from NumPy 2.

The user's environment has NumPy 2 and no server; the server and its packages come from a folder of
wheels, which pip has filled as it is set up here.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpc_client

from tests.support.damage import SHIPPED
from tests.support.doctor_world import World

WITHOUT = (
    *("pytriton", "nvidia_pytriton*", "numpy", "numpy.libs", "numpy-*", "cv2", "opencv*"),
    *("nvidia", "nvidia_dali*", "av", "av-*", "av.libs"),
)
# No index, no folder of wheels, no setting of this machine.
OFFLINE = {
    "PIP_CONFIG_FILE": os.devnull,
    "PIP_INDEX_URL": "http://127.0.0.1:1/simple",
    "PIP_RETRIES": "0",
    "PIP_FIND_LINKS": "",
    "PIP_EXTRA_INDEX_URL": "",
}
CONFIG = """
backend: "python"
input [ { name: "values" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [
  { name: "doubled" data_type: TYPE_FP32 dims: [ -1 ] },
  { name: "told" data_type: TYPE_STRING dims: [ 1 ] }
]
"""
MODEL = """
import importlib.util, json, sys
import numpy as np
import onnxruntime, endcap
from endcap.triton.stage_settings import preprocess_settings
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [self._respond(request) for request in requests]

    def _respond(self, request):
        values = pb_utils.get_input_tensor_by_name(request, "values").as_numpy()
        told = json.dumps({
            "numpy": np.__version__, "numpy_file": np.__file__, "prefix": sys.prefix,
            "endcap": endcap.__version__,
            "has_pytest": importlib.util.find_spec("pytest") is not None,
        })
        return pb_utils.InferenceResponse([
            pb_utils.Tensor("doubled", values * 2),
            pb_utils.Tensor("told", np.array([told.encode()], dtype=np.object_)),
        ])
"""


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> World:
    """An environment with endcap, NumPy 2 and no server."""
    world = World(tmp_path_factory.mktemp("user") / "environment", without=WITHOUT)
    install = ["install", "--quiet", "--no-deps", "--target", str(world.site), "numpy>=2"]
    subprocess.run([sys.executable, "-m", "pip", *install], check=True, timeout=200)
    return world


def from_folder(wheels: Path) -> dict[str, str]:
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)}


@pytest.fixture(scope="module")
def wheelhouse(user: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels") / "wheels"
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary", ":all:"]
    program = "from endcap.server.private_server import *; print(*requirements(), sep='\\n')"
    done = subprocess.run(
        [str(user.python), "-c", program],
        env=variables(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    for wanted in (["--no-deps", "nvidia-pytriton==0.7.0"], done.stdout.splitlines()):
        command = [*download, "--dest", str(folder), *wanted]
        subprocess.run(command, check=True, timeout=280)
    names = {path.name.partition("-")[0] for path in folder.glob("*.whl")}
    assert {"nvidia_pytriton", "numpy", "onnxruntime", "pillow"} <= names
    return folder


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache") / "of the user"


def variables(**more: str) -> dict[str, str]:
    ours = {k: v for k, v in os.environ.items() if not k.startswith(("ENDCAP_", "PYTHON"))}
    return {**ours, "PATH": "/usr/bin:/bin", **more}


@contextmanager
def served(user: World, repository: Path, **more: str) -> Iterator[tuple[str, str]]:
    """The address of `endcap serve` and what it has said on standard error until it was ready."""
    ports = ("--http-port", "0", "--grpc-port", "0", "--metrics-port", "0")
    command = [str(user.python), "-m", "endcap", "serve", str(repository), *ports]
    errors = repository.parent / "stderr"
    with errors.open("w") as stderr:
        process = subprocess.Popen(
            command, env=variables(**more), stdout=subprocess.PIPE, stderr=stderr, text=True
        )
    assert process.stdout is not None
    try:
        address = None
        for line in process.stdout:
            found = re.search(r"grpc://(\S+)", line)
            address = found.group(1) if found else address
            if line.startswith("models"):
                break
        assert address is not None, errors.read_text()
        yield address, errors.read_text()
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 0


def send_request(address: str) -> dict[str, Any]:
    """What the model tells; its other output is right, and not empty as by NumPy 2."""
    values = np.arange(5, dtype=np.float32)
    tensor = grpc_client.InferInput("values", [5], "FP32")
    tensor.set_data_from_numpy(values)
    with grpc_client.InferenceServerClient(address) as client:
        response = client.infer("double", [tensor])
    np.testing.assert_array_equal(response.as_numpy("doubled"), values * 2)
    return dict(json.loads(response.as_numpy("told")[0]))


def write_model(folder: Path) -> Path:
    (folder / "models" / "double" / "1").mkdir(parents=True)
    (folder / "models" / "double" / "config.pbtxt").write_text(CONFIG)
    (folder / "models" / "double" / "1" / "model.py").write_text(MODEL)
    return folder / "models"


def test_compiled_backends_install_no_python_packages(
    user: World, wheelhouse: Path, cache: Path, tmp_path: Path
) -> None:
    for name in ("preprocess", "postprocess"):
        shutil.copytree(SHIPPED / name, tmp_path / "models" / name)
    settings = {**OFFLINE, "XDG_CACHE_HOME": str(cache), **from_folder(wheelhouse)}
    with served(user, tmp_path / "models", **settings) as (_, said):
        assert "installing the Triton server (nvidia-pytriton 0.7.0, 53 MiB)" in said
    (server,) = (path for path in (cache / "endcap" / "server").iterdir() if path.is_dir())
    assert server.name.startswith("nvidia-pytriton-")


@pytest.mark.slow
def test_python_models_run_on_numpy_1_beside_numpy_2(
    user: World, wheelhouse: Path, cache: Path, tmp_path: Path
) -> None:
    repository = write_model(tmp_path)
    settings = {**OFFLINE, "XDG_CACHE_HOME": str(cache)}
    command = [str(user.python), "-c", "import numpy; print(numpy.__version__)"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=variables())
    assert int(done.stdout.partition(".")[0]) >= 2
    with served(user, repository, **{**settings, **from_folder(wheelhouse)}) as (address, said):
        told = send_request(address)
        assert "installing what Python models need" in said
    assert told["numpy"].startswith("1.")
    assert told["numpy_file"].startswith(told["prefix"])
    assert not told["prefix"].startswith(str(user.root))
    assert not told["has_pytest"]  # which the user's environment has

    # Again, without wheels and without an index.
    with served(user, repository, **settings) as (address, said):
        assert send_request(address)["numpy"] == told["numpy"]
        assert "installing" not in said
