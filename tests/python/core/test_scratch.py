"""Scratch folders: how they are made, whose they are, and what a sweep takes for abandoned."""

from __future__ import annotations

import errno
import grp
import os
import pwd
import secrets
import stat
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from doctor_world import in_own_mounts

from endcap._system.scratch import (
    MARKER_NAME,
    abandoned_scratch,
    scratch_folder,
    scratch_root,
    sweep_scratch,
)
from endcap.errors import UnsupportedError

pytestmark = pytest.mark.usefixtures("temporary")

NOBODY = 65534
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
KILLED = """
import os, signal
from endcap._system.scratch import scratch_folder
with scratch_folder("photos") as folder:
    (folder / "file").write_text("left")
    print(folder, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
# Takes folders and lets go of them while others sweep; a folder that is gone while it is held was
# taken for an abandoned one.
WORKER = """
import sys, time
from endcap._system.scratch import scratch_folder
taken, end = 0, time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    with scratch_folder("stress") as folder:
        (folder / "file").write_text("held")
        assert sorted(path.name for path in folder.iterdir()) == [".endcap-scratch", "file"]
    assert not folder.exists()
    taken += 1
print(taken)
"""


@pytest.fixture
def left() -> Path:
    """A folder that a killed process has left."""
    done = subprocess.run([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, check=False)
    folder = Path(done.stdout.decode().strip())
    assert (folder / "file").read_text() == "left"
    return folder


def snapshot(folder: Path) -> dict[str, bytes]:
    """The content of every regular file below a folder, by path."""
    return {
        str(path): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


def test_a_folder_is_its_users_alone_and_gone_after_the_block(temporary: Path) -> None:
    with scratch_folder("photos") as folder:
        assert folder.parent == temporary / f"endcap-{os.geteuid()}"
        assert (folder / MARKER_NAME).read_text() == folder.name
        for path in (folder, folder.parent):
            assert stat.S_IMODE(path.stat().st_mode) == 0o700
        (folder / "deep" / "deeper").mkdir(parents=True)
        (folder / "deep" / "link").symlink_to(temporary)
    assert list(scratch_root().iterdir()) == []
    assert temporary.is_dir()


def test_what_a_killed_process_left_is_removed_by_the_next_for_that_purpose(left: Path) -> None:
    with scratch_folder("other"):
        assert left.is_dir()
    with scratch_folder("photos", sweep=False):
        assert left.is_dir()
    with scratch_folder("photos"):
        assert not left.exists()


def test_a_child_leaves_the_folder_to_its_parent() -> None:
    with scratch_folder("photos") as folder:
        child = os.fork()
        if child == 0:
            try:
                raise SystemExit  # through the block's end, as a child that returns from it
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        assert folder.is_dir()
        assert sweep_scratch("photos") == []


def test_the_end_of_the_block_in_a_child_removes_nothing() -> None:
    program = """
import os, sys
from endcap._system.scratch import scratch_folder
with scratch_folder("photos") as folder:
    if (child := os.fork()) == 0:
        pass
    else:
        os.waitpid(child, 0)
        print(folder.is_dir(), flush=True)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "True\n"


def test_a_thread_that_the_end_of_the_program_cuts_off_leaves_an_abandoned_folder() -> None:
    program = """
import threading, time
from endcap._system.scratch import scratch_folder
ready = threading.Event()
def work():
    with scratch_folder("photos") as folder:
        print(folder, flush=True)
        ready.set()
        time.sleep(60)
threading.Thread(target=work, daemon=True).start()
ready.wait()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert sweep_scratch("photos") == [Path(done.stdout.strip())]


# --- removal that is hard, or that something cuts off ---------------------------------------------


def make_deep(folder: Path, depth: int) -> None:
    """Make folders in folders, deeper than a path can say."""
    descriptor = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=descriptor)
        below = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
    os.close(descriptor)


def test_deep_folders_go(left: Path) -> None:
    make_deep(left, 3000)
    assert sweep_scratch("photos") == [left]
    with scratch_folder("photos") as folder:
        make_deep(folder, 3000)
    assert list(scratch_root().iterdir()) == []


def test_folders_that_nothing_may_be_removed_from_go(temporary: Path) -> None:
    program = """
import os
from endcap._system.scratch import scratch_folder, scratch_root
if os.geteuid() == 0:  # whom no mode stops
    os.setgid(65534)
    os.setuid(65534)
with scratch_folder("photos") as folder:
    for mode in (0o500, 0o000):
        deep = folder / str(mode) / "deep"
        deep.mkdir(parents=True)
        (deep / "file").touch()
        deep.chmod(mode)
        deep.parent.chmod(mode)
print(list(scratch_root().iterdir()))
"""
    with tempfile.TemporaryDirectory(dir="/tmp") as shared:
        Path(shared).chmod(0o1777)
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True, text=True, check=False, env={**os.environ, "TMPDIR": shared},
        )  # fmt: skip
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_an_interrupt_of_the_removal_leaves_an_abandoned_folder() -> None:
    program = """
import gc, os, signal
from endcap._system.scratch import scratch_folder
class Stop(BaseException):
    pass
def stop(number, frame):
    raise Stop
signal.signal(signal.SIGALRM, stop)
try:
    with scratch_folder("photos") as folder:
        for i in range(20000):
            (folder / str(i)).touch()
        signal.setitimer(signal.ITIMER_REAL, 0.01)
except Stop:
    pass
gc.collect()
print(folder, len(os.listdir(folder)), flush=True)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    folder, count = done.stdout.split()
    assert int(count) > 1
    assert sweep_scratch("photos") == [Path(folder)]


def test_a_full_disk_leaves_no_folder() -> None:
    program = """
import resource, signal, tempfile
from endcap._system.scratch import scratch_folder
from endcap.errors import UnsupportedError
tempfile.gettempdir()  # Python looks for another folder where this one is full
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
try:
    with scratch_folder("photos"):
        pass
except UnsupportedError as error:
    assert "no folder can be made" in str(error), error
    raise SystemExit(7)
"""
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert done.returncode == 7
    assert list(scratch_root().iterdir()) == []


def test_a_file_of_a_full_disk_is_named(tmp_path: Path) -> None:
    """As the demo's server.log, which others read while it is written."""
    program = f"""
import resource, signal
from pathlib import Path
from endcap._system.written_file import open_anew
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
stream = open_anew(Path({str(tmp_path / "server.log")!r}))
try:
    stream.write(b"a line")
    stream.flush()
except OSError as error:
    print(error.filename, flush=True)
import os
os._exit(0)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(tmp_path / "server.log")


def test_a_file_that_is_written_by_its_descriptor_is_named(tmp_path: Path) -> None:
    """As Pillow writes."""
    (tmp_path / "small").mkdir()
    begin = in_own_mounts(f"mount -t tmpfs -o size=64k endcap '{tmp_path}/small'")
    program = f"""
import os
from pathlib import Path
from endcap._system.written_file import whole_file
try:
    with whole_file(Path({str(tmp_path / "small" / "picture.jpg")!r})) as file:
        while True:
            os.write(file.fileno(), bytes(1 << 12))
except OSError as error:
    print(error.filename)
"""
    done = subprocess.run(
        [*begin, sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(tmp_path / "small" / "picture.jpg")


def test_other_system_errors_are_left_alone() -> None:
    with pytest.raises(ConnectionRefusedError) as caught, scratch_folder("photos"):
        raise ConnectionRefusedError(errno.ECONNREFUSED, "refused")
    assert caught.value.filename is None


# --- what only looks like an abandoned folder -----------------------------------------------------


def renamed(left: Path) -> None:
    left.rename(left.parent / f"photos-{secrets.token_hex(16)}")


def shortened(left: Path) -> None:
    left.rename(left.parent / left.name[:-1])


def without_marker(left: Path) -> None:
    (left / MARKER_NAME).unlink()


def marked_by_a_link(left: Path) -> None:
    marker = left / MARKER_NAME
    target = left.parent.parent / "elsewhere"
    marker.rename(target)
    marker.symlink_to(target)


def marked_by_a_folder(left: Path) -> None:
    (left / MARKER_NAME).unlink()
    (left / MARKER_NAME).mkdir()


def marked_by_a_pipe(left: Path) -> None:
    (left / MARKER_NAME).unlink()
    os.mkfifo(left / MARKER_NAME)


def linked(left: Path) -> None:
    target = left.parent.parent / "elsewhere"
    left.rename(target)
    left.symlink_to(target, target_is_directory=True)


def foreign_folder(left: Path) -> None:
    os.chown(left, NOBODY, NOBODY)


def foreign_marker(left: Path) -> None:
    os.chown(left / MARKER_NAME, NOBODY, NOBODY)


@pytest.mark.parametrize(
    "change",
    [
        renamed,
        shortened,
        without_marker,
        marked_by_a_link,
        marked_by_a_folder,
        marked_by_a_pipe,
        linked,
        pytest.param(foreign_folder, marks=AS_ROOT),
        pytest.param(foreign_marker, marks=AS_ROOT),
    ],
    ids=lambda change: change.__name__,
)
def test_a_folder_that_lacks_one_sign_stays(change, left: Path, temporary: Path) -> None:
    change(left)
    before = snapshot(temporary)
    assert sweep_scratch("photos") == []
    with scratch_folder("photos"):
        pass
    assert snapshot(temporary) == before
    assert before


def test_folders_of_earlier_versions_and_of_others_stay(temporary: Path) -> None:
    names = ["endcap-x2k9", "endcap-*", "endcap_dali_build_mine", "photos", "endcap-env-a"]
    for name in names:
        (temporary / name).mkdir()
        (temporary / name / "lock").touch()
        os.utime(temporary / name, (0, 0))
    with scratch_folder("photos"), scratch_folder("dali-build"), scratch_folder("server"):
        pass
    assert all((temporary / name / "lock").is_file() for name in names)


def test_a_purpose_is_no_pattern(left: Path) -> None:
    assert sweep_scratch("p.*") == []
    assert sweep_scratch("*") == []
    assert left.is_dir()


# --- the folder that they lie in ------------------------------------------------------------------


def refused(temporary: Path, reason: str) -> None:
    """Nothing is made, and nothing is removed, and the message says what to do."""
    before = sorted(temporary.rglob("*"))
    with (
        pytest.raises(UnsupportedError, match=rf"{reason}.*; move it away, or set TMPDIR"),
        scratch_folder("photos"),
    ):
        pass
    assert sorted(temporary.rglob("*")) == before


def test_a_link_in_its_place_is_refused(temporary: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (temporary / f"endcap-{os.geteuid()}").symlink_to(target, target_is_directory=True)
    refused(temporary, "must be a folder of this user, and no link to one")
    assert list(target.iterdir()) == []


def test_a_file_in_its_place_is_refused(temporary: Path) -> None:
    (temporary / f"endcap-{os.geteuid()}").touch()
    refused(temporary, "must be a folder of this user")


def test_one_that_others_may_enter_is_refused(temporary: Path) -> None:
    root = temporary / f"endcap-{os.geteuid()}"
    root.mkdir()
    root.chmod(0o711)
    refused(temporary, r"is open to other users \(mode 0711, expected 0700\)")


@AS_ROOT
def test_one_of_another_user_is_refused(temporary: Path) -> None:
    root = temporary / f"endcap-{os.geteuid()}"
    root.mkdir(mode=0o700)
    os.chown(root, NOBODY, NOBODY)
    refused(temporary, f"belongs to user {NOBODY}, not to user {os.geteuid()}")


def test_a_link_on_the_way_is_followed(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = temporary / "link"
    link.symlink_to(temporary, target_is_directory=True)
    monkeypatch.setattr(tempfile, "tempdir", str(link))
    with scratch_folder("photos") as folder:
        assert folder.parent.parent == temporary


@pytest.mark.parametrize("depth", [0, 1])
@pytest.mark.parametrize("mode", [0o777, pytest.param(0o775, marks=AS_ROOT)])
def test_one_that_others_may_replace_is_refused(temporary: Path, mode: int, depth: int) -> None:
    folder = [temporary, temporary.parent][depth]
    if mode == 0o775:
        os.chown(folder, -1, NOBODY)
    folder.chmod(mode)
    before = sorted(temporary.rglob("*"))
    with (
        pytest.raises(
            UnsupportedError,
            match=rf"{folder} lets other users replace .*\(mode {mode:04o}; .*; set TMPDIR to",
        ),
        scratch_folder("photos"),
    ):
        pass
    assert sorted(temporary.rglob("*")) == before
    with pytest.raises(UnsupportedError, match="lets other users replace"):
        sweep_scratch("photos")
    folder.chmod(mode | stat.S_ISVTX)
    with scratch_folder("photos"):
        pass


def test_one_that_this_users_own_group_may_replace_is_taken(temporary: Path) -> None:
    user = pwd.getpwuid(os.geteuid())
    if grp.getgrgid(user.pw_gid) != (user.pw_name, grp.getgrgid(user.pw_gid)[1], user.pw_gid, []):
        pytest.skip("this user has no group of its own")
    os.chown(temporary, -1, user.pw_gid)
    temporary.chmod(0o775)
    with scratch_folder("photos") as folder:
        assert folder.is_dir()


@AS_ROOT
def test_one_that_an_access_list_opens_is_refused(temporary: Path) -> None:
    everybody = 0xFFFFFFFF
    entries = [(1, 7, everybody), (2, 7, NOBODY), (4, 0, everybody), (16, 7, everybody),
               (32, 0, everybody)]  # fmt: skip
    access_list = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *each) for each in entries)
    os.setxattr(temporary, "system.posix_acl_access", access_list)
    assert stat.S_IMODE(temporary.stat().st_mode) == 0o770
    with pytest.raises(UnsupportedError, match="lets other users replace"), scratch_folder("a"):
        pass


def test_a_group_that_is_another_users_first_is_not_this_users_own(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = pwd.getpwuid(os.geteuid())
    group = grp.struct_group((user.pw_name, "x", user.pw_gid, []))
    other = pwd.struct_passwd(("other", "x", 12345, user.pw_gid, "", "/", "/bin/sh"))
    monkeypatch.setattr(grp, "getgrgid", lambda _: group)
    os.chown(temporary, -1, user.pw_gid)
    temporary.chmod(0o775)
    monkeypatch.setattr(pwd, "getpwall", lambda: [user])
    with scratch_folder("photos") as folder:
        assert folder.is_dir()
    monkeypatch.setattr(pwd, "getpwall", lambda: [user, other])
    with (
        pytest.raises(UnsupportedError, match="lets other users replace"),
        scratch_folder("photos"),
    ):
        pass


def test_what_is_mounted_in_an_abandoned_folder_stays(left: Path, tmp_path: Path) -> None:
    """A bind mount has the number of the file system that it lies in."""
    photos, inside = tmp_path / "photos", left / "data"
    photos.mkdir()
    (photos / "cat.jpg").write_text("precious")
    photos.chmod(0o555)
    inside.mkdir()
    begin = in_own_mounts(f"mount --bind '{photos}' '{inside}'")
    program = f"""
import os
from endcap._system.scratch import sweep_scratch
assert sweep_scratch("photos") == []
assert os.listdir({str(inside)!r}) == ["cat.jpg"]
"""
    subprocess.run([*begin, sys.executable, "-c", program], check=True)
    assert (photos / "cat.jpg").read_text() == "precious"
    assert stat.S_IMODE(photos.stat().st_mode) == 0o555


def test_one_that_others_may_replace_is_taken_on_demand(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary.chmod(0o777)
    monkeypatch.setenv("ENDCAP_TRUST_TMPDIR", "1")
    with scratch_folder("photos") as folder:
        assert folder.is_dir()
    assert sweep_scratch("photos") == []


@AS_ROOT
def test_one_in_a_folder_of_another_user_is_refused(temporary: Path) -> None:
    os.chown(temporary, NOBODY, NOBODY)
    with (
        pytest.raises(UnsupportedError, match=f"{temporary} belongs to user {NOBODY}"),
        scratch_folder("photos"),
    ):
        pass
    assert list(temporary.iterdir()) == []


def test_a_folder_in_the_place_of_ones_own_stays(temporary: Path) -> None:
    """As another user puts it there who may write to the temporary folder."""
    with scratch_folder("photos") as folder:
        stolen = temporary / "stolen"
        folder.parent.rename(stolen)
        folder.mkdir(parents=True)
        (folder / "file").write_text("mine")
    assert (folder / "file").read_text() == "mine"
    assert (stolen / folder.name / MARKER_NAME).is_file()


def test_a_temporary_folder_that_is_gone_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(UnsupportedError, match=r"cannot be made .*; set TMPDIR to"):
        scratch_root()
    assert list(abandoned_scratch("photos")) == []


# --- many at once ---------------------------------------------------------------------------------


def test_processes_that_sweep_take_no_folder_that_is_held() -> None:
    command = [sys.executable, "-c", WORKER, "3"]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(6)]
    said = [worker.communicate(timeout=60)[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * len(workers)
    assert sum(int(each) for each in said) > 100  # they did compete
    assert list(scratch_root().iterdir()) == []
