"""The file that a server's log is copied to."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from endcap.triton.errors import ServerError

_CANNOT_LOCK = (errno.ENOLCK, errno.EOPNOTSUPP)  # some network file systems


@contextlib.contextmanager
def open_log_file(path: Path, repository: Path) -> Iterator[IO[bytes]]:
    """Open the log file of a server, empty; a regular file is locked until the block ends.

    Args:
        path: The file, or a pipe or a device.
        repository: The models that the server is about to serve.

    Yields:
        The file, to write to.

    Raises:
        ServerError: The file is one of the repository's, or another server writes its log to it.
        OSError: It cannot be written.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
    is_new = not path.exists()
    descriptor = os.open(path, flags | os.O_CREAT, 0o666)
    with open(descriptor, "wb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            yield file
            return
        if not is_new:
            _refuse_files_of(repository, path, found)
        _lock(path, descriptor)
        try:
            os.ftruncate(descriptor, 0)
            yield file
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # forked children hold the descriptor, too


def _refuse_files_of(repository: Path, path: Path, found: os.stat_result) -> None:
    models = [folder for folder in repository.iterdir() if folder.is_dir()]
    visited: set[tuple[int, int]] = set()
    for folder, below, names in itertools.chain.from_iterable(
        os.walk(model, followlinks=True) for model in models
    ):
        status = os.stat(folder)
        if (status.st_dev, status.st_ino) in visited:  # links may lead round in a circle
            below.clear()
            continue
        visited.add((status.st_dev, status.st_ino))
        for name in names:
            file = Path(folder, name)
            with contextlib.suppress(OSError):  # a link to nothing: not the file that is open
                if os.path.samestat(file.stat(), found):
                    raise ServerError(
                        f"log file {path} is {file} of the model repository, and would replace "
                        "it; give another file"
                    )


def _lock(path: Path, descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise ServerError(
            f"log file {path} is in use by another server; give each server its own"
        ) from error
    except OSError as error:
        if error.errno not in _CANNOT_LOCK:
            raise
