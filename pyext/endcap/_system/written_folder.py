"""Folders that are written whole or not at all."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from endcap._system.scratch import (
    descriptor_path,
    errors_naming,
    partial_folder,
    sweep_partial,
)
from endcap._system.written_file import refuse_foreign_link
from endcap.errors import InvalidArgumentError

_CONTENT = "content"
_NO_REPLACE = 1  # RENAME_NOREPLACE of renameat2(2)
_libc = ctypes.CDLL(None, use_errno=True)


def check_empty(target: Path, purpose: str, *, advice: str) -> None:
    """Raise InvalidArgumentError unless a folder is empty, or not there while its parent is.

    Partial folders of killed runs are removed from an existing folder before.

    Args:
        target: The folder.
        purpose: Of the partial folders, as for `whole_folder`.
        advice: What to do about a folder that is not empty.
    """
    refuse_foreign_link(target)
    try:
        target.stat()
    except OSError as error:  # other faults are checked below
        if error.errno == errno.ELOOP:
            raise InvalidArgumentError(
                f"{target} is a link that leads to itself; give --output another folder"
            ) from error
    if target.exists() and not target.is_dir():
        raise InvalidArgumentError(f"{target} is a file; give --output a folder that is not there")
    if target.is_dir():
        with contextlib.ExitStack() as opened:
            sweep_partial(_open_folder(target.resolve(), opened), purpose)
    if target.is_dir() and any(target.iterdir()):
        raise InvalidArgumentError(
            f"folder {target} is not empty, and nothing in it is overwritten; {advice}"
        )
    parent = target.resolve().parent
    if not parent.is_dir():
        raise InvalidArgumentError(f"{parent}, where {target.name} is to be, is no folder; make it")


@contextlib.contextmanager
def whole_folder(target: Path, purpose: str) -> Iterator[Path]:
    """Yield a folder whose content is in `target` when the block ends well, and nowhere else.

    An existing folder keeps its owner and mounts.

    Args:
        target: The folder, empty or not there.
        purpose: Names the partial folder, as for `scratch.partial_folder`.

    Raises:
        InvalidArgumentError: Another process has written into it meanwhile.
    """
    place = target.resolve()
    is_there = place.is_dir()
    with contextlib.ExitStack() as opened:
        base = _open_folder(place if is_there else place.parent, opened)
        try:
            partial = opened.enter_context(partial_folder(base, purpose))
            os.mkdir(_CONTENT, dir_fd=partial)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(place)) from error
        folder = descriptor_path(partial) / _CONTENT
        try:
            with errors_naming(place):
                yield folder
        except OSError as error:
            if not str(error.filename).startswith(str(folder)):
                raise
            shown = f"{place}{str(error.filename).removeprefix(str(folder))}"
            raise OSError(error.errno, error.strerror, shown) from error
        if is_there:
            _move_entries(_open_folder(folder, opened), base, place)
        else:
            _move((partial, _CONTENT), (base, place.name), place)


def _move_entries(source: int, target: int, place: Path) -> None:
    """Move all entries of a folder into another, or none; `place` is its path for messages."""
    moved: dict[str, os.stat_result] = {}
    try:
        for name in sorted(os.listdir(source)):
            # Noted before: an interrupt may come right after the move.
            moved[name] = os.stat(name, dir_fd=source, follow_symlinks=False)
            _move((source, name), (target, name), place / name)
    except BaseException:
        for name, status in moved.items():
            with contextlib.suppress(FileNotFoundError):  # not moved, or removed by somebody since
                there = os.stat(name, dir_fd=target, follow_symlinks=False)
                if os.path.samestat(status, there):
                    os.rename(name, name, src_dir_fd=target, dst_dir_fd=source)
        raise


def _move(source: tuple[int, str], target: tuple[int, str], place: Path) -> None:
    """Move an entry and replace nothing; both are a folder's descriptor and a name in it."""
    (source_folder, old), (target_folder, new) = source, target
    try:
        names = os.fsencode(old), os.fsencode(new)
        if not _libc.renameat2(source_folder, names[0], target_folder, names[1], _NO_REPLACE):
            return
        code = ctypes.get_errno()
        if code not in (errno.EINVAL, errno.ENOSYS):
            raise OSError(code, os.strerror(code), str(place))
        # A file system that cannot do it. A folder replaces an empty one, which is made here.
        if stat.S_ISDIR(os.stat(old, dir_fd=source_folder).st_mode):
            os.mkdir(new, dir_fd=target_folder)
            os.rename(old, new, src_dir_fd=source_folder, dst_dir_fd=target_folder)
        else:
            os.link(old, new, src_dir_fd=source_folder, dst_dir_fd=target_folder)
            os.unlink(old, dir_fd=source_folder)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
            raise InvalidArgumentError(
                f"{place} has been made by somebody else meanwhile, and nothing is overwritten; "
                "give --output another folder, or remove that"
            ) from error
        raise OSError(error.errno, error.strerror, str(place)) from error


def _open_folder(path: Path, opened: contextlib.ExitStack) -> int:
    """Open a folder, which no link may have replaced, until `opened` is closed."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags)
    opened.callback(os.close, descriptor)
    return descriptor
