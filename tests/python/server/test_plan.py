"""What is looked at before a Triton server starts: server, backends, repository, Python."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
from echo_model import TENSORS, write_echo_model, write_model

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
from endcap.server.backends import compose_backend_directory
from endcap.server.models import TRITON_DEFAULT_POOL_MB, pool_megabytes
from endcap.server.plan import plan_launch
from endcap.triton.installation import OUR_BACKENDS, gpu_count
from endcap.triton.model_folder import read_repository

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


@pytest.mark.usefixtures("only_the_wheel")
def test_path_comes_before_the_wheel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wheel = locate_server()
    (tmp_path / "tritonserver").symlink_to(wheel.executable)
    monkeypatch.setenv("PATH", str(tmp_path))
    on_path = locate_server()
    assert on_path.origin == "PATH"
    assert on_path.executable == wheel.executable
    assert on_path.library_dir == wheel.library_dir


def test_an_explicit_server_may_be_a_file_or_a_folder() -> None:
    found = locate_server().executable
    assert locate_server(found).executable == found
    assert locate_server(found.parent.parent).origin == "option"
    with pytest.raises(ServerError, match=r"--tritonserver .* is not a program"):
        locate_server(Path(__file__))


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


@pytest.mark.parametrize(
    ("version", "wanted", "given"),
    [
        ("2.69.0", True, True),
        ("2.69.0", False, False),
        ("2.68.0", True, False),
        (None, True, False),
    ],
)
def test_clients_shared_memory_is_allowed_by_who_has_that_option(
    version: str | None, wanted: bool, given: bool, tmp_path: Path
) -> None:
    executable = tmp_path / "opt" / "bin" / "tritonserver"
    executable.parent.mkdir(parents=True)
    executable.touch(mode=0o755)
    if version is not None:
        (tmp_path / "opt" / "TRITON_VERSION").write_text(f"{version}\n")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    settings = ServerSettings(tritonserver=executable, ports=FREE, client_shared_memory=wanted)
    repository = tmp_path / "models"
    write_model(repository, "none", "")
    plan = plan_launch(repository, settings, scratch)
    assert ("--allow-client-shm=true" in plan.command) == given


def test_a_server_gets_no_variables_of_vertex_ai(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With AIP_MODE it would listen on all addresses, without its restrictions."""
    executable = tmp_path / "opt" / "bin" / "tritonserver"
    executable.parent.mkdir(parents=True)
    executable.touch(mode=0o755)
    (tmp_path / "scratch").mkdir()
    write_model(tmp_path / "models", "none", "")
    monkeypatch.setenv("AIP_MODE", "PREDICTION")
    monkeypatch.setenv("AIP_HTTP_PORT", "8080")
    monkeypatch.setenv("KEPT", "1")
    settings = ServerSettings(tritonserver=executable, ports=FREE)
    environment = plan_launch(tmp_path / "models", settings, tmp_path / "scratch").environment
    assert not [name for name in environment if name.startswith("AIP_")]
    assert environment["KEPT"] == "1"


def plan_for(version: str, folder: Path) -> list[str]:
    """The command for a server that has its version written down."""
    executable = folder / "opt" / "bin" / "tritonserver"
    executable.parent.mkdir(parents=True)
    executable.touch(mode=0o755)
    (folder / "opt" / "TRITON_VERSION").write_text(f"{version}\n")
    (folder / "scratch").mkdir()
    write_model(folder / "models", "none", "")
    settings = ServerSettings(tritonserver=executable, ports=FREE)
    return plan_launch(folder / "models", settings, folder / "scratch").command


@pytest.mark.parametrize(("version", "given"), [("2.41.0", True), ("2.40.0", False)])
def test_apis_are_closed_by_servers_that_can(version: str, given: bool, tmp_path: Path) -> None:
    command = plan_for(version, tmp_path)
    closed = [word.partition(":")[0] for word in command if "restricted" in word]
    apis = "model-repository,trace,logging,shared-memory"
    options = [f"--http-restricted-api={apis}", f"--grpc-restricted-protocol={apis}"]
    assert closed == (options if given else [])


def test_missing_compiled_backends_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(endcap, "__path__", [str(tmp_path)])
    with pytest.raises(ServerError, match=f"compiled backend {OUR_BACKENDS[0]} is not in this"):
        compose_backend_directory(tmp_path, locate_server())


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
    def plan(config_name: str, *models: str) -> None:
        settings = ServerSettings(ports=FREE, models=models, config_name=config_name)
        scratch = tmp_path / "scratch"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        plan_launch(tmp_path / "models", settings, scratch)

    for name in ("plain", "other"):
        write_model(tmp_path / "models", name, 'backend: "endcap_preprocess"' + TENSORS)
    with pytest.raises(ServerError, match=r"has a configs/nosuch\.pbtxt; leave --config-name out"):
        plan("nosuch")
    configs = tmp_path / "models" / "other" / "configs"
    configs.mkdir()
    for name in ("small", "large"):
        (configs / f"{name}.pbtxt").write_text('backend: "endcap_preprocess"' + TENSORS)
    with pytest.raises(
        ServerError, match=r"nosuch\.pbtxt; .* they have \(large, small\), or leave"
    ):
        plan("nosuch")
    plan("small")
    with pytest.raises(ServerError, match=r"configs/small\.pbtxt; leave --config-name out"):
        plan("small", "plain")


def test_numpy_2_is_refused_for_python_models(
    monkeypatch: pytest.MonkeyPatch, echo_repository: Path
) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "2.1.3")
    with pytest.raises(ServerError, match=r"NumPy 2\.1\.3 .*\(echo\) .*`pip install 'numpy<2'`"):
        TritonServer(echo_repository, ServerSettings(ports=FREE)).start()


def test_a_stub_that_lacks_a_library_is_refused(tmp_path: Path) -> None:
    stub = tmp_path / "stub"
    stub.write_text(
        "#!/bin/sh\necho 'stub: error while loading shared libraries: a.so' >&2; exit 127\n"
    )
    stub.chmod(0o755)
    with pytest.raises(ServerError, match=r"a\.so; libpython3.*apt-get install libpython3"):
        python_stub.check_stub_runs(stub, {})


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
