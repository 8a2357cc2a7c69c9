"""The checks of `endcap doctor`: what each finds, and what it says to do."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import pytest

import endcap
from endcap.doctor import Severity, gpu
from endcap.doctor import server as server_checks
from endcap.errors import ServerError
from endcap.server import locate, python_stub
from endcap.server.private_server import private_server_folder
from endcap.server.python_stub import LIBPYTHON, PYTHON_VERSION
from tests.support.damage import SHIPPED, copy_model
from tests.support.doctor_world import (
    World,
    check,
    copied_server,
    doctor,
    expect,
    in_own_mounts,
    replace_needed,
    wheel_server,
)
from tests.support.echo_model import ECHO, TENSORS, write_echo_model, write_model

OK, NOTE, WARNING, ERROR = Severity
NOT_HERE = ["nvidia", "nvidia_dali*", "numpy-*", "onnxruntime*"]


# --- endcap and the server ------------------------------------------------------------------------


def test_missing_backend_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENDCAP_BACKENDS", str(tmp_path))
    expect(
        check("endcap", SHIPPED),
        ERROR,
        "compiled backend endcap_preprocess is not in this installation",
        "-> unset ENDCAP_BACKENDS",
    )


def test_no_server_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(locate, "CONTAINER_EXECUTABLE", tmp_path / "no" / "tritonserver")
    monkeypatch.setattr(locate, "WHEEL_PACKAGE", "a_package_that_nobody_has")
    expect(
        check("server", SHIPPED),
        NOTE,
        "no Triton server was found on $PATH, at ",
        "-> `endcap serve` installs it at its first start",
    )
    assert not (tmp_path / "cache").exists()
    for name in ("model_backends", "python_stub", "libpython", "numpy"):
        assert check(name, SHIPPED).found == "not checked: there is no server", name
    # An empty folder in the place of endcap's own server is an error.
    private_server_folder().mkdir(parents=True)
    expect(check("server", SHIPPED), ERROR, "has no pytriton/", "-> move the folder away")


def test_invalid_server_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def expect_error(program: Path, *parts: str) -> None:
        found = check("server", SHIPPED, tritonserver=program)
        expect(found, ERROR, *parts, "bin/tritonserver")

    expect_error(tmp_path, f"--tritonserver {tmp_path} is not a program")
    expect_error(Path("/bin/ls"), "ls is not tritonserver: its --help does not name --model-repos")
    program = tmp_path / "tritonserver"
    program.write_bytes(b"\0 half a download")
    program.chmod(0o755)
    expect_error(program, f"{program} is not tritonserver: Exec format error")
    program.write_text("#!/bin/sh\nexec sleep 50\n")
    monkeypatch.setattr(server_checks, "_HELP_WITHIN_S", 0.5)
    expect_error(program, f"{program} is not tritonserver: no response in 0.5 s")


def test_a_library_of_the_server_is_missing(tmp_path: Path) -> None:
    server = copied_server(tmp_path)
    whole = check("server", SHIPPED, tritonserver=server)
    assert whole.severity is OK
    assert f"(option: {tmp_path}" in whole.found
    (library,) = (tmp_path / "nvidia_pytriton.libs").glob("libb64-*")
    library.unlink()
    expect(
        check("server", SHIPPED, tritonserver=server),
        ERROR,
        f"{server}/bin/tritonserver needs {library.name}, which the loader does not find",
        "pip install --force-reinstall --no-deps nvidia-pytriton",
    )


@pytest.mark.parametrize(("version", "old"), [("2.9999.0", False), ("2.51.0", True)])
def test_the_release_of_a_server(version: str, old: bool, tmp_path: Path) -> None:
    server = copied_server(tmp_path)
    (server / "TRITON_VERSION").write_text(f"{version}\n")
    found = check("server", SHIPPED, tritonserver=server).found
    assert found.startswith(f"tritonserver {version}, release ")
    assert ("see https://www.nvidia.com/en-us/security/" in found) is old


# --- the repository -------------------------------------------------------------------------------


def test_a_repository_that_cannot_be_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect(check("repository", tmp_path / "no"), ERROR, "no is not a folder", "give a folder of")
    repository = write_model(tmp_path / "my models", "echo", "", ECHO)
    (repository / "echo" / "config.pbtxt").write_text("parameters { key: ")
    expect(
        check("repository", repository),
        ERROR,
        f"{repository}/echo/config.pbtxt: ",
        f"-> `endcap validate '{repository}'` says what to do",
    )
    monkeypatch.setitem(sys.modules, "tritonclient.grpc.model_config_pb2", None)
    expect(check("repository", repository), NOTE, "takes tritonclient, which cannot be", "-> run")


def test_backends_that_the_server_does_not_have(tmp_path: Path) -> None:
    write_model(tmp_path, "own", 'backend: "of_my_own"' + TENSORS)
    (tmp_path / "own" / "1" / "libtriton_of_my_own.so").touch()
    assert check("model_backends", tmp_path).severity is OK
    write_model(tmp_path, "network", 'backend: "onnxruntime"' + TENSORS)
    expect(
        check("model_backends", tmp_path),
        ERROR,
        "the server has no such backend: network needs onnxruntime (it has endcap_bls, ",
        'write backend: "endcap_onnx" for "onnxruntime"',
        "--tritonserver PATH",
    )
    write_model(tmp_path, "engine", 'backend: "tensorrt"' + TENSORS)
    expect(
        check("model_backends", tmp_path), ERROR, "engine needs tensorrt", 'backend: "python" and'
    )


def test_the_library_of_onnx_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy_model("detector", tmp_path)
    found = check("onnxruntime", tmp_path)
    assert found.severity is OK
    assert Path(found.found).name.startswith("libonnxruntime.so")
    monkeypatch.setenv("ENDCAP_ONNXRUNTIME", str(tmp_path / "absent.so"))
    expect(check("onnxruntime", tmp_path), ERROR, "absent.so is not a file", "unset ENDCAP_ONNXR")


# --- Python models --------------------------------------------------------------------------------


def test_an_environment_without_packages(tmp_path: Path) -> None:
    """Only the metadata are those of NumPy 2: the core of this environment is built for NumPy 1."""
    wheel_server()
    world = World(tmp_path / "world", without=NOT_HERE)
    world.add_distribution("numpy", "2.1.3")
    report = world.doctor()
    report.expect("numpy", "error", "NumPy 2.1.3 makes", "detector_python", "`pip install 'numpy<2")
    report.expect("onnxruntime", "error", "classifier, detector run in", "`pip install onnxruntime")
    report.expect("dali", "note", "DALI is not installed", "`pip install 'nvidia-")
    assert report.errors == {"numpy", "onnxruntime"}
    assert f"installed in {world.endcap}" in report.findings["endcap"]["found"]


def test_numpy_2_does_no_harm_without_python_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel_server()
    monkeypatch.setattr("importlib.metadata.version", lambda name: "2.1.3")
    repository = write_model(tmp_path, "preprocess", 'backend: "endcap_preprocess"')
    expect(check("numpy", repository), NOTE, "NumPy 2.1.3", "pip install 'numpy<2'")


def test_no_stub_for_this_python(tmp_path: Path) -> None:
    server = copied_server(tmp_path)
    (server / "python_backend_stubs" / PYTHON_VERSION / "triton_python_backend_stub").unlink()
    repository = write_echo_model(tmp_path / "models")
    missing = f"no Python-backend stub for Python {PYTHON_VERSION}, only for "
    expect(check("python_stub", repository, tritonserver=server), ERROR, missing, "-> install endc")
    libpython = check("libpython", repository, tritonserver=server)
    assert libpython.found == "not checked: there is no stub"
    optional = 'backend: "python" parameters { key: "optional" value { string_value: "true" } }'
    (repository / "echo" / "config.pbtxt").write_text(optional)
    expect(check("python_stub", repository, tritonserver=server), NOTE, missing)


def test_a_stub_that_does_not_find_libpython(tmp_path: Path) -> None:
    server = copied_server(tmp_path)
    stub = server / "python_backend_stubs" / PYTHON_VERSION / "triton_python_backend_stub"
    replace_needed(stub, LIBPYTHON, "libpython_that_nobody_has.so.1.0")
    expect(
        check("libpython", SHIPPED, tritonserver=server),
        ERROR,
        "libpython_that_nobody_has.so.1.0: cannot open shared object file",
        f"`apt-get install libpython{PYTHON_VERSION}`",
    )


def test_a_python_without_its_python3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel_server()
    monkeypatch.setattr(python_stub.sys, "executable", str(tmp_path / "python3.99"))
    expect(check("libpython", SHIPPED), ERROR, f"{tmp_path} has no python3", "-> install endcap in")


def test_a_server_with_its_own_python(tmp_path: Path) -> None:
    # NVIDIA's container has the stub in the backend's folder. These are the files of the wheel.
    server = copied_server(tmp_path)
    stub = server / "python_backend_stubs" / PYTHON_VERSION / "triton_python_backend_stub"
    stub.rename(server / "backends" / "python" / stub.name)
    for name in ("python_stub", "libpython", "numpy"):
        found = check(name, SHIPPED, tritonserver=server)
        assert (found.severity, "in its own Python" in found.found) == (NOTE, True)


# --- shared memory --------------------------------------------------------------------------------


def test_shared_memory_that_is_too_small(tmp_path: Path) -> None:
    # 16 images of 4 MiB in each of 8 instances.
    large = """
    backend: "python"
    max_batch_size: 16
    input [ { name: "x" data_type: TYPE_FP32 dims: [ 1024, 1024 ] } ]
    instance_group [ { count: 8 kind: KIND_CPU } ]
    """
    repository = write_model(tmp_path / "models", "large", large)
    before = in_own_mounts("mount -t tmpfs -o size=300m tmpfs /dev/shm")
    doctor("--repository", repository, before=before).expect(
        "shared_memory",
        "warning",
        "300 MiB are free in /dev/shm, and Python models should have 512 MiB",
        "`docker run --shm-size=1g`",
        "or lower max_batch_size",
    )


def test_shared_memory_that_cannot_be_written(tmp_path: Path) -> None:
    folder = tmp_path / "nowhere"
    expect(
        check("shared_memory", SHIPPED, shared_memory=folder),
        ERROR,
        f"{folder} cannot be written: No such file or directory",
        f"`mount -t tmpfs -o size=1g tmpfs {folder}`",
    )


# --- GPU ------------------------------------------------------------------------------------------

GPU_CODE = endcap.CudaState(
    available=True,
    reason="",
    library_path="/somewhere/libendcap_cuda.so",
    driver_version=13010,
    runtime_version=13000,
    architectures="75-real 90-real",
    devices=(endcap.CudaDevice(0, "Some GPU", (9, 0), 132, 1 << 36, True),),
)
OLD_GPU = endcap.CudaDevice(1, "Old GPU", (6, 1), 20, 1 << 33, False)


@pytest.mark.parametrize(
    ("changes", "severity", "found", "problem"),
    [
        ({}, OK, "driver with CUDA 13.1; cuda:0 Some GPU", None),
        ({"devices": (OLD_GPU,)}, NOTE, "cuda:1 Old GPU", "there is no code for cuda:1"),
        (
            {"available": False, "driver_version": 0, "reason": "there is no NVIDIA driver"},
            NOTE,
            "CUDA 13.0 for 75-real 90-real",
            "there is no NVIDIA driver",
        ),
        (
            {"available": False, "reason": "the NVIDIA driver runs CUDA 12.4; install another"},
            WARNING,
            "CUDA 13.0 for 75-real 90-real",
            "the NVIDIA driver runs CUDA 12.4",
        ),
        (
            {"available": False, "runtime_version": 0, "reason": "x.so: invalid ELF header"},
            ERROR,
            "none",
            "x.so: invalid ELF header",
        ),
        (
            {"available": False, "library_path": "", "runtime_version": 0, "reason": "no code"},
            NOTE,
            "none",
            "no code",
        ),
    ],
    ids=["usable", "uncovered", "no driver", "old driver", "broken", "absent"],
)
def test_what_is_said_of_cuda(
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
    severity: Severity,
    found: str,
    problem: str | None,
) -> None:
    state = dataclasses.replace(GPU_CODE, **changes)
    monkeypatch.setattr(gpu, "cuda_state", lambda: state)
    finding = check("cuda", SHIPPED)
    assert (finding.severity, finding.problem) == (severity, problem)
    assert found in finding.found


def test_what_is_said_of_nvjpeg_where_there_is_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = dataclasses.replace(GPU_CODE, devices=(OLD_GPU, *GPU_CODE.devices))
    monkeypatch.setattr(gpu, "cuda_state", lambda: cuda)
    devices: list[int] = []
    for state, severity, problem in (
        (endcap.NvjpegState(True, "", "/x/libnvjpeg.so", "13.0.1"), OK, None),
        (endcap.NvjpegState(False, "no engine; x", "/x/libnvjpeg.so", "13.0.1"), NOTE, "no engine"),
    ):
        monkeypatch.setattr(gpu, "nvjpeg_state", lambda device: devices.append(device) or state)  # noqa: B023
        finding = check("nvjpeg", SHIPPED)
        assert (finding.severity, finding.problem) == (severity, problem)
        assert finding.found == "13.0.1, /x/libnvjpeg.so"
    assert devices == [0, 0]


def test_models_with_a_dali_pipeline_and_no_dali(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_operators() -> Path:
        raise ServerError("the DALI operators are not built; build them")

    monkeypatch.setattr(gpu, "find_operators", find_operators)
    config = copy_model("preprocess_dali", tmp_path) / "config.pbtxt"
    expect(check("dali", tmp_path), NOTE, "the DALI operators are not built -> build them")
    config.write_text(config.read_text().replace('"optional"', '"threads"').replace("true", "1"))
    expect(check("dali", tmp_path), ERROR, "preprocess_dali cannot be loaded: the DALI operators")
