"""Makes the archive of an environment, by conda-pack."""

from __future__ import annotations

import contextlib
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from endcap._system.pip import in_one_line
from endcap._system.stages import Stages
from endcap.environment.errors import ExecutionEnvironmentError, import_tool

# What no model opens; patterns of fnmatch, whose * goes beyond a slash.
_LEFT_OUT = ("*.a", "lib/python{python}/test/*", "share/doc/*", "share/man/*")


class _Counted(list[Any]):
    """A list that reports each element that is taken from it."""

    def __init__(self, elements: list[Any], step: Callable[[], None]) -> None:
        super().__init__(elements)
        self._step = step

    def __iter__(self) -> Iterator[Any]:
        for element in super().__iter__():
            yield element
            self._step()


def pack(prefix: Path, archive: Path, *, python: str, compress_level: int, stages: Stages) -> None:
    """Write the environment in `prefix` to `archive`, a tar.gz, as Triton takes it.

    Args:
        python: Its version, such as "3.11". Raises ExecutionEnvironmentError for an environment
            whose files are not as conda has installed them, and OSError.
    """
    conda_pack = import_tool("conda_pack")
    try:
        with warnings.catch_warnings(), _temporary_files_in(archive.parent):
            warnings.simplefilter("ignore")  # of packages whose cache is gone
            environment = conda_pack.CondaEnv.from_prefix(str(prefix))
            for pattern in _LEFT_OUT:
                environment = environment.exclude(pattern.format(python=python))
            step = stages("Packing", len(environment.files))
            environment.files = _Counted(environment.files, step)
            environment.pack(str(archive), format="tar.gz", compress_level=compress_level)
    except conda_pack.CondaPackException as error:
        raise ExecutionEnvironmentError(
            f"conda-pack does not pack the environment: {in_one_line(str(error))}; take the "
            "package that it names from the channel or from pip, not from both"
        ) from error


@contextlib.contextmanager
def _temporary_files_in(folder: Path) -> Iterator[None]:
    """conda-pack leaves its temporary file behind when it is interrupted."""
    before = tempfile.tempdir
    tempfile.tempdir = str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before
