"""What a killed launcher leaves behind goes with the next start; nothing else does."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from echo_model import write_echo_model

from endcap._system.scratch import MARKER_NAME, scratch_folder, scratch_root
from endcap.server import ServerPorts, ServerSettings, TritonServer
from endcap.server.leftovers import (
    DOWNLOAD_PURPOSE,
    LAUNCH_PURPOSE,
    SHARED_MEMORY,
    shared_memory_prefix,
    sweep,
)

pytestmark = pytest.mark.usefixtures("temporary")

KILLED_LAUNCHER = """
import os, signal, sys
from endcap.server import ServerPorts, ServerSettings, TritonServer

settings = ServerSettings(ports=ServerPorts(http=0, grpc=0, metrics=0))
with TritonServer(sys.argv[1], settings):
    os.kill(os.getpid(), signal.SIGKILL)
"""


FREE = ServerPorts(http=0, grpc=0, metrics=0)
KILLED_OWNER = """
import os, signal, sys
from endcap._system.scratch import scratch_folder
with scratch_folder(sys.argv[1]) as folder:
    print(folder, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
UUID = "ff92b997-3e6f-496c-aa0f-4d18de2f0fc7"


def abandoned_folder(purpose: str) -> Path:
    """Return a scratch folder as a killed process leaves it."""
    command = [sys.executable, "-c", KILLED_OWNER, purpose]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    return Path(done.stdout.decode().strip())


@pytest.fixture
def scratch() -> Path:
    """A scratch folder as a dead launcher leaves it."""
    return abandoned_folder(LAUNCH_PURPOSE)


@pytest.fixture
def region(scratch: Path) -> Iterator[Path]:
    """A region of shared memory that its server has left."""
    path = SHARED_MEMORY / f"{shared_memory_prefix(scratch)}{UUID}"
    path.write_bytes(b"left")
    yield path
    path.unlink(missing_ok=True)


@contextlib.contextmanager
def process_named(
    name: str, *arguments: str, user: int | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A shell under another name, which lives until its input ends."""
    command = [name, "-c", "read line", *arguments]
    with subprocess.Popen(
        command, executable="/bin/sh", stdin=subprocess.PIPE, user=user
    ) as process:
        cmdline = Path(f"/proc/{process.pid}/cmdline")
        while arguments[-1].encode() not in cmdline.read_bytes().split(b"\0"):
            time.sleep(0.01)
        yield process
        process.kill()


def test_a_killed_launcher_leaves_nothing_after_the_next_sweep(tmp_path: Path) -> None:
    repository = write_echo_model(tmp_path / "models")
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_LAUNCHER, str(repository)],
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    (scratch,) = scratch_root().iterdir()
    deadline = time.monotonic() + 40  # the server ends in its own time
    while not (swept := sweep()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert swept == [scratch]
    assert list(scratch_root().iterdir()) == []
    assert list(SHARED_MEMORY.glob(f"{shared_memory_prefix(scratch)}*")) == []


def test_a_folder_in_use_stays() -> None:
    with scratch_folder(LAUNCH_PURPOSE) as held:
        assert sweep() == []
        assert held.is_dir()


def test_a_download_that_was_killed_goes_and_one_that_runs_stays() -> None:
    killed = abandoned_folder(DOWNLOAD_PURPOSE)
    (killed / "wheels").mkdir()
    (killed / "wheels" / "half.whl").write_bytes(b"half")
    with scratch_folder(DOWNLOAD_PURPOSE, sweep=False) as held:
        assert sweep() == [killed]
        assert held.is_dir()
    assert not killed.exists()


def test_a_region_goes_with_its_folder(scratch: Path, region: Path) -> None:
    assert sweep() == [scratch]
    assert not region.exists()


def test_regions_that_only_look_alike_stay(scratch: Path, region: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"theirs")
    others = [
        SHARED_MEMORY / f"endcap-server-{secrets.token_hex(16)}-{UUID}",
        SHARED_MEMORY / f"{region.name}.txt",
        SHARED_MEMORY / f"x{region.name}",
    ]
    foreign = SHARED_MEMORY / f"{region.name}-foreign"
    if os.geteuid() == 0:
        others.append(foreign)
    link = SHARED_MEMORY / f"{region.name}-link"
    try:
        for other in others:
            other.write_bytes(b"theirs")
        link.symlink_to(target)
        if os.geteuid() == 0:
            os.chown(foreign, 65534, 65534)
        assert sweep() == [scratch]
        assert [other.read_bytes() for other in others] == [b"theirs"] * len(others)
        assert link.is_symlink()
        assert target.exists()
    finally:
        for path in (*others, link):
            path.unlink(missing_ok=True)


# --- processes ------------------------------------------------------------------------------------


def test_an_orphaned_stub_is_ended(scratch: Path) -> None:
    name = "/somewhere/triton_python_backend_stub"
    with process_named(name, "/models/m/1/model.py", f"{shared_memory_prefix(scratch)}1") as stub:
        assert sweep() == [scratch]
        assert stub.wait(10) == -signal.SIGKILL


@pytest.mark.parametrize(
    ("name", "region"),
    [
        ("/bin/grep triton_python_backend_stub", "{prefix}1"),  # no stub
        ("triton_python_backend_stub", "x{prefix}1"),  # another region
        ("/usr/bin/tritonserver", "--backend-config=python,shm-region-prefix-name={prefix}"),
    ],
)
def test_a_process_that_is_no_stub_of_it_is_left_alone_and_with_it_the_folder(
    name: str, region: str, scratch: Path
) -> None:
    with process_named(name, region.format(prefix=shared_memory_prefix(scratch))) as process:
        assert sweep() == []
        assert process.poll() is None
        assert scratch.is_dir()
    assert sweep() == [scratch]


@pytest.mark.parametrize("kind", ["stub", "stub of another launch"])
def test_stubs_of_other_users_and_launches_live(kind: str, scratch: Path) -> None:
    prefix = shared_memory_prefix(scratch)
    user: int | None = None
    if kind == "stub":
        if os.geteuid() != 0:
            pytest.skip("only root starts processes of other users")
        user = 65534
    else:
        prefix = shared_memory_prefix(scratch.with_name(f"server-{secrets.token_hex(16)}"))
    with process_named("triton_python_backend_stub", f"{prefix}1", user=user) as process:
        assert sweep() == [scratch]
        assert process.poll() is None


# --- what only looks like a launch's --------------------------------------------------------------


def start_once(tmp_path: Path) -> None:
    with TritonServer(write_echo_model(tmp_path / "models"), ServerSettings(ports=FREE)):
        pass


def test_a_folder_with_a_file_named_lock_outlives_a_start(temporary: Path, tmp_path: Path) -> None:
    photos = temporary / "endcap-abcd1234"
    photos.mkdir()
    (photos / "lock").write_bytes(b"")
    (photos / "holiday.jpg").write_bytes(b"photo")
    start_once(tmp_path)
    assert (photos / "holiday.jpg").read_bytes() == b"photo"


def test_a_name_with_an_asterisk_removes_no_shared_memory(temporary: Path, tmp_path: Path) -> None:
    evil = [temporary / "endcap-*", temporary / "endcap-server-*", scratch_root() / "server-*"]
    for folder in evil:
        folder.mkdir()
        (folder / "lock").touch()
        (folder / MARKER_NAME).write_text(folder.name)
        if os.geteuid() == 0:
            os.chown(folder, 65534, 65534)
    region = SHARED_MEMORY / f"endcap-server-{secrets.token_hex(16)}-{UUID}"
    region.write_bytes(b"theirs")
    try:
        start_once(tmp_path)
        assert region.read_bytes() == b"theirs"
    finally:
        region.unlink()
    assert all(folder.is_dir() for folder in evil)


def test_a_link_among_the_folders_is_not_followed(temporary: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "lock").write_bytes(b"kept")
    (temporary / "endcap-link").symlink_to(target, target_is_directory=True)
    start_once(tmp_path)
    assert (temporary / "endcap-link").is_symlink()
    assert (target / "lock").read_bytes() == b"kept"
