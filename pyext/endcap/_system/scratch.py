"""Temporary folders, and the removal of those that killed processes have left.

All lie in one folder of this user, TMPDIR/endcap-UID, which nobody but root can enter or replace.
Each is named PURPOSE-TOKEN, with a random token, and holds a marker: a file with that name as its
content, which the process that made the folder locks for as long as it lives. A folder counts as
abandoned only if its whole name, its owner, its marker and the marker's lock say so.

TMPDIR, and not XDG_RUNTIME_DIR: environments and networks of gigabytes would fill that small
tmpfs, and a logout removes it under a server that goes on.

A result that is written whole or not at all has its partial folder where it will be, under
.endcap-PURPOSE-TOKEN.partial and with such a marker.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from endcap._system.locked_file import LockedFile, LostFileError, lock_abandoned
from endcap._system.user_folders import find_untrusted, user_cache
from endcap.errors import UnsupportedError

MARKER_NAME = ".endcap-scratch"
# Set to 1, nobody else can reach the temporary folder, whatever its mode.
TRUST_VARIABLE = "ENDCAP_TRUST_TMPDIR"

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
_FULL_BELOW_BYTES = 1 << 20

_TOKEN_BYTES = 16
_ATTEMPTS = 20
_PAUSE_S = 0.1
_MARKER_BYTES = 256  # more than any name
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def scratch_root() -> Path:
    """Return the folder of this user's scratch folders, made where there is none.

    Raises:
        UnsupportedError: It cannot be made, it is not a folder of this user that is closed to all
            others, or others may replace it.
    """
    root = root_path()
    try:
        _check_parents(root)
        root.mkdir(mode=0o700)
    except FileExistsError:
        pass  # checked below, like a new one
    except OSError as error:
        raise UnsupportedError(
            f"the temporary folder {root} cannot be made ({error.strerror}); set TMPDIR to a "
            "folder that you may write to"
        ) from error
    os.close(_open_root(root))
    return root


def root_path() -> Path:
    """Return where `scratch_root` is, links on the way to it followed, without checking it."""
    return Path(os.path.realpath(tempfile.gettempdir())) / f"endcap-{os.geteuid()}"


@contextlib.contextmanager
def scratch_folder(purpose: str, *, sweep: bool = True) -> Iterator[Path]:
    """Make an empty folder (but for its marker), which is gone after the block.

    Args:
        purpose: Lowercase words with hyphens; the folder's name begins with it.
        sweep: Remove the folders for this purpose that killed processes have left, before.

    Yields:
        The folder.

    Raises:
        UnsupportedError: No folder can be made; the message says why.
    """
    if sweep:
        sweep_scratch(purpose)
    folder, marker = _make(purpose)
    try:
        with errors_naming(folder.parent):
            yield folder
    finally:
        if marker.descriptor >= 0:  # not so in a forked child
            _remove(folder, marker)


@contextlib.contextmanager
def errors_naming(path: Path) -> Iterator[None]:
    """Let the error of a full disk that names no file, as of a write to an open one, name a path.

    Where such blocks are within each other, on several disks, that is the one on the full disk.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in DISK_FULL or error.filename is not None:
            raise
        disk = os.statvfs(path if path.is_dir() else path.parent)
        if error.errno == errno.ENOSPC and disk.f_bavail * disk.f_frsize > _FULL_BELOW_BYTES:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def variable_of(path: Path) -> str | None:
    """Return the variable that decides where a path of endcap's is; None for other paths."""
    with contextlib.suppress(UnsupportedError):  # a user without a cache
        if path.is_relative_to(user_cache()):
            return "XDG_CACHE_HOME"
    return "TMPDIR" if path.is_relative_to(root_path()) else None


def sweep_scratch(purpose: str) -> list[Path]:
    """Remove the folders for a purpose that no process holds, and return them."""
    swept = []
    for folder in abandoned_scratch(purpose):
        # What another process still writes into it stays for the next sweep.
        with contextlib.suppress(OSError):
            remove_scratch(folder)
            swept.append(folder)
    return swept


def abandoned_scratch(purpose: str) -> Iterator[Path]:
    """Yield the folders for a purpose that no process holds, each locked meanwhile."""
    root = root_path()
    try:
        _check_parents(root)
        root_descriptor = _open_root(root)
    except FileNotFoundError:
        return
    try:
        for name in sorted(os.listdir(root_descriptor)):
            if re.fullmatch(rf"{re.escape(purpose)}-[0-9a-f]{{{2 * _TOKEN_BYTES}}}", name):
                with contextlib.ExitStack() as opened:
                    if _lock_marker(name, root_descriptor, opened) is not None:
                        yield root / name
    finally:
        os.close(root_descriptor)


def remove_scratch(folder: Path) -> None:
    """Remove a folder that `abandoned_scratch` has yielded, while it is locked.

    Raises:
        OSError: Something in it cannot be removed; the marker stays with it.
    """
    descriptor = os.open(folder, _FOLDER_FLAGS)
    try:
        _empty(descriptor)
    finally:
        os.close(descriptor)
    _remove_rest(folder)


@contextlib.contextmanager
def partial_folder(place: int, purpose: str) -> Iterator[int]:
    """Make an empty folder (but for its marker) in any folder; it is gone after the block.

    Only this user can enter it. Descriptors are used throughout, so that users who may rename
    files in `place` cannot redirect this process to another folder.

    Args:
        place: A descriptor of the folder to make it in.
        purpose: As for `scratch_folder`; partial folders of killed processes are removed before.

    Yields:
        A descriptor of the new folder.

    Raises:
        OSError: It cannot be made.
    """
    sweep_partial(place, purpose)
    name = f".endcap-{purpose}-{secrets.token_hex(_TOKEN_BYTES)}.partial"
    with contextlib.ExitStack() as opened:
        # Of another folder that has come under that name, only an empty one would be removed.
        opened.callback(_remove_empty, name, place)
        os.mkdir(name, 0o700, dir_fd=place)
        folder = os.open(name, _FOLDER_FLAGS, dir_fd=place)
        opened.callback(os.close, folder)
        opened.callback(_mark_partial(folder, name))
        try:
            yield folder
        finally:
            with contextlib.suppress(OSError):  # what stays is for the next sweep
                _empty(folder)


def sweep_partial(place: int, purpose: str) -> None:
    """Remove the partial folders in `place` that no process holds."""
    pattern = rf"\.endcap-{re.escape(purpose)}-[0-9a-f]{{{2 * _TOKEN_BYTES}}}\.partial"
    for name in os.listdir(place):
        if re.fullmatch(pattern, name):
            with contextlib.ExitStack() as opened:
                folder = _lock_marker(name, place, opened)
                if folder is not None:
                    with contextlib.suppress(OSError):  # it stays for the next sweep
                        _empty(folder)
                        os.unlink(MARKER_NAME, dir_fd=folder)
                        os.rmdir(name, dir_fd=place)


def descriptor_path(descriptor: int) -> Path:
    """Return a path that leads to an open folder, whatever its name has become."""
    return Path(f"/proc/self/fd/{descriptor}")


def _mark_partial(folder: int, name: str) -> Callable[[], None]:
    """Put the marker into a partial folder; return what removes it."""
    path = descriptor_path(folder) / MARKER_NAME
    try:
        marker = LockedFile(path, remove_unused=False)
    except LostFileError:
        raise
    except OSError:  # a file system without locks, on which no sweep takes it for abandoned
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        owner = os.fstat(descriptor).st_uid
        os.close(descriptor)
        remove: Callable[[], None] = path.unlink
    else:
        os.write(marker.descriptor, name.encode())
        owner = os.fstat(marker.descriptor).st_uid
        remove = marker.remove
    # Compared with a new file, not with this user: some file systems have users of their own.
    if os.fstat(folder).st_uid != owner:
        remove()
        raise PermissionError(errno.EPERM, "another user has put a folder of theirs there", name)
    return remove


def _remove_empty(name: str, place: int) -> None:
    with contextlib.suppress(OSError):  # it was moved away, or never made
        os.rmdir(name, dir_fd=place)


def _make(purpose: str) -> tuple[Path, LockedFile]:
    root = scratch_root()
    for _ in range(_ATTEMPTS):
        folder = root / f"{purpose}-{secrets.token_hex(_TOKEN_BYTES)}"
        try:
            folder.mkdir(mode=0o700)
            return folder, _mark(folder)
        except LostFileError:
            continue
        except OSError as error:
            raise UnsupportedError(
                f"no folder can be made in {root} ({error.strerror}); free space there, or set "
                "TMPDIR to another folder"
            ) from error
    raise UnsupportedError(
        f"folders in {root} are removed as soon as they are made; check which program removes them"
    )


def _mark(folder: Path) -> LockedFile:
    """Put a locked marker into an empty folder, which is removed where that fails."""
    try:
        # Where the program ends within the block, the next sweep recognises the folder by it.
        marker = LockedFile(folder / MARKER_NAME, remove_unused=False)
        # A sweep takes a folder for abandoned only with this content, so that there is no
        # moment in which the marker is complete and not locked.
        os.write(marker.descriptor, folder.name.encode())
    except BaseException:
        with contextlib.suppress(OSError):  # an empty rest
            _remove_rest(folder)
        raise
    return marker


def _check_parents(root: Path) -> None:
    """Check that nobody but this user and root can put something else in the place of `root`."""
    if os.environ.get(TRUST_VARIABLE) == "1":
        return
    untrusted = find_untrusted(root.parent)
    if untrusted is not None:
        raise UnsupportedError(
            f"the temporary folder {root} is not safe: {untrusted}; set TMPDIR to a folder of your "
            f"own, or {TRUST_VARIABLE}=1 where there are no other users, as in a container"
        )


def _open_root(root: Path) -> int:
    """Open the folder without following links, after a look at its owner and mode."""
    advice = "move it away, or set TMPDIR to another folder"
    try:
        descriptor = os.open(root, _FOLDER_FLAGS)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UnsupportedError(
            f"{root} must be a folder of this user, and no link to one ({error.strerror}); {advice}"
        ) from error
    status = os.fstat(descriptor)
    problem = ""
    if status.st_uid != os.geteuid():
        problem = f"belongs to user {status.st_uid}, not to user {os.geteuid()}; {advice}"
    elif stat.S_IMODE(status.st_mode) & 0o077:
        problem = (
            f"is open to other users (mode {stat.S_IMODE(status.st_mode):04o}, expected 0700); "
            f"{advice}"
        )
    if problem:
        os.close(descriptor)
        raise UnsupportedError(f"{root} {problem}")
    return descriptor


def _lock_marker(name: str, root: int, opened: contextlib.ExitStack) -> int | None:
    """Lock the marker of an abandoned folder until `opened` is closed.

    Returns:
        A descriptor of the folder, closed likewise; None for folders that are not abandoned.
    """
    try:
        folder = os.open(name, _FOLDER_FLAGS, dir_fd=root)
        opened.callback(os.close, folder)
        if os.fstat(folder).st_uid != os.geteuid():
            return None
        marker = lock_abandoned(MARKER_NAME, folder=folder)
    except OSError:  # a folder of another kind, or one that has just gone
        return None
    if marker is None:
        return None
    opened.callback(os.close, marker)
    return folder if os.pread(marker, _MARKER_BYTES, 0) == name.encode() else None


def _remove(folder: Path, marker: LockedFile) -> None:
    """Remove a folder of this process.

    Threads and processes that an interrupt has left may write into it for a moment. What cannot be
    removed then, or when an interrupt ends the removal, stays for the next sweep.
    """
    try:
        for _ in range(_ATTEMPTS):
            try:
                _empty_own(folder, marker)
            except OSError:
                time.sleep(_PAUSE_S)
            else:
                marker.remove()
                with contextlib.suppress(OSError):  # something was written since: an empty rest
                    folder.rmdir()
                return
    finally:
        marker.let_go()


def _remove_rest(folder: Path) -> None:
    (folder / MARKER_NAME).unlink(missing_ok=True)
    folder.rmdir()


def _empty_own(folder: Path, marker: LockedFile) -> None:
    """Empty the folder of a marker of this process; another folder in its place is an error."""
    descriptor = os.open(folder, _FOLDER_FLAGS)
    try:
        there = os.stat(MARKER_NAME, dir_fd=descriptor, follow_symlinks=False)
        if not os.path.samestat(there, os.fstat(marker.descriptor)):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder))
        _empty(descriptor)
    finally:
        os.close(descriptor)


def _empty(folder: int) -> None:
    """Remove the contents of a folder, but not its marker; links are removed, not followed.

    Folders within folders are moved up into it before they are emptied: neither the depth of the
    stack nor the number of open files bounds how deep they lie.
    """
    waiting = _remove_files(folder, spared=MARKER_NAME)
    while waiting:
        name = waiting.pop()
        descriptor = os.open(name, _FOLDER_FLAGS, dir_fd=folder)
        try:
            for below in _remove_files(descriptor):
                moved = secrets.token_hex(_TOKEN_BYTES)
                os.rename(below, moved, src_dir_fd=descriptor, dst_dir_fd=folder)
                waiting.append(moved)
        finally:
            os.close(descriptor)
        os.rmdir(name, dir_fd=folder)


def _remove_files(folder: int, *, spared: str = "") -> list[str]:
    """Remove all but folders from a folder; return the folders, made accessible."""
    folders = []
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in found:
        if is_folder:
            _permit_all(name, folder)
            folders.append(name)
        elif name != spared:
            os.unlink(name, dir_fd=folder)
    return folders


def _permit_all(name: str, parent: int) -> None:
    """Let this user list, change and move a folder; one that is mounted there is an error."""
    descriptor = os.open(
        name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent
    )
    try:
        status = os.fstat(descriptor)
        is_mounted = status.st_dev != os.fstat(parent).st_dev or (
            # Of the same file system, too: a bind mount.
            _mount_of(descriptor) != _mount_of(parent)
        )
        if is_mounted:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), name)
        if status.st_mode & stat.S_IRWXU != stat.S_IRWXU:
            os.chmod(f"/proc/self/fd/{descriptor}", stat.S_IRWXU)
    finally:
        os.close(descriptor)


def _mount_of(descriptor: int) -> str:
    """Return the number of the mount that an open file or folder was reached by."""
    for line in Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "mnt_id":
            return value.strip()
    raise OSError(errno.ENOTSUP, "the kernel names no mount", str(descriptor))
