"""Files and folders that are written whole or not at all, and endcap's cache folder.

A process that is killed leaves its partial file or folder, `.endcap-*.partial`, next to the result.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, TextIO

import platformdirs

from endcap.errors import InvalidArgumentError, UnsupportedError

# Paths that stand for open files of this process.
_OPEN_FILE = re.compile(r"/dev/(?P<name>stdin|stdout|stderr)|/(dev|proc/self)/fd/(?P<number>\d+)")
_WRITE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


@contextlib.contextmanager
def whole_file(
    path: Path,
    *,
    follow_links: bool = True,
    mode: int | None = None,
    replace_read_only: bool = False,
) -> Iterator[IO[bytes]]:
    """Yield a binary stream whose bytes are in `path` when the block ends without an exception.

    Until then, and after an exception, an earlier file is untouched. A pipe or a device is written
    to directly, and so is an open file of this process, such as /dev/stdout.

    Args:
        path: The file.
        follow_links: Write the target of a symbolic link. False, for names that the user has not
            given, rejects links, pipes and devices.
        mode: The file's mode; None keeps that of the earlier file, or takes the default.
        replace_read_only: Replace a file that cannot be written to, for files that endcap makes.

    Raises:
        InvalidArgumentError: Before the block: the file cannot be created.
    """
    direct = _open_directly(path) if follow_links else None
    if direct is not None:
        with _errors_naming(path), direct:
            yield direct
        return
    refuse_foreign_link(path) if follow_links else refuse_links([path])
    target = Path(os.path.realpath(path)) if follow_links else path  # a link stays a link
    if target.is_dir():
        raise InvalidArgumentError(f"file {path} cannot be written: it is a folder")
    if target.is_file() and not replace_read_only and not os.access(target, os.W_OK):
        raise InvalidArgumentError(f"file {path} cannot be written: it is read-only")
    partial = target.with_name(f".endcap-{secrets.token_hex(8)}.partial")
    try:
        stream = partial.open("xb")
    except OSError as error:
        raise InvalidArgumentError(f"file {path} cannot be written: {error.strerror}") from error
    try:
        with _errors_naming(path), stream:
            if mode is None and target.is_file():
                mode = stat.S_IMODE(target.stat().st_mode)
            if mode is not None:
                os.fchmod(stream.fileno(), mode)
            yield stream
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


@contextlib.contextmanager
def whole_text_file(path: Path) -> Iterator[TextIO]:
    """Yield a UTF-8 text stream as `whole_file` does; what UTF-8 cannot hold is escaped."""
    with (
        whole_file(path) as file,
        io.TextIOWrapper(file, "utf-8", errors="backslashreplace", newline="") as text,
    ):
        yield text


@contextlib.contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """Yield a folder whose content is in `target` when the block ends without an exception.

    The target is empty or does not exist. An existing one, which may be mounted, is kept.

    Raises:
        InvalidArgumentError: Another process has written to `target` meanwhile.
    """
    place = target.resolve()
    is_there = place.is_dir()
    partial = (place if is_there else place.parent) / f".endcap-{secrets.token_hex(8)}.partial"
    try:
        with _errors_naming(place):
            partial.mkdir()
            yield partial
        moves = [(partial, place)]
        if is_there:
            moves = [(path, place / path.name) for path in sorted(partial.iterdir())]
        with contextlib.ExitStack() as undo:
            for old, new in moves:
                try:  # the rename replaces this, and nothing that another process has made
                    if old.is_dir() and not old.is_symlink():
                        new.mkdir()
                    else:
                        new.touch(exist_ok=False)
                except FileExistsError as error:
                    raise InvalidArgumentError(
                        f"another process has created {new} meanwhile, and nothing is overwritten; "
                        "remove it, or choose another folder"
                    ) from error
                old.rename(new)
                undo.callback(new.rename, old)
            undo.pop_all()
    except OSError as error:
        if str(error.filename).startswith(str(partial)):
            error.filename = f"{place}{str(error.filename).removeprefix(str(partial))}"
        raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def cache_folder(name: str) -> Path:
    """Return a folder of this user's cache, whether it exists or not. Raises UnsupportedError."""
    try:
        folder = platformdirs.user_cache_path("endcap") / name
    except RuntimeError as error:
        text = "this user has no home folder for a cache; set XDG_CACHE_HOME"
        raise UnsupportedError(text) from error
    for each in (folder.parent, folder):
        try:
            status = each.stat()
        except OSError:
            break  # nothing to find; whoever writes makes it
        if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise UnsupportedError(
                f"other users may write to the cache {each}; remove it, or set XDG_CACHE_HOME to a "
                "folder that only you may write to"
            )
    return folder


def refuse_foreign_link(path: Path) -> None:
    """Raise InvalidArgumentError for another user's link in a folder that others may change."""
    try:
        link, folder = path.lstat(), path.parent.stat()
    except OSError:
        return  # there is nothing to follow
    own = (os.geteuid(), 0)
    is_shared = folder.st_uid not in own or folder.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if stat.S_ISLNK(link.st_mode) and link.st_uid not in own and is_shared:
        raise InvalidArgumentError(
            f"{path} cannot be written: it is a symbolic link of user {link.st_uid} in a folder "
            "that others may change; give another path"
        )


def refuse_links(targets: Iterable[Path]) -> None:
    """Raise InvalidArgumentError where a target is a symbolic link, or not a regular file."""
    for target in targets:
        if target.is_symlink() or (target.exists() and not target.is_file()):
            kind = "a symbolic link" if target.is_symlink() else "not a regular file"
            raise InvalidArgumentError(
                f"{target} is {kind}, which is not written to; remove it, or give another path"
            )


def _open_directly(path: Path) -> IO[bytes] | None:
    """Open a pipe, a device or an open file of this process; return None for other paths."""
    match = _OPEN_FILE.fullmatch(os.path.normpath(path))
    try:
        if match is not None:
            number = {"stdin": 0, "stdout": 1, "stderr": 2}.get(match["name"], match["number"])
            # A duplicate has the position of the original, and appends where that does.
            return open(os.dup(int(number)), "wb")
        if path.exists() and not path.is_file() and not path.is_dir():
            refuse_foreign_link(path)
            return path.open("wb")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidArgumentError(f"file {path} cannot be written: {reason}") from error
    return None


@contextlib.contextmanager
def _errors_naming(path: Path) -> Iterator[None]:
    """Let the error of a failed write, which names no file, name `path`."""
    try:
        yield
    except OSError as error:
        if error.errno not in _WRITE_ERRORS or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
