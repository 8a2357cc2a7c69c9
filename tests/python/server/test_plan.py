"""What is looked at before a Triton server starts: server, backends, repository, Python."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import importlib.util
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

import onnxruntime
import pytest

import endcap
from endcap.server import (
    ServerError,
    ServerPorts,
    ServerSettings,
    TritonServer,
    locate,
    locate_server,
    python_stub,
)
from endcap.server.backends import (
    ONNXRUNTIME_VARIABLE,
    compose_backend_directory,
    find_onnxruntime,
)
from endcap.server.models import TRITON_DEFAULT_POOL_MB, pool_megabytes
from endcap.server.plan import LaunchPlan, plan_launch
from endcap.triton.installation import OUR_BACKENDS, gpu_count
from endcap.triton.model_folder import check_config_name, read_repository
from tests.support.echo_model import TENSORS, write_echo_model, write_model

FREE = ServerPorts(http=0, grpc=0, metrics=0)


@pytest.fixture
def echo_repository(tmp_path: Path) -> Path:
    return write_echo_model(tmp_path / "models")


@pytest.fixture
def only_the_wheel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(locate, "CONTAINER_EXECUTABLE", tmp_path / "no" / "tritonserver")


# --- locate ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("only_the_wheel")
def test_the_wheels_server_is_found_without_importing_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "pytriton"]:
        monkeypatch.delitem(sys.modules, name)  # another test's
    installation = locate_server()
    assert installation.origin == "wheel"
    assert os.access(installation.executable, os.X_OK)
    assert installation.library_dir is not None
    assert any(installation.library_dir.glob("libtritonserver*"))
    assert installation.backends_dir is not None
    assert (installation.backends_dir / "python" / "libtriton_python.so").is_file()
    assert installation.stubs_dir is not None
    assert python_stub.find_stub(installation.stubs_dir).is_file()
    assert "pytriton" not in sys.modules


# --- backend folder -------------------------------------------------------------------------------


@pytest.mark.usefixtures("only_the_wheel")
def test_the_backend_folder_has_ours_and_python_with_its_stub(tmp_path: Path) -> None:
    compose_backend_directory(tmp_path, locate_server())
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*OUR_BACKENDS, "python"])
    for name in OUR_BACKENDS:
        assert (tmp_path / name / f"libtriton_{name}.so").is_file()
    stub = tmp_path / "python" / "triton_python_backend_stub"
    assert os.access(stub, os.X_OK)
    assert stub.resolve().parent.name == python_stub.PYTHON_VERSION
    assert (tmp_path / "python" / "libtriton_python.so").is_file()


def test_a_containers_backends_are_linked_whole(tmp_path: Path) -> None:
    root = tmp_path / "opt"
    for path in ("bin/tritonserver", "backends/python/triton_python_backend_stub"):
        (root / path).parent.mkdir(parents=True)
        (root / path).touch(mode=0o755)
    (root / "backends" / "onnxruntime").mkdir()
    (root / "lib").mkdir()
    target = tmp_path / "composed"
    target.mkdir()
    installation = locate_server(root)
    assert installation.library_dir == root / "lib"
    compose_backend_directory(target, installation)
    assert (target / "onnxruntime").readlink() == root / "backends" / "onnxruntime"
    assert (target / "python").readlink() == root / "backends" / "python"
    assert sorted(path.name for path in target.iterdir()) == [
        *sorted(OUR_BACKENDS),
        "onnxruntime",
        "python",
    ]


def plan_for(folder: Path, version: str, **options: Any) -> LaunchPlan:
    """The plan for a server that has its version written down, with a model without a backend."""
    executable = folder / "opt" / "bin" / "tritonserver"
    executable.parent.mkdir(parents=True)
    executable.touch(mode=0o755)
    (folder / "opt" / "TRITON_VERSION").write_text(f"{version}\n")
    (folder / "scratch").mkdir()
    write_model(folder / "models", "none", "")
    settings = ServerSettings(tritonserver=executable, ports=FREE, **options)
    return plan_launch(folder / "models", settings, folder / "scratch")


@pytest.mark.parametrize(
    ("version", "shared", "closed", "allowed"),
    [
        ("2.40.0", False, None, False),
        ("2.41.0", False, "model-repository,trace,logging,shared-memory", False),
        ("2.68.0", True, "model-repository,trace,logging", False),
        ("2.69.0", True, "model-repository,trace,logging", True),
        ("2.69.0", False, "model-repository,trace,logging,shared-memory", False),
        ("main", True, "model-repository,trace,logging", False),
    ],
)
def test_apis_are_closed_by_servers_that_can(
    version: str, shared: bool, closed: str | None, allowed: bool, tmp_path: Path
) -> None:
    command = plan_for(
        tmp_path, version, client_shared_memory=shared, host="0.0.0.0", accept_old_server=True
    ).command
    services = ("http", "grpc", "metrics")
    assert {f"--{service}-address=0.0.0.0" for service in services} <= set(command)
    options = [word.partition(":")[0] for word in command if "restricted" in word]
    names = ("--http-restricted-api", "--grpc-restricted-protocol")
    assert options == ([f"{name}={closed}" for name in names] if closed else [])
    assert ("--allow-client-shm=true" in command) == allowed


def test_a_server_gets_no_variables_of_vertex_ai(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With AIP_MODE it would listen on all addresses, without its restrictions."""
    monkeypatch.setenv("AIP_MODE", "PREDICTION")
    monkeypatch.setenv("KEPT", "1")
    environment = plan_for(tmp_path, "2.41.0").environment
    assert "AIP_MODE" not in environment
    assert environment["KEPT"] == "1"


def test_the_library_of_onnx_runtime_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    option = "--backend-config=endcap_onnx,onnxruntime_library="
    monkeypatch.delenv(ONNXRUNTIME_VARIABLE, raising=False)

    def named(backend: str) -> list[str]:
        folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        write_model(folder / "models", "network", f'backend: "{backend}"')
        (folder / "scratch").mkdir()
        plan = plan_launch(folder / "models", ServerSettings(ports=FREE), folder / "scratch")
        return [word.removeprefix(option) for word in plan.command if word.startswith(option)]

    (library,) = named("endcap_onnx")
    assert Path(library).parent == Path(onnxruntime.__file__).parent / "capi"
    assert Path(library).is_file()
    assert named("endcap_preprocess") == []
    monkeypatch.setenv(ONNXRUNTIME_VARIABLE, "/somewhere/libonnxruntime.so")
    assert named("endcap_onnx") == []


def test_without_the_package_the_servers_own_onnx_runtime_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation = dataclasses.replace(locate_server(), backends_dir=tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert find_onnxruntime(installation) is None
    (tmp_path / "onnxruntime").mkdir()
    (tmp_path / "onnxruntime" / "libonnxruntime.so").touch()
    assert find_onnxruntime(installation) == tmp_path / "onnxruntime" / "libonnxruntime.so"


def test_only_what_the_named_models_need_must_have_been_built(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("endcap_preprocess", "endcap_onnx"):
        (tmp_path / "part" / "backends" / name).mkdir(parents=True)
        (tmp_path / "part" / "backends" / name / f"libtriton_{name}.so").touch()
    monkeypatch.setattr(endcap, "__path__", [str(tmp_path / "part")])
    write_model(tmp_path / "models", "network", 'backend: "endcap_onnx"')
    write_model(tmp_path / "models", "boxes", 'backend: "endcap_postprocess"')

    def linked(*names: str) -> set[str]:
        scratch = tmp_path / f"scratch{'_'.join(names)}"
        scratch.mkdir()
        settings = ServerSettings(models=names, ports=FREE)
        plan_launch(tmp_path / "models", settings, scratch)
        return {path.name for path in (scratch / "backends").glob("endcap_*")}

    assert linked("network") == {"endcap_preprocess", "endcap_onnx"}
    missing = "compiled backend endcap_postprocess is not in this .* `make -C .* build`"
    for names in (("boxes",), ("boxes", "network"), ()):
        with pytest.raises(ServerError, match=missing):
            linked(*names)


# --- what the repository says ---------------------------------------------------------------------


def test_the_pool_holds_two_batches_of_every_fixed_tensor(tmp_path: Path) -> None:
    config = """
    backend: "python"  # backend: "other"
    max_batch_size: 16
    input [ { name: "images" data_type: TYPE_FP32 dims: [ 3, 640, 640 ] } ]
    output [
      { name: "head" data_type: TYPE_FP16 dims: [ 10, 8400 ] },
      { name: "free" data_type: TYPE_FP32 dims: [ -1, 4 ] },
      { name: "text" data_type: TYPE_STRING dims: [ 1 ] }
    ]
    """
    (model,) = read_repository(write_model(tmp_path, "detector", config))
    assert model.backend == "python"
    assert model.tensor_bytes == 16 * (3 * 640 * 640 * 4 + 10 * 8400 * 2)
    assert pool_megabytes([model]) == -(-2 * model.tensor_bytes // 2**20)
    (small,) = read_repository(write_model(tmp_path / "small", "echo", TENSORS))
    assert pool_megabytes([small]) == TRITON_DEFAULT_POOL_MB


@pytest.mark.parametrize(
    ("visible", "count"), [(None, 2), ("-1,0", 0), ("1", 1), ("0,-1,1", 1), ("0,1,2", 2), ("", 0)]
)
def test_hidden_gpus_do_not_count(
    visible: str | None, count: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'GPU 0: NVIDIA H200'\necho 'GPU 1: NVIDIA H200'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert gpu_count() == count


def test_a_configuration_that_no_model_has_is_refused(tmp_path: Path) -> None:
    for name in ("plain", "other"):
        write_model(tmp_path, name, "")
    plain = r"has a configs/nosuch\.pbtxt; leave --config-name out"
    with pytest.raises(ServerError, match=plain):
        check_config_name(read_repository(tmp_path), "nosuch")
    (tmp_path / "other" / "configs").mkdir()
    for name in ("small", "large"):
        (tmp_path / "other" / "configs" / f"{name}.pbtxt").touch()
    with pytest.raises(ServerError, match=r"nosuch\.pbtxt; .* they have \(large, small\), or le"):
        check_config_name(read_repository(tmp_path), "nosuch")
    check_config_name(read_repository(tmp_path), "small")


def test_numpy_2_is_refused_for_python_models(
    monkeypatch: pytest.MonkeyPatch, echo_repository: Path
) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "2.1.3")
    with pytest.raises(ServerError, match=r"NumPy 2\.1\.3 .*\(echo\) .*`pip install 'numpy<2'`"):
        TritonServer(echo_repository, ServerSettings(ports=FREE)).start()


def test_a_virtual_environment_of_copies_has_its_python(tmp_path: Path) -> None:
    venv.create(tmp_path, symlinks=False)
    program = (
        f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"
        "from endcap.server.python_stub import python_program_dir\n"
        "print(python_program_dir())"
    )
    done = subprocess.run(
        [tmp_path / "bin" / "python", "-c", program], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == str(tmp_path / "bin"), done.stderr
