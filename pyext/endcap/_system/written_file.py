"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import io
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal, TextIO

from endcap._system.scratch import errors_naming
from endcap.errors import InvalidArgumentError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


# Paths that stand for open files of this process.
_OPEN_FILE = re.compile(r"/dev/(?P<name>stdin|stdout|stderr)|/(dev|proc/self)/fd/(?P<number>\d+)")
_STANDARD = {"stdin": 0, "stdout": 1, "stderr": 2}


@contextlib.contextmanager
def whole_file(
    path: Path,
    *,
    follow_links: bool = True,
    mode: int | None = None,
    replace_read_only: bool = False,
    durable: bool = False,
) -> Iterator[IO[bytes]]:
    """Yield a binary stream whose bytes are in `path` when the block ends without an exception.

    Until then, and after an exception, a file that was there before is untouched.

    Args:
        path: The file. A pipe or a device is written to directly, and so is an open file of this
            process, such as /dev/stdout, whatever it leads to. A process that is killed leaves its
            partial file, .endcap-TOKEN.partial, beside it.
        follow_links: Write the target of a symbolic link. False, for names that no user has given,
            such as those made of images' names, rejects links, pipes and devices.
        mode: The file's mode; None keeps that of the file before, or takes the default.
        replace_read_only: Replace a file that cannot be written to, for files that endcap makes.
        durable: Wait until the bytes are on the disk before the file takes its place.

    Raises:
        InvalidArgumentError: Before the block: the file cannot be made.
        OSError: Something cannot be written; the error names `path`.
    """
    opened = _open_descriptor(path) if follow_links else None
    if opened is not None:
        with opened:
            yield opened
        return
    if path.is_dir():
        raise InvalidArgumentError(f"file {path} cannot be written: it is a folder")
    if follow_links:
        refuse_foreign_link(path)
    if not follow_links:
        refuse_links([path])
    is_special = follow_links and path.exists() and not path.is_file()
    target = Path(os.path.realpath(path)) if follow_links else path  # a link stays one
    partial = path if is_special else target.with_name(f".endcap-{secrets.token_hex(8)}.partial")
    if not replace_read_only and target.is_file() and not os.access(target, os.W_OK):
        raise InvalidArgumentError(f"file {path} cannot be written: it is read-only")
    try:
        stream = io.BufferedWriter(_NamedFile(partial, path, "wb" if is_special else "xb"))
    except OSError as error:
        raise InvalidArgumentError(f"file {path} cannot be written: {error.strerror}") from error
    try:
        # Pillow writes past the stream, to its descriptor.
        with errors_naming(path), stream:
            if mode is None and not is_special and target.is_file():
                mode = stat.S_IMODE(target.stat().st_mode)
            if mode is not None and not is_special:
                os.fchmod(stream.fileno(), mode)
            yield stream
            if durable:
                stream.flush()
                os.fsync(stream.fileno())
        if not is_special:
            partial.replace(target)
    finally:
        if not is_special:
            partial.unlink(missing_ok=True)


def _open_descriptor(path: Path) -> IO[bytes] | None:
    """Return a stream to the open file that a path stands for; None for other paths."""
    match = _OPEN_FILE.fullmatch(os.path.normpath(path))
    if match is None:
        return None
    number = _STANDARD.get(match["name"] or "", -1) if match["name"] else int(match["number"])
    try:
        # A duplicate: it has the position of the original, and appends where that does.
        return open(os.dup(number), "wb")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidArgumentError(f"file {path} cannot be written: {reason}") from error


def refuse_foreign_link(path: Path) -> None:
    """Raise InvalidArgumentError for a link of another user in a folder that others may change.

    They choose where it leads. Links on the way to the path are followed.
    """
    try:
        link, folder = path.lstat(), path.parent.stat()
    except OSError:
        return  # there is nothing to follow
    own = (os.geteuid(), 0)
    is_of_others = folder.st_uid not in own or folder.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if stat.S_ISLNK(link.st_mode) and link.st_uid not in own and is_of_others:
        raise InvalidArgumentError(
            f"{path} cannot be written: it is a symbolic link of user {link.st_uid} in a folder "
            "that others may change; give another path"
        )


@contextlib.contextmanager
def whole_text_file(path: Path, *, follow_links: bool = True) -> Iterator[TextIO]:
    """Yield a UTF-8 text stream as `whole_file` does; what UTF-8 cannot hold is escaped."""
    with (
        whole_file(path, follow_links=follow_links) as file,
        io.TextIOWrapper(file, "utf-8", errors="backslashreplace", newline="") as text,
    ):
        yield text


def open_anew(path: Path) -> IO[bytes]:
    """Open a new, empty file in the place of `path`, to be read while it is written.

    What was there is removed and never written to: it may be, or lead to, a file of somebody else.

    Raises:
        InvalidArgumentError: The file cannot be made.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        path.unlink(missing_ok=True)
        return io.BufferedWriter(_NamedFile(os.open(path, flags, 0o666), path, "wb"))
    except OSError as error:
        raise InvalidArgumentError(f"file {path} cannot be written: {error.strerror}") from error


def refuse_links(targets: Iterable[Path]) -> None:
    """Raise InvalidArgumentError where a target is a symbolic link, or no regular file.

    The target of a link may be anybody's.
    """
    for target in targets:
        if target.is_symlink() or (target.exists() and not target.is_file()):
            kind = "a symbolic link" if target.is_symlink() else "no regular file"
            raise InvalidArgumentError(
                f"{target} is {kind}, which is not written to; remove it, or give another path"
            )


class _NamedFile(io.FileIO):
    """A file to write whose errors name another path, the one that the user knows."""

    def __init__(self, file: Path | int, shown: Path, mode: Literal["wb", "xb"]) -> None:
        super().__init__(file, mode)
        self._shown = str(shown)

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise OSError(error.errno, error.strerror, self._shown) from error
