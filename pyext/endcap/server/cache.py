"""The folder of what endcap installs for itself: Triton servers and packages of Python models.

It is `$XDG_CACHE_HOME/endcap/server` or `~/.cache/endcap/server`. An entry is a folder that is made
under another name and gets its own in one step, so that it is there completely or not at all. Its
marker, a file with the entry's name and a list of its files, says that endcap made it, and is
locked by those who use it. An entry that also holds other files is not removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from endcap._system.scratch import descriptor_path, errors_naming, partial_folder
from endcap._system.stages import Stages
from endcap._system.user_folders import find_untrusted, make_cache_folder, only_writer, user_cache
from endcap.errors import UnsupportedError
from endcap.triton.errors import ServerError

ENTRY_MARKER_NAME = ".endcap-server"

_PARTIAL_PURPOSE = "server"  # of the partial folders of entries
_CONTENT = "content"
_REPLACED = "replaced"
# What Python itself adds to and takes away from an entry; the number is of an unfinished file.
_PYTHON_CACHE, _COMPILED = "__pycache__", re.compile(r"\.pyc(\.\d+)?$")
_LOCKED_WITHIN_S, _LOCK_POLL_S = 10.0, 0.05
_ENTRY_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def cache_folder() -> Path:
    """Return the folder of all entries; it may be missing.

    Raises:
        ServerError: This user has no place for a cache.
    """
    try:
        return user_cache() / "server"
    except UnsupportedError as error:
        raise ServerError(str(error)) from error


def find_entry(name: str) -> Path | None:
    """Return the folder of an entry, None where there is none or a part of it is missing.

    Raises:
        ServerError: Another user could put something else there, or a folder that endcap has not
            made has that name.
    """
    folder = cache_folder() / name
    _check_place(folder)
    if not folder.exists():
        return None
    listed = _listed_files(folder)
    if listed is None:
        raise ServerError(
            f"{folder} has that name, but endcap has not made it (it has no {ENTRY_MARKER_NAME} "
            "with that name); move it away, or set XDG_CACHE_HOME to another folder"
        )
    found = dict(_files_of(folder))
    return folder if all(found.get(name) == size for name, size in listed.items()) else None


def make_entry(name: str, make: Callable[[Path, Path], None], stages: Stages) -> Path:
    """Make an entry where it is missing or damaged; two processes may do so at once.

    Args:
        name: Name of its folder.
        make: Fills the first folder, which becomes the entry; the second is for other files. Both
            are removed where it raises.
        stages: Is called when the wait for another process begins.

    Returns:
        The entry's folder.

    Raises:
        ServerError: As for `find_entry`, or a damaged entry is in use or holds other files.
        OSError: The cache cannot be written.
    """
    with _writing(stages) as place:
        found = find_entry(name)
        if found is not None:
            return found
        damaged = cache_folder() / name
        with contextlib.ExitStack() as opened:
            if damaged.exists():
                reason = _why_kept(damaged, opened)
                if reason is not None:
                    raise ServerError(f"{damaged} lacks files, and {reason}")
            partial = opened.enter_context(partial_folder(place, _PARTIAL_PURPOSE))
            opened.enter_context(errors_naming(cache_folder()))
            path = Path(os.readlink(descriptor_path(partial)))
            content = path / _CONTENT
            content.mkdir(mode=0o700)
            make(content, path)
            _write_marker(content, name)
            if damaged.exists():  # only now that there is another one
                os.rename(name, _REPLACED, src_dir_fd=place, dst_dir_fd=partial)
            os.rename(_CONTENT, name, src_dir_fd=partial, dst_dir_fd=place)
    return cache_folder() / name


@contextlib.contextmanager
def hold(folder: Path) -> Iterator[None]:
    """Keep `remove_all` from removing an entry during the block.

    Raises:
        ServerError: The entry has gone.
    """
    try:
        marker = os.open(folder / ENTRY_MARKER_NAME, _ENTRY_FLAGS)
    except OSError as error:
        raise ServerError(f"{folder} has been removed meanwhile; try again") from error
    try:
        _lock_shared(marker, folder)
        if os.fstat(marker).st_nlink == 0:
            raise ServerError(f"{folder} has been removed meanwhile; try again")
        yield
    finally:
        os.close(marker)


def _lock_shared(marker: int, folder: Path) -> None:
    """Lock a marker, which a removal holds for as long as it looks at the entry's files."""
    deadline = time.monotonic() + _LOCKED_WITHIN_S
    while True:
        try:
            fcntl.flock(marker, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > deadline:
                raise ServerError(
                    f"{folder} is locked by another program; end that, or remove the folder"
                ) from error
            time.sleep(_LOCK_POLL_S)
        except OSError:
            return  # a file system without locks
        else:
            return


def remove_all(stages: Stages) -> tuple[list[Path], dict[Path, str]]:
    """Remove the entries that nobody uses; what endcap has not made is left alone.

    Returns:
        The entries that were removed, and those that were not, each with the reason.

    Raises:
        ServerError: Another user could put something else into the cache.
        OSError: The cache cannot be written.
    """
    removed: list[Path] = []
    kept: dict[Path, str] = {}
    if not cache_folder().is_dir():
        return removed, kept
    with _writing(stages) as place:
        for folder in sorted(cache_folder().iterdir()):
            if _listed_files(folder) is None:
                continue
            with contextlib.ExitStack() as opened:
                reason = _why_kept(folder, opened)
                if reason is not None:
                    kept[folder] = reason
                    continue
                # Under the name of a partial folder the next removal ends what this one may not.
                with partial_folder(place, _PARTIAL_PURPOSE) as partial:
                    os.rename(folder.name, _CONTENT, src_dir_fd=place, dst_dir_fd=partial)
                removed.append(folder)
        with partial_folder(place, _PARTIAL_PURPOSE):  # removes what killed processes have left
            pass
    return removed, kept


@contextlib.contextmanager
def _writing(stages: Stages) -> Iterator[int]:
    """Yield a descriptor of the cache, which no other process changes meanwhile."""
    _check_place(cache_folder())
    try:
        make_cache_folder(cache_folder().parent)
        cache_folder().mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise ServerError(
            f"the cache {cache_folder()} cannot be made ({error.strerror}); set XDG_CACHE_HOME to "
            "a folder that you may write to"
        ) from error
    _check_place(cache_folder())

    def show_waiting() -> None:
        stages("waiting for another endcap that installs", None)

    with only_writer(cache_folder(), waiting=show_waiting):
        place = os.open(cache_folder(), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield place
        finally:
            os.close(place)


def _check_place(folder: Path) -> None:
    untrusted = find_untrusted(folder)
    if untrusted is not None:
        raise ServerError(
            f"{folder} is not safe to run programs from: {untrusted}; move that away or close it "
            "to others, or set XDG_CACHE_HOME to a folder of your own"
        )


def _why_kept(folder: Path, opened: contextlib.ExitStack) -> str | None:
    """Lock an entry until `opened` is closed; return why it must not be removed, None without."""
    marker = os.open(folder / ENTRY_MARKER_NAME, _ENTRY_FLAGS)
    opened.callback(os.close, marker)
    try:
        fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return "it is used by a running server; stop that server, and try again"
    except OSError:
        pass  # a file system without locks
    listed = _listed_files(folder) or {}
    others = [name for name, _ in _files_of(folder) if name not in listed]
    if others:
        return f"it holds what endcap has not written, {min(others)}; move that away, and try again"
    return None


def _listed_files(folder: Path) -> dict[str, int] | None:
    """Return the files of an entry with their bytes; None where endcap and this user made none."""
    try:
        status = folder.lstat()
        descriptor = os.open(folder / ENTRY_MARKER_NAME, _ENTRY_FLAGS)
    except OSError:
        return None
    with open(descriptor, "rb") as marker:
        if status.st_uid != os.geteuid() or os.fstat(descriptor).st_uid != os.geteuid():
            return None
        try:
            found = json.load(marker)
        except ValueError:
            return None
    if not isinstance(found, dict) or found.get("entry") != folder.name:
        return None
    listed = found.get("files")
    return listed if isinstance(listed, dict) else None


def _write_marker(content: Path, name: str) -> None:
    # Others may not lock what `hold` waits for.
    with open(content / ENTRY_MARKER_NAME, "x", opener=_open_private) as marker:
        json.dump({"entry": name, "files": dict(_files_of(content))}, marker)
        marker.flush()
        os.fsync(marker.fileno())


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _files_of(folder: Path) -> Iterator[tuple[str, int]]:
    """Yield path and bytes of all files but the marker and what Python caches."""
    for root, folders, names in os.walk(folder):
        links = [name for name in folders if os.path.islink(os.path.join(root, name))]
        if os.path.basename(root) == _PYTHON_CACHE:
            names = [name for name in names if not _COMPILED.search(name)]
        for name in [*names, *links]:
            path = os.path.join(root, name)
            relative = os.path.relpath(path, folder)
            if relative != ENTRY_MARKER_NAME:
                yield relative, os.lstat(path).st_size
