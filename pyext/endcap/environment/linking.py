"""Installs conda packages into a folder, by py-rattler."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from endcap._system.pip import in_one_line
from endcap._system.stages import Stages
from endcap.environment.errors import ExecutionEnvironmentError, import_tool
from endcap.environment.solving import Solution


class _Linked:
    """Tells of each package that is in its place; the method is one of py-rattler's reporter."""

    def __init__(self, step: Callable[[], None]) -> None:
        self._step = step

    def on_link_complete(self, index: int) -> None:
        self._step()


def link(solution: Solution, prefix: Path, stages: Stages) -> None:
    """Download what py-rattler's cache lacks and fill the folder `prefix`.

    Raises:
        ExecutionEnvironmentError: A package does not come, or does not fit on the disk.
    """
    rattler, errors = import_tool("rattler"), import_tool("rattler.exceptions")
    reporter = _Linked(stages("Installing packages", len(solution.records)))
    try:
        asyncio.run(rattler.install(solution.records, prefix, reporter=reporter))
    except (errors.InstallerError, errors.LinkError, errors.IoError) as error:
        raise ExecutionEnvironmentError(
            f"the packages could not be installed: {in_one_line(str(error))}; "
            "check the network and the space in the temporary folder, and run it again"
        ) from error
