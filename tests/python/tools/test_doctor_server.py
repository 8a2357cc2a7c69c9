"""endcap doctor without a server, without parts of it, and without what Python models need."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from damage import SHIPPED
from doctor_world import World, copied_server, doctor, replace_needed, wheel_server
from echo_model import ECHO, TENSORS, write_model

from endcap.cli.files import find_repository
from endcap.server import locate
from endcap.server.private_server import private_server_folder
from endcap.server.python_stub import LIBPYTHON, PYTHON_VERSION
from endcap.tools.doctor import Severity, Subject
from endcap.tools.doctor import server as server_check

PYTHON_MODELS = [
    config.parent.name
    for config in sorted(SHIPPED.glob("*/config.pbtxt"))
    if 'backend: "python"' in config.read_text(encoding="utf-8")
]
NO_PYTHON_MODEL = 'backend: "endcap_preprocess" max_batch_size: 4'


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture
def only_the_wheel() -> None:
    wheel_server()
    if locate.CONTAINER_EXECUTABLE.exists():
        pytest.skip(f"{locate.CONTAINER_EXECUTABLE} is here")


# --- the server -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("only_the_wheel")
def test_no_server_anywhere(tmp_path: Path) -> None:
    world = World(tmp_path / "world", without=["pytriton", "nvidia_pytriton*"])
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    report = world.doctor(environment=environment)
    report.expect(
        "server",
        "note",
        "no Triton server was found on $PATH, at /opt/tritonserver/bin/tritonserver, in a wheel or "
        "in endcap's cache (",
        "`endcap serve` installs it at its first start",
    )
    assert report.errors == set()
    assert not (tmp_path / "cache").exists()
    for name in (
        "server_libraries",
        "model_backends",
        "python_environment",
        "python_stub",
        "python3",
        "libpython",
        "numpy",
        "model_imports",
    ):
        assert report.findings[name]["found"] == "not checked: there is no server", name
    assert report.findings["server_packages"]["severity"] == "ok"  # the server is none of them
    # An empty folder in the place of endcap's own server is an error.
    folder = tmp_path / "cache" / "endcap" / "server" / private_server_folder().name
    folder.mkdir(parents=True)
    report = world.doctor(environment=environment)
    report.expect("server", "error", f"{folder} has no pytriton/", "follow the error message")


def test_a_server_that_is_none(tmp_path: Path) -> None:
    report = doctor("--tritonserver", tmp_path)
    report.expect(
        "server", "error", f"--tritonserver {tmp_path} is not a program", "--tritonserver PATH"
    )


def test_a_program_that_is_no_tritonserver(tmp_path: Path) -> None:
    report = doctor("--tritonserver", "/bin/ls")
    report.expect(
        "server",
        "error",
        "ls is not tritonserver: its --help does not name --model-repository",
        "--tritonserver PATH",
    )
    no_program = tmp_path / "tritonserver"
    no_program.write_bytes(b"\0 half a download")
    no_program.chmod(0o755)
    report = doctor("--tritonserver", no_program)
    report.expect("server", "error", f"{no_program} is not tritonserver: Exec format error")


def test_a_program_that_does_not_respond(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "tritonserver"
    program.write_text("#!/bin/sh\nsleep 50 & echo $! >$0.pid; wait; echo --model-repository\n")
    program.chmod(0o755)
    monkeypatch.setattr(server_check, "HELP_TIMEOUT_S", 1.0)
    subject = Subject(find_repository=find_repository, tritonserver=program)
    finding = server_check.check_server(subject)
    assert finding.severity is Severity.ERROR
    assert (
        finding.problem
        == f"{program} is not tritonserver: it does not respond to --help within 1 s"
    )
    deadline = time.monotonic() + 10  # the kernel ends it in its own time
    while (lives := is_alive(int((tmp_path / "tritonserver.pid").read_text()))) and (
        time.monotonic() < deadline
    ):
        time.sleep(0.01)
    assert not lives


def test_the_server_of_a_copied_wheel_is_whole(tmp_path: Path) -> None:
    # The other tests take one thing away from such a copy.
    report = doctor("--tritonserver", copied_server(tmp_path))
    assert report.errors == set()
    assert f"(option: {tmp_path}" in report.findings["server"]["found"]


def test_a_library_of_the_server_is_missing(tmp_path: Path) -> None:
    server = copied_server(tmp_path)
    (library,) = (tmp_path / "nvidia_pytriton.libs").glob("libb64-*")
    library.unlink()
    report = doctor("--tritonserver", server)
    report.expect(
        "server_libraries",
        "error",
        f"{server}/bin/tritonserver needs {library.name}, which the loader does not find",
        "pip install --force-reinstall --no-deps nvidia-pytriton",
    )
    assert report.exit_code == 2


# --- its release ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "found", "old"),
    [
        ("2.9999.0", "tritonserver 2.9999.0, release ", False),
        ("2.51.0", "tritonserver 2.51.0, release 24.10 (October 2024) (option: ", True),
        ("of my own", "tritonserver of my own, an unknown release (option: ", True),
    ],
)
def test_the_release_of_an_installation(
    version: str, found: str, old: bool, tmp_path: Path
) -> None:
    server = copied_server(tmp_path)
    (server / "TRITON_VERSION").write_text(f"{version}\n")
    report = doctor("--tritonserver", server)
    said = report.findings["server"]["found"]
    assert said.startswith(found)
    assert ("see https://www.nvidia.com/en-us/security/" in said) is old
    assert report.errors == set()


# --- Python models --------------------------------------------------------------------------------


def test_no_stub_for_this_python(tmp_path: Path) -> None:
    server = copied_server(tmp_path)
    (server / "python_backend_stubs" / PYTHON_VERSION / "triton_python_backend_stub").unlink()
    (server / "python_backend_stubs" / PYTHON_VERSION).rmdir()
    repository = write_model(tmp_path / "models", "plain", 'backend: "python"')
    report = doctor("--tritonserver", server, "--repository", repository)
    others = [each for each in ("3.10", "3.11", "3.12") if each != PYTHON_VERSION]
    report.expect(
        "python_stub",
        "error",
        f"no Python-backend stub for Python {PYTHON_VERSION}, only for {', '.join(others)}, ",
        "make a virtual environment",
        f"python3.{11 if PYTHON_VERSION == '3.12' else 12} -m venv .venv",
    )
    assert report.errors == {"python_stub"}
    assert report.findings["libpython"]["found"].startswith("not checked")


def test_optional_models_need_no_stub(tmp_path: Path) -> None:
    server = copied_server(tmp_path)
    (server / "python_backend_stubs" / PYTHON_VERSION / "triton_python_backend_stub").unlink()
    optional = 'parameters { key: "optional" value { string_value: "true" } }'
    repository = write_model(tmp_path / "models", "maybe", f'backend: "python" {optional}')
    report = doctor("--tritonserver", server, "--repository", repository)
    report.expect("python_stub", "note", f"no Python-backend stub for Python {PYTHON_VERSION}")
    assert report.errors == set()


def test_a_stub_that_does_not_find_libpython(tmp_path: Path) -> None:
    server = copied_server(tmp_path)
    stub = server / "python_backend_stubs" / PYTHON_VERSION / "triton_python_backend_stub"
    replace_needed(stub, LIBPYTHON, "libpython_that_nobody_has.so.1.0")
    report = doctor("--tritonserver", server)
    report.expect(
        "libpython",
        "error",
        "Python-backend models cannot run",
        "libpython_that_nobody_has.so.1.0: cannot open shared object file",
        f"`apt-get install libpython{PYTHON_VERSION}`",
    )
    assert report.errors == {"libpython"}
    assert report.exit_code == 2


@pytest.mark.usefixtures("only_the_wheel")
def test_no_python3_beside_the_interpreter(tmp_path: Path) -> None:
    world = World(tmp_path)
    program = world.bin / f"python{PYTHON_VERSION}"
    world.python.rename(program)
    report = doctor(python=program)
    report.expect(
        "python3",
        "error",
        f"{world.bin} has no python3 that is {program}",
        "install endcap in a virtual environment: `python3 -m venv .venv",
    )
    assert report.errors == {"python3"}


@pytest.mark.usefixtures("only_the_wheel")
def test_numpy_2_where_python_models_run(tmp_path: Path) -> None:
    # Only the metadata are those of NumPy 2: the core of this environment is built for NumPy 1.
    world = World(tmp_path / "world", without=["numpy-*"])
    world.add_distribution("numpy", "2.1.3")
    report = world.doctor()
    report.expect(
        "numpy",
        "error",
        "NumPy 2.1.3 makes this server's Python-backend models "
        f"({', '.join(PYTHON_MODELS)}) return empty tensors",
        "`pip install 'numpy<2'`",
    )
    assert report.findings["server_packages"]["severity"] == "ok"  # it bounds no NumPy
    assert report.exit_code == 2
    # Without Python models it does no harm.
    repository = write_model(tmp_path / "models", "preprocess", NO_PYTHON_MODEL)
    report = world.doctor("--repository", repository)
    report.expect("numpy", "note", "NumPy 2.1.3", "`pip install 'numpy<2'`")
    assert report.errors == set()


@pytest.mark.usefixtures("only_the_wheel")
def test_what_a_python_model_imports_is_not_there(tmp_path: Path) -> None:
    report = World(tmp_path, without=["onnxruntime*"]).doctor()
    report.expect(
        "model_imports",
        "error",
        "onnxruntime (for detector_python",
        "`pip install onnxruntime`",
    )
    report.expect("server_packages", "note", "onnxruntime is not installed")
    report.expect("onnxruntime", "error", "classifier, detector run in")
    assert report.errors == {"model_imports", "onnxruntime"}


@pytest.mark.usefixtures("only_the_wheel")
def test_imports_are_looked_for_where_a_stub_looks(tmp_path: Path) -> None:
    code = "\n".join(
        [
            "import os, json.decoder, numpy.linalg, beside_the_model",
            "import on_pythonpath",
            "try:\n    import optional\nexcept ImportError:\n    pass",
            "from cv_that_nobody_has.part import thing",
            ECHO,
        ]
    )
    repository = write_model(tmp_path / "models", "echo", 'backend: "python"' + TENSORS, code)
    (repository / "echo" / "1" / "beside_the_model.py").touch()
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "on_pythonpath.py").touch()
    report = doctor("--repository", repository, environment={"PYTHONPATH": str(tmp_path / "path")})
    report.expect(
        "model_imports",
        "error",
        "modules are not installed: on_pythonpath (for echo), cv_that_nobody_has (for echo)",
        "`pip install on_pythonpath cv_that_nobody_has`",
    )


@pytest.mark.usefixtures("only_the_wheel")
def test_a_model_py_that_is_no_python(tmp_path: Path) -> None:
    repository = write_model(tmp_path, "echo", 'backend: "python"' + TENSORS, "def execute(:")
    report = doctor("--repository", repository)
    report.expect("model_imports", "error", "echo/1/model.py line 1: ", "correct ")


@pytest.mark.usefixtures("only_the_wheel")
@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_a_model_py_that_is_no_file(tmp_path: Path, kind: str) -> None:
    repository = write_model(tmp_path, "echo", 'backend: "python"' + TENSORS, ECHO)
    program = repository / "echo" / "1" / "model.py"
    program.unlink()
    if kind == "pipe":
        os.mkfifo(program)
    else:
        program.mkdir()
    report = doctor("--repository", repository)
    report.expect("model_imports", "error", "echo/1/model.py is no file", "correct ")


def test_names_that_would_not_reach_a_stub(tmp_path: Path) -> None:
    repository = write_model(tmp_path / "my models", "my echo", 'backend: "python"' + TENSORS, ECHO)
    report = doctor("--repository", repository)
    report.expect("python_paths", "error", "model 'my echo' has a name", "rename the folder")
    assert report.errors == {"python_paths"}
    report = doctor(environment={"TMPDIR": str(repository)})
    report.expect(
        "python_paths", "error", f"temporary folder {repository} has", "`export TMPDIR=/tmp`"
    )
    assert report.errors == {"python_paths"}


def test_a_server_with_a_python_of_its_own(tmp_path: Path) -> None:
    # NVIDIA's container has the stub in the backend's folder. These are the files of the wheel.
    server = copied_server(tmp_path)
    stub = server / "python_backend_stubs" / PYTHON_VERSION / "triton_python_backend_stub"
    stub.rename(server / "backends" / "python" / stub.name)
    (server / "TRITON_VERSION").write_text("2.71.0\n")
    report = doctor("--tritonserver", server)
    found = report.findings["server"]["found"]
    assert found.startswith("tritonserver 2.71.0, release 26.07 (July 2026) (option: ")
    assert report.findings["python_stub"]["found"].startswith("the server's own")
    for name in ("python3", "libpython", "numpy"):
        assert "in a Python of its own" in report.findings[name]["found"]
    assert report.errors == set()
