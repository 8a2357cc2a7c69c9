"""Noticing stubs that have died, on processes that bear a stub's arguments."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator

import pytest

from endcap.server.revival import DeadStub, Pacing, StubWatch

STUB = "/models/m/triton_python_backend_stub"


def start(name: str, *arguments: str) -> subprocess.Popen[bytes]:
    """A shell under another name, which lives until its input ends."""
    return subprocess.Popen([name, *arguments], executable="/bin/sh", stdin=subprocess.PIPE)


@pytest.fixture
def stub(tmp_path) -> Iterator[subprocess.Popen[bytes]]:
    """A shell under a stub's name, whose script is the model's file."""
    model = tmp_path / "models" / "touchy" / "1" / "model.py"
    model.parent.mkdir(parents=True)
    model.write_text("read code; exit $code\n")
    with start(STUB, str(model), "region", "1048576") as process:
        yield process
        process.kill()


def wait_for_end(process: subprocess.Popen[bytes]) -> None:
    """Until the process has ended, which nobody is told: it stays a zombie."""
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)


def test_a_stub_that_is_killed_is_told_once(stub):
    watch = StubWatch(os.getpid())
    assert watch.look() == []
    stub.kill()
    wait_for_end(stub)
    assert watch.look() == [DeadStub("touchy", "SIGKILL")]
    assert watch.look() == []


def test_a_stub_that_ends_by_itself(stub):
    watch = StubWatch(os.getpid())
    assert watch.look() == []
    stub.stdin.write(b"3\n")
    stub.stdin.flush()
    wait_for_end(stub)
    assert watch.look() == [DeadStub("touchy", "exit code 3")]


def test_exit_code_0_is_told_at_the_second_look(stub):
    watch = StubWatch(os.getpid())
    watch.look()
    stub.stdin.write(b"0\n")
    stub.stdin.flush()
    wait_for_end(stub)
    assert watch.look() == []
    assert watch.look() == [DeadStub("touchy", "exit code 0", failed=False)]
    assert watch.look() == []


def test_a_stub_that_its_server_has_ended_is_none(stub):
    watch = StubWatch(os.getpid())
    watch.look()
    stub.kill()
    stub.wait()
    assert watch.look() == []


def test_a_stub_that_runs_is_looked_after(stub):
    watch = StubWatch(os.getpid())
    assert watch.running("touchy") == {stub.pid}
    assert watch.running("other") == set()
    stub.kill()
    wait_for_end(stub)
    assert watch.running("touchy") == set()
    assert watch.look() == [DeadStub("touchy", "SIGKILL")]


def test_a_stub_that_dies_forgotten_is_not_told(stub):
    watch = StubWatch(os.getpid())
    watch.forget("touchy")
    assert watch.running("touchy") == set()
    assert watch.look() == []
    stub.kill()
    wait_for_end(stub)
    assert watch.look() == []


def test_a_dead_stub_that_is_forgotten_is_not_told(stub):
    watch = StubWatch(os.getpid())
    assert watch.look() == []
    stub.kill()
    wait_for_end(stub)
    watch.forget("touchy")
    assert watch.look() == []


def test_other_processes_are_not_looked_at():
    watch = StubWatch(os.getpid())
    with start("/bin/sh", "-s", "x", "y") as process:
        watch.look()
        process.kill()
        wait_for_end(process)
        assert watch.look() == []


def test_a_model_that_dies_at_once_waits():
    pacing = Pacing(wait_s=0.2)
    pacing.ask("m")
    assert pacing.due() == ["m"]
    pacing.ask("m")
    pacing.ask("other")
    assert pacing.due() == ["other"]
    time.sleep(0.25)
    assert pacing.due() == ["m"]
    assert pacing.due() == []
