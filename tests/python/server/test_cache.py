"""What endcap installs for itself: made in one step, found again, refused and removed."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import multiprocessing
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from doctor_world import SITE_PACKAGES, World, in_own_mounts
from echo_model import write_model
from typer.testing import CliRunner

from endcap import _python_process as python_process
from endcap._python_process import PipError, environment_for_pip, pip_command
from endcap._system.stages import silent
from endcap.cli.app import app
from endcap.server import (
    ServerError,
    ServerPorts,
    ServerSettings,
    locate,
    locate_server,
    private_server,
)
from endcap.server.cache import (
    ENTRY_MARKER_NAME,
    find_entry,
    hold,
    make_entry,
    remove_all,
)
from endcap.server.plan import plan_launch
from endcap.server.private_server import (
    EXECUTABLE,
    VERSION,
    download_server,
    install_private_server,
    private_server_folder,
    why_no_private_server,
)

NAME = "thing-1.0"
WHEEL = f"nvidia_pytriton-{VERSION}-py3-none-manylinux_2_35_x86_64.whl"
# What keeps pip from every index and folder that this machine's settings name.
NO_INDEX = {
    "PIP_CONFIG_FILE": os.devnull,
    "PIP_INDEX_URL": "http://127.0.0.1:1/simple",
    "PIP_RETRIES": "0",
    "PIP_FIND_LINKS": "",
    "PIP_EXTRA_INDEX_URL": "",
}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a cache"))
    monkeypatch.delenv("ENDCAP_WHEELHOUSE", raising=False)
    return tmp_path / "a cache" / "endcap" / "server"


@pytest.fixture
def no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in NO_INDEX.items():
        monkeypatch.setenv(name, value)


def fill(content: Path, other: Path) -> None:
    (other / "download").write_bytes(b"0" * 100)
    (content / "bin").mkdir()
    (content / "bin" / "program").write_text("program")


def make() -> Path:
    return make_entry(NAME, fill, silent)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {".lock"}


# --- entries --------------------------------------------------------------------------------------


def test_an_entry_is_made_once(cache: Path) -> None:
    assert find_entry(NAME) is None
    assert not cache.exists()  # looking makes nothing
    made = make()
    assert made == cache / NAME == find_entry(NAME)
    assert (made / "bin" / "program").read_text() == "program"
    assert names(cache) == {NAME}  # neither the download nor a partial folder
    assert cache.stat().st_mode & 0o777 == 0o700
    assert made.stat().st_mode & 0o777 == 0o700
    before = (made / ENTRY_MARKER_NAME).stat().st_mtime_ns
    assert make() == made
    assert (made / ENTRY_MARKER_NAME).stat().st_mtime_ns == before
    (made / "__pycache__").mkdir()  # Python's own
    (made / "__pycache__" / "a.pyc").touch()
    assert find_entry(NAME) == made


@pytest.mark.parametrize("error", [RuntimeError("broken"), KeyboardInterrupt()])
def test_what_fails_or_is_interrupted_leaves_nothing(cache: Path, error: BaseException) -> None:
    def fail(content: Path, other: Path) -> None:
        fill(content, other)
        raise error

    with pytest.raises(type(error)):
        make_entry(NAME, fail, silent)
    assert names(cache) == set()
    assert make() == cache / NAME


def make_slowly(begun: Path) -> None:
    def wait(content: Path, other: Path) -> None:
        fill(content, other)
        begun.touch()
        time.sleep(60)

    make_entry(NAME, wait, silent)


def test_what_a_killed_process_leaves_is_no_entry_and_goes(cache: Path, tmp_path: Path) -> None:
    process = multiprocessing.get_context("spawn").Process(
        target=make_slowly, args=(tmp_path / "begun",)
    )
    process.start()
    deadline = time.monotonic() + 30
    while not (tmp_path / "begun").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()
    (left,) = names(cache)
    assert left.endswith(".partial")
    assert find_entry(NAME) is None
    make()
    assert names(cache) == {NAME}


def make_and_count(counted: Path, start: float) -> None:
    def count(content: Path, other: Path) -> None:
        with counted.open("a") as file:
            file.write("made\n")
        time.sleep(0.5)  # the other one comes meanwhile
        fill(content, other)

    time.sleep(max(0.0, start - time.time()))
    assert make_entry(NAME, count, silent).is_dir()


def test_of_two_processes_one_makes_it(cache: Path, tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    arguments = (tmp_path / "counted", time.time() + 3)
    processes = [spawn.Process(target=make_and_count, args=arguments) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0]
    assert (tmp_path / "counted").read_text() == "made\n"
    assert names(cache) == {NAME}


@pytest.mark.parametrize("damage", ["removed", "cut"])
def test_a_damaged_entry_is_made_anew(cache: Path, damage: str) -> None:
    program = make() / "bin" / "program"
    if damage == "removed":
        program.unlink()
    else:
        program.write_text("")
    assert find_entry(NAME) is None
    with hold(cache / NAME), pytest.raises(ServerError, match="it is used by a running server"):
        make()

    def fail(content: Path, other: Path) -> None:
        raise RuntimeError("no network")

    with pytest.raises(RuntimeError, match="no network"):
        make_entry(NAME, fail, silent)
    assert (cache / NAME).is_dir(), "it stays until there is another one"
    assert (make() / "bin" / "program").read_text() == "program"
    assert names(cache) == {NAME}


def test_files_of_the_user_in_an_entry_are_kept(cache: Path) -> None:
    entry = make()
    (entry / "mine").mkdir()
    (entry / "mine" / "notes.txt").write_text("precious")
    assert find_entry(NAME) == entry, "nothing is missing"
    removed, kept = remove_all(silent)
    assert removed == []
    assert kept[entry].startswith("it holds what endcap has not written, mine/notes.txt; move that")
    (entry / "bin" / "program").unlink()
    with pytest.raises(ServerError, match=r"lacks files, and it holds .* mine/notes\.txt; move"):
        make()
    assert (entry / "mine" / "notes.txt").read_text() == "precious"
    (entry / "mine" / "notes.txt").unlink()
    assert (make() / "bin" / "program").exists()


def test_a_copy_of_an_entry_and_other_markers_are_not_ours(cache: Path) -> None:
    shutil.copytree(make(), cache / "my-backup")
    (cache / "other").mkdir()
    (cache / "other" / ENTRY_MARKER_NAME).write_text("{}")
    assert remove_all(silent) == ([cache / NAME], {})
    assert names(cache) == {"my-backup", "other"}
    (cache / NAME).mkdir()
    (cache / NAME / ENTRY_MARKER_NAME).write_text("")
    with pytest.raises(ServerError, match="but endcap has not made it"):
        make()


def test_a_folder_of_others_is_refused_and_kept(cache: Path) -> None:
    (cache / NAME).mkdir(parents=True)
    (cache / NAME / "precious").touch()
    for call in (make, lambda: find_entry(NAME)):
        with pytest.raises(ServerError, match=rf"{NAME} has that name, .* move it away, or"):
            call()
    assert remove_all(silent) == ([], {})
    assert (cache / NAME / "precious").exists()


def test_a_cache_that_others_control_is_refused(cache: Path, tmp_path: Path) -> None:
    make()
    cache.chmod(0o777)
    for call in (make, lambda: find_entry(NAME), lambda: remove_all(silent)):
        with pytest.raises(ServerError, match=r"not safe to run programs from: .* lets other"):
            call()
    cache.chmod(0o700)
    shutil.move(cache, tmp_path / "elsewhere")
    cache.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ServerError, match="is a symbolic link"):
        find_entry(NAME)


def test_what_is_used_is_not_removed(cache: Path) -> None:
    entry = make()
    (cache / "of-others").mkdir()
    with hold(entry):
        reason = "it is used by a running server; stop that server, and try again"
        assert remove_all(silent) == ([], {entry: reason})
        assert find_entry(NAME) == entry
    assert remove_all(silent) == ([entry], {})
    assert names(cache) == {"of-others"}
    with pytest.raises(ServerError, match="removed meanwhile"), hold(entry):
        pass


def test_others_cannot_lock_an_entry(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marker = make() / ENTRY_MARKER_NAME
    assert stat.S_IMODE(marker.stat().st_mode) == 0o600
    monkeypatch.setattr("endcap.server.cache._LOCKED_WITHIN_S", 0.2)
    with marker.open() as locked:
        fcntl.flock(locked, fcntl.LOCK_EX)
        with pytest.raises(ServerError, match="is locked by another program"), hold(cache / NAME):
            pass


def test_files_beside_what_python_compiles_keep_an_entry(cache: Path) -> None:
    entry = make()
    (entry / "__pycache__").mkdir()
    (entry / "__pycache__" / "a.cpython-311.pyc.140201").touch()
    (entry / "__pycache__" / "thesis.txt").write_text("precious")
    removed, kept = remove_all(silent)
    assert removed == []
    assert "__pycache__/thesis.txt" in kept[entry]
    (entry / "__pycache__" / "thesis.txt").unlink()
    assert remove_all(silent) == ([entry], {})


@pytest.mark.parametrize(
    ("variable", "folder"),
    [("XDG_CACHE_HOME", "endcap/server"), ("TMPDIR", f"endcap-{os.geteuid()}")],
)
def test_a_full_disk_is_named_with_the_variable_to_set(
    tmp_path: Path, variable: str, folder: str
) -> None:
    small = tmp_path / "small"
    small.mkdir()
    begin = in_own_mounts(f"mount -t tmpfs -o size=1m endcap '{small}'")
    program = f"""
import os
from endcap._system.scratch import scratch_folder
from endcap._system.stages import silent
from endcap.server.cache import cache_folder, make_entry
from endcap.cli.console import message_of
def fill(content, other):
    with scratch_folder("photos") as scratch:
        for each in (scratch, content):
            (each / "large").write_bytes(bytes(4 << 20))
try:
    make_entry({NAME!r}, fill, silent)
except OSError as error:
    print(message_of(error))
print(sorted(os.listdir(cache_folder())))
"""
    done = subprocess.run(
        [*begin, sys.executable, "-c", program],
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), variable: str(small)},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == [
        f"{small / folder}: No space left on device; free space there, or set {variable} to "
        "another folder",
        "['.lock']",
    ]


def test_a_full_disk_of_pip_is_that_of_its_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device"
    monkeypatch.setattr(
        private_server, "pip_command", lambda: [sys.executable, "-c", f"exit({said!r})"]
    )
    with pytest.raises(OSError, match="No space left on device") as caught:
        private_server.run_pip([], what="it", wheelhouse=None, temporary=tmp_path)
    assert caught.value.filename == str(tmp_path)


# --- pip ------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_index")
def test_without_a_network(cache: Path) -> None:
    with pytest.raises(
        ServerError,
        match=r"the Triton server \(nvidia-pytriton .*\) cannot be installed \(pip reaches no "
        r"package index\); .*endcap server download DIR.*ENDCAP_WHEELHOUSE=DIR",
    ):
        install_private_server()
    with pytest.raises(ServerError, match=r"what Python models need cannot be installed \(pip rea"):
        private_server.install_packages()
    assert names(cache) == set()


@pytest.mark.usefixtures("no_index")
def test_a_wheel_of_another_content_is_refused(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "wheels").mkdir()
    shutil.make_archive(str(tmp_path / "other"), "zip", tmp_path / "wheels")
    (tmp_path / "other.zip").rename(tmp_path / "wheels" / WHEEL)
    with pytest.raises(ServerError, match=r"DO NOT MATCH THE HASHES .*the file is not the one"):
        install_private_server(wheelhouse=tmp_path / "wheels")
    assert names(cache) == set()
    with pytest.raises(ServerError, match="DO NOT MATCH THE HASHES"):
        download_server(tmp_path / "target", tmp_path / "wheels")


@pytest.mark.usefixtures("no_index")
def test_a_download_leaves_other_files_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheels, target = tmp_path / "wheels", tmp_path / "target"
    wheels.mkdir()
    target.mkdir()
    (wheels / WHEEL).write_bytes(wheel := wheel_without_content())
    digest = hashlib.sha256(wheel).hexdigest()
    monkeypatch.setattr(private_server, "SHA256", {"x86_64": digest})
    (tmp_path / "victim").write_text("precious")
    (target / "server.txt").symlink_to(tmp_path / "victim")
    (target / "nvidia_pytriton-0.0.1-py3-none-any.whl").write_text("mine")
    for _ in range(2):
        assert download_server(target, wheels) == target / WHEEL
    assert (target / WHEEL).read_bytes() == wheel
    assert (tmp_path / "victim").read_text() == "precious"
    assert (target / "nvidia_pytriton-0.0.1-py3-none-any.whl").read_text() == "mine"
    (target / WHEEL).write_text("mine, too")
    with pytest.raises(ServerError, match="is there already, and is not the file of that name"):
        download_server(target, wheels)
    assert (target / WHEEL).read_text() == "mine, too"


def wheel_without_content() -> bytes:
    """The least that pip takes for the server's wheel."""
    info = f"nvidia_pytriton-{VERSION}.dist-info"
    files = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: nvidia-pytriton\nVersion: {VERSION}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-any\n",
        f"{info}/RECORD": "",
    }
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return content.getvalue()


def test_a_wheelhouse_without_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in NO_INDEX.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("ENDCAP_WHEELHOUSE", str(tmp_path / "nowhere"))
    with pytest.raises(ServerError, match=r"wheelhouse .*nowhere is not a folder; `endcap server"):
        install_private_server()
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("ENDCAP_WHEELHOUSE", str(tmp_path / "empty"))
    with pytest.raises(ServerError, match=r"put what is missing into .*empty: `endcap server down"):
        install_private_server()


def test_a_python_without_pip_runs_that_of_ensurepip(tmp_path: Path) -> None:
    world = World(tmp_path / "world", without=["pip", "pip-*"])
    program = (
        "import subprocess\n"
        "from endcap._python_process import environment_for_pip, pip_command\n"
        "subprocess.run([*pip_command(), '--version'], env=environment_for_pip(), check=True)\n"
    )
    done = subprocess.run(
        [world.python, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "_bundled" in done.stdout


def test_a_python_without_any_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_process.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(PipError, match=r"has no pip; run `.* -m ensurepip`, or `apt-get"):
        pip_command()
    with pytest.raises(ServerError, match=r"the Triton server .*cannot be installed: .*has no pip"):
        install_private_server()


def test_pip_finds_the_wheels_of_its_own_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", "/my/wheels")
    assert environment_for_pip()["PIP_FIND_LINKS"] == "/my/wheels"


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


def no_other_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(locate, "CONTAINER_EXECUTABLE", Path("/nowhere/tritonserver"))
    monkeypatch.setattr(locate, "WHEEL_PACKAGE", "a_package_that_nobody_has")


def test_a_python_without_numpy_1_is_refused_before_its_stub_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(content: Path, other: Path) -> None:
        fill_server(content, other)
        (content / EXECUTABLE.parent.parent / "backends" / "python").mkdir(parents=True)
        (content / EXECUTABLE.parent.parent / "python_backend_stubs" / "3.9").mkdir(parents=True)
        (content / EXECUTABLE.parent.parent / "TRITON_VERSION").write_text("2.51.0\n")

    monkeypatch.setattr(private_server, "_NEWEST_WITH_NUMPY_1", (3, 9))
    make_entry(private_server_folder().name, fill, silent)
    no_other_server(monkeypatch)
    models, scratch = write_model(tmp_path / "models", "plain", 'backend: "python"'), tmp_path / "s"
    scratch.mkdir()
    free = ServerSettings(ports=ServerPorts(http=0, grpc=0, metrics=0))
    with pytest.raises(ServerError, match=r"needs NumPy below 2, which Python .* does not have"):
        plan_launch(models, free, scratch)


def fill_server(content: Path, other: Path) -> None:
    (content / EXECUTABLE).parent.mkdir(parents=True)
    (content / EXECUTABLE).touch(mode=0o755)


def test_the_order_of_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_entry(private_server_folder().name, fill_server, silent)
    if locate._wheel_executable() is not None:
        assert not locate_server().is_private  # an installed one comes first
    no_other_server(monkeypatch)
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


def test_a_python_without_numpy_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_server, "_NEWEST_WITH_NUMPY_1", (3, 9))
    with pytest.raises(ServerError, match=r"NumPy below 2, .*Python 3\.10 to 3\.9, .*env pack"):
        private_server.install_packages()


@pytest.mark.parametrize(("option", "exit_code"), [([], 0), (["--python-models"], 2)])
def test_the_server_is_installed_for_a_python_without_numpy_1(
    option: list[str], exit_code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_server, "_NEWEST_WITH_NUMPY_1", (3, 9))
    server = make_entry(private_server_folder().name, fill_server, silent)
    done = CliRunner(env={"COLUMNS": "1000"}).invoke(app, ["server", "install", *option])
    assert done.exit_code == exit_code
    assert done.stdout.splitlines() == ([str(server)] if exit_code == 0 else [])
    assert "needs NumPy below 2" in done.stderr
    assert ("nothing is installed for Python models" in done.stderr) == (exit_code == 0)


def test_more_packages_make_another_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = private_server.packages_folder()
    assert {"numpy<2", "onnxruntime>=1.17"} < {*private_server.requirements()}
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
    server = locate_server()
    if server.stubs_dir is None:
        pytest.skip("the server here has no stubs")
    monkeypatch.setattr("endcap.server.python_stub.PYTHON_VERSION", "3.99")
    free = ServerSettings(ports=ServerPorts(http=0, grpc=0, metrics=0))

    def plan(config: str) -> list[str]:
        root = tmp_path / str(len(config))
        (root / "models" / "one" / "1").mkdir(parents=True)
        (root / "models" / "one" / "config.pbtxt").write_text(config)
        (root / "models" / "one" / "1" / "model.py").touch()
        (root / "scratch").mkdir()
        plan_launch(root / "models", free, root / "scratch")
        return sorted(path.name for path in (root / "scratch" / "backends").iterdir())

    with contextlib.suppress(FileNotFoundError):  # libpython of that version, which nobody needs
        assert "python" not in plan('backend: "endcap_preprocess"')
    for config in ('backend: "python"', ""):
        with pytest.raises(ServerError, match=r"no Python-backend stub for Python 3\.99, only for"):
            plan(config)


def test_a_user_without_a_home_folder_runs_servers_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_home() -> Path:  # as Python does for a user id without an entry
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", no_home)
    named = tmp_path / "tritonserver"
    named.touch(mode=0o755)
    assert not locate_server(named).is_private
    no_other_server(monkeypatch)
    for call in (locate_server, install_private_server):
        with pytest.raises(ServerError, match="has no home folder for a cache; set HOME or XDG_CA"):
            call()
