"""endcap env check: tries a packed environment out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from endcap._system.scratch import scratch_folder
from endcap.cli.env_options import Real, Tritonserver
from endcap.cli.env_report import report
from endcap.cli.options import Verbose
from endcap.environment.checking import (
    CheckedEnvironment,
    check_archive,
    check_folder,
    check_numpy,
)
from endcap.environment.options import NumpyLimit, find_numpy_limit
from endcap.environment.placing import environment_of
from endcap.terminal.failure import INTERRUPTED, report_errors, stopped_by_signals
from endcap.terminal.progress import stage_bar

EXAMPLES = """
**Examples**

- `endcap env check environment.tar.gz`

- `endcap env check models/preprocess_python`

**Exit code**: 0 when it works, 2 when not: the error message says why.
"""


def check(
    environment: Annotated[
        Path,
        typer.Argument(
            help="A packed environment, or the folder of a model that has one.",
            metavar="ARCHIVE|MODEL_DIR",
        ),
    ],
    real: Real = None,
    tritonserver: Tritonserver = None,
    verbose: Verbose = False,
) -> None:
    """Unpack an environment elsewhere and import from it, as `endcap env pack` does at its end."""
    with report_errors(verbose=verbose), stopped_by_signals(exit_code=INTERRUPTED):
        place = environment_of(environment) if environment.is_dir() else environment
        checked, limit = _checked(place, real, tritonserver)
        size = place.stat().st_size if place.is_file() else None
        report(checked, limit, heading=f"{place} works", archive_bytes=size)


def _checked(
    place: Path, real: Path | None, tritonserver: Path | None
) -> tuple[CheckedEnvironment, NumpyLimit]:
    with scratch_folder("env-check") as scratch, stage_bar() as stages:
        if place.is_dir():
            checked = check_folder(place, place)
        else:
            checked = check_archive(place, scratch, shown=place, stages=stages)
    limit = find_numpy_limit(checked.python, real=real, tritonserver=tritonserver)
    check_numpy(checked, limit, shown=place)
    return checked, limit
