"""What a killed launcher leaves behind is gone after the next start; what is in use stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from echo_model import write_echo_model

from endcap.server.leftovers import claim, shared_memory_prefix, sweep

KILLED_LAUNCHER = """
import os, signal, sys
from endcap.server import ServerPorts, ServerSettings, TritonServer

settings = ServerSettings(ports=ServerPorts(http=0, grpc=0, metrics=0))
with TritonServer(sys.argv[1], settings):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def abandoned(folder: Path, name: str) -> Path:
    """A scratch folder as a dead launcher leaves it."""
    scratch = folder / name
    scratch.mkdir()
    claim(scratch).close()
    return scratch


def process_named(name: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(["bash", "-c", f"exec -a '{name}' sleep 60"])
    cmdline = Path(f"/proc/{process.pid}/cmdline")
    while name.encode() not in cmdline.read_bytes().split(b"\0"):
        time.sleep(0.01)
    return process


def test_a_killed_launcher_leaves_nothing_after_the_next_sweep(tmp_path: Path) -> None:
    repository = write_echo_model(tmp_path / "models")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_LAUNCHER, str(repository)],
        env={**os.environ, "TMPDIR": str(temporary)},
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    (scratch,) = temporary.glob("endcap-*")
    deadline = time.monotonic() + 40  # the server ends in its own time
    while not (swept := sweep(temporary)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert swept == [scratch]
    assert list(temporary.iterdir()) == []
    assert list(Path("/dev/shm").glob(f"{shared_memory_prefix(scratch)}*")) == []


def test_a_folder_in_use_stays(tmp_path: Path) -> None:
    held = tmp_path / "endcap-held"
    held.mkdir()
    with claim(held):
        assert sweep(tmp_path) == []
        assert held.is_dir()
    assert sweep(tmp_path) == [held]


@pytest.mark.parametrize("name", ["endcap-new", "other"])
def test_folders_without_a_lock_are_not_ours(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    assert sweep(tmp_path) == []
    assert (tmp_path / name).is_dir()


def test_an_orphaned_stub_is_ended(tmp_path: Path) -> None:
    scratch = abandoned(tmp_path, "endcap-orphan")
    with process_named(f"triton_python_backend_stub {shared_memory_prefix(scratch)}") as stub:
        assert sweep(tmp_path) == [scratch]
        assert stub.wait(10) == -signal.SIGKILL


def test_a_server_that_still_ends_is_left_alone(tmp_path: Path) -> None:
    scratch = abandoned(tmp_path, "endcap-ending")
    with process_named(f"tritonserver {shared_memory_prefix(scratch)}") as server:
        assert sweep(tmp_path) == []
        assert server.poll() is None
        server.kill()
    assert sweep(tmp_path) == [scratch]
