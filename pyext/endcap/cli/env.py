"""endcap env: execution environments of Python-backend models."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from endcap._files import whole_file
from endcap._version import __version__
from endcap.cli.console import (
    INTERRUPTED,
    PlainConsole,
    printable,
    report_errors,
    step_status,
    stopped_by_signals,
)
from endcap.cli.options import SERVER_PANEL, Verbose
from endcap.environment.checking import (
    CheckedEnvironment,
    check_archive,
    check_folder,
    check_numpy,
)
from endcap.environment.options import (
    DEFAULT_CHANNEL,
    NumpyLimit,
    PackOptions,
    find_numpy_limit,
)
from endcap.environment.packing import build_archive
from endcap.environment.placing import (
    ARCHIVE_ENDINGS,
    check_archive_name,
    check_model,
    environment_of,
    place,
)
from endcap.errors import InvalidArgumentError

PACK_EXAMPLES = """
**Examples**

- `endcap env pack --python 3.11 -o environment.tar.gz`

- `endcap env pack --package "scipy >=1.10" --pip onnxruntime --into models/detector_python`

- `endcap env pack --endcap dist/endcap-0.1.0-cp311-cp311-manylinux_2_35_x86_64.whl
  --channel ./channel --find-links ./wheels --offline --into models/preprocess_python`

**Exit code**: 0 when the archive was written and works, 2 when not: the error message says why, no
broken archive is left, and a model that could not get it keeps its files.
"""
CHECK_EXAMPLES = """
**Examples**

- `endcap env check environment.tar.gz`

- `endcap env check models/preprocess_python`

**Exit code**: 0 when it works, 2 when not: the error message says why.
"""

_ARCHIVE = "environment.tar.gz"
_RUNNING_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
_CONTENTS = "Contents"
_SOURCES = "Sources"
_Real = Annotated[
    Path | None,
    typer.Option(
        help="The stub of Triton's release for this Python, a file. Default: the server's.",
        show_default=False,
        rich_help_panel=SERVER_PANEL,
    ),
]
_Tritonserver = Annotated[
    Path | None,
    typer.Option(
        help="Server that runs the models, as for `endcap serve`: a program or an installation's "
        "folder.",
        show_default=False,
        rich_help_panel=SERVER_PANEL,
    ),
]

app = typer.Typer(
    name="env",
    help="Execution environments of Python-backend models.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)


@app.command("pack", epilog=PACK_EXAMPLES)
def pack(
    python: Annotated[
        str,
        typer.Option(
            metavar="3.N",
            help="Version of Python. Default: that of the Python that runs endcap.",
            show_default=False,
            rich_help_panel=_CONTENTS,
        ),
    ] = _RUNNING_PYTHON,
    package: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SPEC",
            help="A conda package, such as 'scipy >=1.10'; may be repeated.",
            show_default=False,
            rich_help_panel=_CONTENTS,
        ),
    ] = None,
    pip: Annotated[
        list[str] | None,
        typer.Option(
            metavar="REQUIREMENT",
            help="A requirement or a wheel for pip; may be repeated.",
            show_default=False,
            rich_help_panel=_CONTENTS,
        ),
    ] = None,
    endcap: Annotated[
        str,
        typer.Option(
            metavar="WHEEL|VERSION",
            help="A wheel of endcap for that Python, or a version for pip. Default: the version "
            "that runs.",
            show_default=False,
            rich_help_panel=_CONTENTS,
        ),
    ] = __version__,
    channel: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CHANNEL",
            help="Source of conda packages: a name, an address or a folder; may be repeated, the "
            f"first one has priority. [default: {DEFAULT_CHANNEL}]",
            show_default=False,
            rich_help_panel=_SOURCES,
        ),
    ] = None,
    find_links: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FOLDER",
            help="A folder of wheels for pip; may be repeated.",
            show_default=False,
            rich_help_panel=_SOURCES,
        ),
    ] = None,
    offline: Annotated[
        bool,
        typer.Option("--offline", help="Use packages from folders only.", rich_help_panel=_SOURCES),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help=f"Archive to write. Default: {_ARCHIVE}.", show_default=False
        ),
    ] = None,
    into: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="MODEL_DIR",
            help="Folder of a Python model that gets the archive, the stub and its "
            "EXECUTION_ENV_PATH; may be repeated.",
            show_default=False,
        ),
    ] = None,
    compress_level: Annotated[
        int, typer.Option(min=0, max=9, help="9 makes the smallest archive and takes longest.")
    ] = PackOptions.compress_level,
    real: _Real = None,
    tritonserver: _Tritonserver = None,
    verbose: Verbose = False,
) -> None:
    """Build an environment for Python models, and pack it for Triton.

    Installs Python, NumPy, endcap and the packages given into a temporary folder (in TMPDIR), packs
    it, unpacks the archive elsewhere and imports from it. NumPy gets a version that works with the
    server's stub.

    With --into the archive is written to the models' folders, and to --output only where given.
    """
    with report_errors(verbose=verbose), stopped_by_signals(exit_code=INTERRUPTED):
        options = PackOptions(
            python=python,
            packages=tuple(package or ()),
            pip_packages=tuple(pip or ()),
            endcap=endcap,
            channels=tuple(channel or (DEFAULT_CHANNEL,)),
            find_links=tuple(find_links or ()),
            offline=offline,
            compress_level=compress_level,
        )
        models = into or []
        for model in models:
            check_model(model)
            check_archive_name(_archive_name(output))
        target = output or (None if models else Path(_ARCHIVE))
        if output is None and target is not None and os.path.lexists(target):
            raise InvalidArgumentError(
                f"{target} is there already; name the archive by --output, which replaces a file"
            )
        limit = find_numpy_limit(python, real=real, tritonserver=tritonserver)
        name = _archive_name(output)
        with tempfile.TemporaryDirectory(prefix="endcap-", ignore_cleanup_errors=True) as scratch:
            archive = Path(scratch, name)
            checked = _built(options, archive, target, limit)
            size = archive.stat().st_size
            for model in models:
                place(archive, model, name, python=python, real=real, tritonserver=tritonserver)
        places = [*([target] if target else []), *(model / name for model in models)]
        _report(checked, limit, heading=f"Wrote {', '.join(map(str, places))}", archive_bytes=size)


def _archive_name(output: Path | None) -> str:
    name = _ARCHIVE if output is None else output.name
    if not name.endswith(ARCHIVE_ENDINGS):
        raise InvalidArgumentError(
            f"--output is {output}; name it .tar.gz, the only archive that Triton unpacks"
        )
    return name


def _built(
    options: PackOptions, archive: Path, target: Path | None, limit: NumpyLimit
) -> CheckedEnvironment:
    with contextlib.ExitStack() as opened:
        # Opened first, to fail before minutes of work.
        stream = opened.enter_context(whole_file(target)) if target is not None else None
        with step_status() as progress:
            checked = build_archive(options, archive, limit=limit, progress=progress)
        if stream is not None:
            with archive.open("rb") as source:
                shutil.copyfileobj(source, stream)
    return checked


@app.command("check", epilog=CHECK_EXAMPLES)
def check(
    environment: Annotated[
        Path,
        typer.Argument(
            help="A packed environment, or the folder of a model that has one.",
            metavar="ARCHIVE|MODEL_DIR",
        ),
    ],
    real: _Real = None,
    tritonserver: _Tritonserver = None,
    verbose: Verbose = False,
) -> None:
    """Unpack an environment elsewhere and import from it, as `endcap env pack` does."""
    with report_errors(verbose=verbose), stopped_by_signals(exit_code=INTERRUPTED):
        place = environment_of(environment) if environment.is_dir() else environment
        checked, limit = _checked(place, real, tritonserver)
        size = place.stat().st_size if place.is_file() else None
        _report(checked, limit, heading=f"{place} works", archive_bytes=size)


def _checked(
    place: Path, real: Path | None, tritonserver: Path | None
) -> tuple[CheckedEnvironment, NumpyLimit]:
    with tempfile.TemporaryDirectory(prefix="endcap-", ignore_cleanup_errors=True) as scratch:
        if place.is_dir():
            checked = check_folder(place, place)
        else:
            with step_status() as progress:
                checked = check_archive(place, Path(scratch), shown=place, progress=progress)
    limit = find_numpy_limit(checked.python, real=real, tritonserver=tritonserver)
    check_numpy(checked, limit, shown=place)
    return checked, limit


def _report(
    checked: CheckedEnvironment, limit: NumpyLimit, *, heading: str, archive_bytes: int | None
) -> None:
    """Print sizes, the limit on NumPy, and a table of all packages, the largest first."""
    console = PlainConsole(highlight=False)
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column()
    table.add_column()
    table.add_column(justify="right")
    for package in sorted(checked.packages, key=lambda each: (-each.size_bytes, each.name)):
        size = _megabytes(package.size_bytes)
        table.add_row(*(Text(printable(cell)) for cell in (
            f"  {package.name}", package.version, package.installer, size)))  # fmt: skip
    sizes = [f"{_megabytes(checked.size_bytes)} unpacked"]
    if archive_bytes is not None:
        sizes.insert(0, _megabytes(archive_bytes))
    console.print(Text(printable(heading), style="bold"), soft_wrap=True)
    console.print(Text(f"{', '.join(sizes)}, Python {checked.python}"), soft_wrap=True)
    wanted = f"must be numpy{limit.specifier}" if limit.specifier else "may be any"
    line = f"NumPy {checked.numpy}; {wanted}: {limit.reason}"
    console.print(Text(printable(line)), soft_wrap=True)
    console.print(table)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
