"""What endcap installs for itself: made in one step, found again, or refused."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest

from endcap.errors import UnsupportedError
from endcap.server import (
    ServerError,
    ServerPorts,
    ServerSettings,
    locate,
    locate_server,
    private_server,
)
from endcap.server.plan import plan_launch
from endcap.server.private_server import (
    EXECUTABLE,
    VERSION,
    install_packages,
    install_private_server,
    private_server_folder,
    why_no_private_server,
)
from tests.support.doctor_world import SITE_PACKAGES
from tests.support.echo_model import write_model

FREE = ServerSettings(ports=ServerPorts(http=0, grpc=0, metrics=0))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a cache"))
    return tmp_path / "a cache" / "endcap" / "server"


@pytest.fixture
def no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep pip from every index and folder that this machine's settings name."""
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.setenv(name, "")


@pytest.fixture
def no_other_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(locate, "CONTAINER_EXECUTABLE", Path("/nowhere/tritonserver"))
    monkeypatch.setattr(locate, "WHEEL_PACKAGE", "a_package_that_nobody_has")


def write_server(folder: Path) -> None:
    (folder / EXECUTABLE).parent.mkdir(parents=True)
    (folder / EXECUTABLE).touch(mode=0o755)


def install_slowly(counted: Path) -> None:
    def run_pip(wanted: object, what: object, target: Path, *_: object) -> None:
        with counted.open("a") as file:
            file.write("made\n")
        deadline = time.monotonic() + 20
        while counted.stat().st_size and not counted.with_suffix(".waits").exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        write_server(target)

    def show(message: str) -> None:
        if message.startswith("waiting"):
            counted.with_suffix(".waits").touch()

    private_server._run_pip = run_pip
    install_private_server(show)


def test_of_two_processes_one_installs(cache: Path, tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=install_slowly, args=(tmp_path / "counted",)) for _ in "ab"]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0]
    assert (tmp_path / "counted").read_text() == "made\n"
    assert {path.name for path in cache.iterdir()} == {".lock", private_server_folder().name}
    assert cache.stat().st_mode & 0o777 == 0o700
    assert install_private_server(pytest.fail) == private_server_folder()


@pytest.mark.parametrize("error", [ServerError("broken"), KeyboardInterrupt()])
def test_what_fails_or_is_interrupted_leaves_nothing(
    cache: Path, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_pip(wanted: object, what: object, target: Path, *_: object) -> None:
        write_server(target)
        raise error

    monkeypatch.setattr(private_server, "_run_pip", run_pip)
    with pytest.raises(type(error)):
        install_private_server()
    assert [path.name for path in cache.iterdir()] in ([".lock"], [])


def test_a_folder_without_the_server_is_refused_and_kept(cache: Path) -> None:
    private_server_folder().mkdir(parents=True)
    (private_server_folder() / "precious").touch()
    with pytest.raises(ServerError, match="move the folder away, and try again"):
        install_private_server()
    assert (private_server_folder() / "precious").exists()


def test_a_user_without_a_home_folder_runs_other_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # a user id without an entry
    named = tmp_path / "tritonserver"
    named.touch(mode=0o755)
    assert not locate_server(named).is_private
    with pytest.raises(UnsupportedError, match="has no home folder for a cache; set XDG"):
        install_private_server()


# --- pip ------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_index")
@pytest.mark.parametrize(
    ("install", "what"),
    [
        (install_private_server, r"the Triton server \(nvidia-pytriton .*\)"),
        (install_packages, r"what Python models need \(NumPy.*\)"),
    ],
)
def test_without_a_network(install: Callable[[], Path], what: str, cache: Path) -> None:
    with pytest.raises(
        ServerError, match=rf"{what} cannot be installed: .*; check the .*PIP_FIND_LINKS=DIR"
    ):
        install()
    assert not [path.name for path in cache.iterdir() if path.name != ".lock"]


def test_a_wheel_with_another_hash_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    shutil.make_archive(str(tmp_path / "other"), "zip", tmp_path / "empty")
    name = f"nvidia_pytriton-{VERSION}-py3-none-manylinux_2_35_x86_64.whl"
    (tmp_path / "other.zip").rename(tmp_path / name)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(ServerError, match="DO NOT MATCH THE HASHES"):
        install_private_server()
    assert not private_server_folder().exists()


# --- which server ---------------------------------------------------------------------------------


def test_a_machine_that_the_packaged_server_does_not_run_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert why_no_private_server() is None
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(ServerError, match=r"glibc 2\.35 or newer, and this is riscv64 .*--triton"):
        install_private_server()
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("platform.libc_ver", lambda: ("glibc", "2.31"))
    assert "this is x86_64 with glibc 2.31" in str(why_no_private_server())


@pytest.mark.usefixtures("no_other_server")
def test_the_order_of_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ServerError, match=r"`endcap serve` installs one .*--tritonserver"):
        locate_server()
    write_server(private_server_folder())
    own = locate_server()
    assert (own.origin, own.is_private) == ("private", True)
    assert own.executable == private_server_folder() / EXECUTABLE
    named = tmp_path / "tritonserver"
    named.touch(mode=0o755)
    monkeypatch.setenv("ENDCAP_TRITONSERVER", str(named))
    assert (locate_server().origin, locate_server().executable) == ("variable", named)
    assert locate_server(own.executable).origin == "option"
    assert locate_server(own.executable).is_private
    named.chmod(0o644)
    with pytest.raises(ServerError, match=r"ENDCAP_TRITONSERVER=.*tritonserver is not a program"):
        locate_server()


# --- Python models --------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_other_server")
def test_a_python_without_numpy_1_is_refused_before_its_stub_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_server(private_server_folder())
    root = private_server_folder() / EXECUTABLE.parent.parent
    for folder in ("backends/python", "python_backend_stubs/3.9"):
        (root / folder).mkdir(parents=True)
    monkeypatch.setattr(private_server, "_NEWEST_WITH_NUMPY_1", (3, 9))
    models, scratch = write_model(tmp_path / "models", "plain", 'backend: "python"'), tmp_path / "s"
    scratch.mkdir()
    with pytest.raises(ServerError, match=r"NumPy below 2, .*Python 3\.10 to 3\.9, .*env pack"):
        plan_launch(models, FREE, scratch)


def test_more_packages_make_another_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = private_server.packages_folder()
    here = {"av", f"nvidia-dali-cuda130=={metadata.version('nvidia-dali-cuda130')}"}
    assert {"numpy<2", "onnxruntime>=1.17", *here} < {*private_server.requirements()}
    monkeypatch.setenv("ENDCAP_SERVER_PACKAGES", "'scipy < 1.14' pyyaml")
    assert {"scipy<1.14", "pyyaml"} < {*private_server.requirements()}
    assert private_server.packages_folder() != usual
    for wrong in ("--index-url=http://elsewhere", "'unclosed"):
        monkeypatch.setenv("ENDCAP_SERVER_PACKAGES", wrong)
        with pytest.raises(ServerError, match="ENDCAP_SERVER_PACKAGES must be requirements"):
            private_server.requirements()


def test_the_environment_has_endcap_and_the_packages_alone(tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    for pattern in ("numpy", "numpy.libs", "numpy-*", "PIL", "pillow*", "packaging*"):
        for path in SITE_PACKAGES.glob(pattern):
            (packages / path.name).symlink_to(path)
    folder = private_server.make_environment(tmp_path / "environment", packages)
    program = (
        "import sys, endcap, numpy, endcap.triton.stage_settings\n"
        "print(sys.prefix, endcap.__version__, numpy.__file__)\n"
        "import onnxruntime\n"
    )
    done = subprocess.run(
        [folder / "python3", "-I", "-c", program],
        capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout.startswith(f"{tmp_path}/environment "), done.stderr
    assert f"{tmp_path}/environment/lib" in done.stdout
    assert "No module named 'onnxruntime'" in done.stderr  # the user's own does not count


def test_models_without_python_need_no_stub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Python that no stub is for still serves compiled backends."""
    if locate_server().stubs_dir is None:
        pytest.skip("the server here has no stubs")
    monkeypatch.setattr("endcap.server.python_stub.PYTHON_VERSION", "3.99")

    def plan(config: str) -> list[str]:
        root = tmp_path / str(len(config))
        (root / "models" / "one" / "1").mkdir(parents=True)
        (root / "models" / "one" / "config.pbtxt").write_text(config)
        (root / "models" / "one" / "1" / "model.py").touch()
        (root / "scratch").mkdir()
        plan_launch(root / "models", FREE, root / "scratch")
        return sorted(path.name for path in (root / "scratch" / "backends").iterdir())

    with contextlib.suppress(FileNotFoundError):  # libpython of that version, which nobody needs
        assert "endcap_preprocess" in plan('backend: "endcap_preprocess"')
    for config in ('backend: "python"', ""):
        with pytest.raises(ServerError, match=r"no Python-backend stub for Python 3\.99, only for"):
            plan(config)
