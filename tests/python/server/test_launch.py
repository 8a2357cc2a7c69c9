"""Starting and stopping a real Triton server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from endcap.server import (
    ServerError,
    ServerPorts,
    ServerSettings,
    TritonServer,
)
from endcap.server.process import ServerProcess
from endcap.server.settings import PortReservation
from tests.support.echo_ensembles import ensemble
from tests.support.echo_model import ECHO, TENSORS, write_echo_model, write_model

FREE = ServerPorts(http=0, grpc=0, metrics=0)


@pytest.fixture
def echo_repository(tmp_path: Path) -> Path:
    return write_echo_model(tmp_path / "models")


def has_ended(server: TritonServer) -> bool:
    try:
        server.check_alive()
    except ServerError:
        return True
    return False


def wait_until(condition: Callable[[], bool], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return condition()


def group_members(group: int) -> list[int]:
    """Processes of a process group, dead ones that nobody has waited for left out."""
    members = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, process_group = stat.read_text().rpartition(")")[2].split()[:3]
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while we looked
        if int(process_group) == group and state != "Z":
            members.append(int(stat.parent.name))
    return members


@pytest.fixture
def scratch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where servers of this test keep their temporary folders."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


# --- a real server that cannot start --------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "code", "reason"),
    [
        (
            'backend: "endcap_nothing"' + TENSORS,
            None,
            r"'broken'.* unable to find backend library for backend 'endcap_nothing'",
        ),
        ('backend: "python" colour: 3', ECHO, r"has no field named \"colour\".*'broken'"),
        (
            'backend: "python"' + TENSORS,
            "class TritonPythonModel:\n    def initialize(self, args):\n"
            "        raise ValueError('six names, five classes')\n",
            r"'broken'.*six names, five classes \(at .*model\.py\(3\): initialize\)",
        ),
    ],
    ids=["backend", "field", "python"],
)
def test_reason_of_a_failed_start_is_reported(
    tmp_path: Path, scratch: Path, config: str, code: str | None, reason: str
) -> None:
    repository = write_model(tmp_path / "models", "broken", config, code)
    log_file = tmp_path / "server.log"
    log_file.write_text("of yesterday")
    server = TritonServer(repository, ServerSettings(ports=FREE, log_file=log_file))
    with pytest.raises(ServerError, match=reason) as caught:
        server.start()
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("tritonserver ended with exit code 1; its last log lines: ")
    log = log_file.read_text()
    assert log.startswith("of yesterday")
    assert "failed to load all models" in log
    assert server.pid is None
    assert not list(scratch.iterdir())


# --- a real server that runs ----------------------------------------------------------------------


def test_a_server_starts_serves_and_leaves_nothing(echo_repository: Path, scratch: Path) -> None:
    with TritonServer(echo_repository, ServerSettings(ports=FREE)) as server:
        group = server.pid
        assert group is not None
        assert len(group_members(group)) >= 2, "the server and its Python stub"
        assert [(m.name, m.version) for m in server.models()] == [("echo", "1")]
        with urllib.request.urlopen(server.metrics_url, timeout=5) as response:
            assert b"nv_inference_request_success" in response.read()
        (folder,) = scratch.glob("endcap-serve-*")
        assert list(Path("/dev/shm").glob(f"{folder.name}-*"))
        assert "\nUmask:\t0077\n" in Path(f"/proc/{group}/status").read_text()
        listening = server.ports
    assert group_members(group) == []
    assert not folder.exists()
    assert not list(Path("/dev/shm").glob(f"{folder.name}-*"))
    assert PortReservation("127.0.0.1", listening).ports == listening, "the ports are free again"


def test_a_server_takes_no_module_from_the_callers_working_directory(
    echo_repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, caller = tmp_path / "found", tmp_path / "caller"
    caller.mkdir()
    for module in ("json", "triton_python_backend_utils"):
        (caller / f"{module}.py").write_text(
            f"open({str(found)!r}, 'w')\nraise ImportError('not the real one')\n"
        )
    before = sorted(caller.iterdir())
    monkeypatch.chdir(caller)
    with TritonServer(Path("../models"), ServerSettings(ports=FREE)) as server:
        assert [model.name for model in server.models()] == ["echo"]
    assert not found.exists()
    assert sorted(caller.iterdir()) == before


def test_relative_search_paths_still_reach_the_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "of_the_user.py").write_text("")
    code = "import os\nassert os.path.isfile(os.environ['PYTHONPATH'] + '/of_the_user.py')\n"
    write_model(tmp_path / "models", "echo", 'backend: "python"' + TENSORS, code + ECHO)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", "modules")
    with TritonServer("models", ServerSettings(ports=FREE)) as server:
        assert [model.name for model in server.models()] == ["echo"]


def test_a_forked_child_leaves_the_server_alone(echo_repository: Path, tmp_path: Path) -> None:
    script = """
import os, sys
from endcap.server import ServerPorts, ServerSettings, TritonServer

settings = ServerSettings(ports=ServerPorts(http=0, grpc=0, metrics=0))
with TritonServer(sys.argv[1], settings) as server:
    with open(f"/proc/{server.pid}/maps") as maps:
        places = [line.split("/dev/shm/")[1].strip() for line in maps if "/endcap-serve-" in line]
    regions = set(places)
    child = os.fork()
    if child == 0:
        server.stop()
        sys.exit(7)  # runs __exit__ and what atexit has
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    server.check_alive()
    assert len(regions) >= 1
    assert regions <= set(os.listdir("/dev/shm"))
    assert [model.name for model in server.models()] == ["echo"]
    group = server.pid
print("stopped", os.path.exists(f"/proc/{group}"))
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(echo_repository)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert (done.stdout, done.returncode) == ("stopped False\n", 0), done.stderr


def test_a_server_that_dies_is_noticed_and_cleaned_up(echo_repository: Path) -> None:
    server = TritonServer(echo_repository, ServerSettings(ports=FREE))
    server.start()
    group = server.pid
    assert group is not None
    command = Path(f"/proc/{group}/cmdline").read_text()
    regions = command.partition("shm-region-prefix-name=")[2].partition("\0")[0]
    assert list(Path("/dev/shm").glob(f"{regions}*"))
    os.kill(group, signal.SIGKILL)
    assert wait_until(lambda: has_ended(server), 10)
    with pytest.raises(
        ServerError, match=r"ended with signal SIGKILL; its last log lines: .*Started"
    ):
        server.check_alive()
    server.stop()
    assert wait_until(lambda: group_members(group) == [], 10)
    assert not list(Path("/dev/shm").glob(f"{regions}*"))
    server.stop()  # a second stop has nothing to do
    with pytest.raises(ServerError, match="no server runs"):
        server.check_alive()


def test_the_id_of_an_ended_server_stays_taken_until_the_stop() -> None:
    process = ServerProcess(["/bin/sh", "-c", "exit 3"], os.environ, Path("/"))
    assert wait_until(lambda: process.exit_code() is not None, 10)
    assert process.exit_code() == 3
    assert Path(f"/proc/{process.pid}").exists(), "another program may get its id"
    process.stop(10)
    assert not Path(f"/proc/{process.pid}").exists()
    assert process.exit_code() == 3


def test_a_process_that_is_waited_for_is_signalled_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    signalled: list[tuple[int, int]] = []
    for elsewhere in (False, True):
        process = ServerProcess(["/bin/sh", "-c", "exit 0"], os.environ, Path("/"))
        if elsewhere:
            os.waitpid(process.pid, 0)
        else:
            process.stop(10)
        with monkeypatch.context() as patched:
            for name in ("kill", "killpg"):
                patched.setattr(os, name, lambda *arguments: signalled.append(arguments))
            process.stop(1)
    assert signalled == []


def test_a_server_that_does_not_end_is_killed(echo_repository: Path) -> None:
    server = TritonServer(echo_repository, ServerSettings(ports=FREE, stop_timeout_s=1.0))
    server.start()
    group = server.pid
    assert group is not None
    os.kill(group, signal.SIGSTOP)
    begin = time.monotonic()
    server.stop()
    assert time.monotonic() - begin >= 1.0
    assert wait_until(lambda: group_members(group) == [], 10)


def test_the_server_ends_with_a_killed_parent(echo_repository: Path, tmp_path: Path) -> None:
    script = (
        "import sys, time\n"
        "from endcap.server import *\n"
        "ports = ServerPorts(http=0, grpc=0, metrics=0)\n"
        "server = TritonServer(sys.argv[1], ServerSettings(ports=ports))\n"
        "server.start()\n"
        "print(server.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script, str(echo_repository)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},  # SIGKILL leaves no time to tidy up
    )
    assert parent.stdout is not None
    with parent.stdout:
        group = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    assert wait_until(lambda: group_members(group) == [], 30)


def test_only_the_named_models_and_the_steps_of_ensembles_are_served(tmp_path: Path) -> None:
    repository = write_echo_model(tmp_path / "models")
    write_model(repository, "other", 'backend: "python"' + TENSORS, ECHO)
    write_model(repository, "both", ensemble(("echo", "x", "y")))
    with TritonServer(repository, ServerSettings(ports=FREE, models=("both",))) as server:
        assert [model.name for model in server.models()] == ["both", "echo"]
    with (
        pytest.raises(ServerError, match=r"no model 'bot'; its models are both, echo, other"),
        TritonServer(repository, ServerSettings(ports=FREE, models=("bot",))),
    ):
        pass
