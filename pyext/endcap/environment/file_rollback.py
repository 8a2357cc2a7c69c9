"""Files that are as they were when what is done to them fails."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path


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
