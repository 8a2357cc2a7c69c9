"""Files that are written whole or not at all, and restored on failure."""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal, TextIO

from endcap.errors import InvalidArgumentError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


@contextlib.contextmanager
def whole_file(path: Path, *, follow_links: bool = True) -> Iterator[IO[bytes]]:
    """Give a binary stream whose bytes are in `path` when the block ends well.

    When it does not, a file that was there before is untouched; its mode is kept. What is no
    regular file, a pipe or a device, is written to directly. follow_links: False for names that no
    user has given, such as those made of images' names: links, pipes and devices are refused.
    Raises InvalidArgumentError, before the block, when the file cannot be made, and OSError with
    its name when something cannot be written.
    """
    if path.is_dir():
        raise InvalidArgumentError(f"file {path} cannot be written: it is a folder")
    if not follow_links:
        refuse_links([path])
    is_special = follow_links and path.exists() and not path.is_file()
    target = Path(os.path.realpath(path)) if follow_links else path  # a link stays one
    partial = path if is_special else target.with_name(f".endcap-{secrets.token_hex(8)}.partial")
    if target.is_file() and not os.access(target, os.W_OK):
        raise InvalidArgumentError(f"file {path} cannot be written: it is read-only")
    try:
        stream = io.BufferedWriter(_NamedFile(partial, path, "wb" if is_special else "xb"))
    except OSError as error:
        raise InvalidArgumentError(f"file {path} cannot be written: {error.strerror}") from error
    try:
        with stream:
            if not is_special and target.is_file():
                os.fchmod(stream.fileno(), stat.S_IMODE(target.stat().st_mode))
            yield stream
        if not is_special:
            partial.replace(target)
    finally:
        if not is_special:
            partial.unlink(missing_ok=True)


def open_anew(path: Path) -> IO[bytes]:
    """Open a new, empty file in the place of `path`, to be read while it is written.

    What was there is removed and never written to: it may be, or lead to, a file of somebody else.
    Raises InvalidArgumentError when the file cannot be made.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        path.unlink(missing_ok=True)
        return open(os.open(path, flags, 0o666), "wb")
    except OSError as error:
        raise InvalidArgumentError(f"file {path} cannot be written: {error.strerror}") from error


def refuse_links(targets: Iterable[Path]) -> None:
    """Raise InvalidArgumentError where a target is a symbolic link, or no regular file.

    What a link leads to may be anybody's.
    """
    for target in targets:
        if target.is_symlink() or (target.exists() and not target.is_file()):
            kind = "a symbolic link" if target.is_symlink() else "no regular file"
            raise InvalidArgumentError(
                f"{target} is {kind}, which is not written to; remove it, or give another folder"
            )


class _NamedFile(io.FileIO):
    """A file to write whose errors name it as its user does."""

    def __init__(self, path: Path, shown: Path, mode: Literal["wb", "xb"]) -> None:
        super().__init__(path, mode)
        self._shown = str(shown)

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise OSError(error.errno, error.strerror, self._shown) from error


@contextlib.contextmanager
def whole_text_file(path: Path, *, follow_links: bool = True) -> Iterator[TextIO]:
    """As `whole_file`, for text in UTF-8; what that cannot hold is written as an escape code."""
    with (
        whole_file(path, follow_links=follow_links) as file,
        io.TextIOWrapper(file, "utf-8", errors="backslashreplace", newline="") as text,
    ):
        yield text


@contextlib.contextmanager
def replaced_file(target: Path) -> Iterator[Path]:
    """Give the path of a file to write; it takes the place of `target` when the block ends well.

    Raises OSError with the name of the target.
    """
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        yield partial
        partial.replace(target)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(target)) from error
    finally:
        partial.unlink(missing_ok=True)


@contextlib.contextmanager
def restored_on_failure(files: Sequence[Path]) -> Iterator[None]:
    """Put files back when the block fails, and remove those that were not there before it.

    The block replaces files, and writes into none: what is kept is a hard link, which takes no
    space. Folders are left alone. Raises OSError.
    """
    kept = {file: file.with_name(f".{file.name}.{os.getpid()}.before") for file in files}
    there = {file: kept[file] for file in files if file.is_file() or file.is_symlink()}
    absent = [file for file in files if not os.path.lexists(file)]
    try:
        for file, before in there.items():
            _link(file, before)
        try:
            yield
        except BaseException:
            for file, before in there.items():
                before.replace(file)
            for file in absent:
                file.unlink(missing_ok=True)
            raise
    finally:
        # One is left of a file that was not replaced, too: a rename to itself does nothing.
        for before in there.values():
            before.unlink(missing_ok=True)


def _link(file: Path, before: Path) -> None:
    try:
        os.link(file, before, follow_symlinks=False)
    except OSError:  # of a file system without links
        shutil.copy2(file, before, follow_symlinks=False)
