"""endcap env: execution environments of Python-backend models."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from endcap._files import whole_file
from endcap.cli.console import PlainConsole, printable, step_status
from endcap.cli.options import command, in_server, panel
from endcap.environment.checking import (
    CheckedEnvironment,
    NumpyLimit,
    check_archive,
    find_numpy_limit,
)
from endcap.environment.packing import PackOptions, build_archive
from endcap.environment.placing import check_archive_name, check_model, place
from endcap.errors import InvalidArgumentError

PACK_EXAMPLES = """
**Examples**

- `endcap env pack --python 3.11 -o environment.tar.gz`

- `endcap env pack --package "scipy >=1.10" --pip onnxruntime --into models/detector_python`

- `endcap env pack --endcap dist/endcap-0.1.0-cp311-cp311-manylinux_2_35_x86_64.whl
  --channel ./channel --into models/preprocess_python`

**Exit code**: 0 when the archive was written and works, 2 when not: the error message says why, no
broken archive is left, and a model that could not get it keeps its files.
"""
CHECK_EXAMPLES = """
**Examples**

- `endcap env check models/preprocess_python/environment.tar.gz`

**Exit code**: 0 when it works, 2 when not: the error message says why.
"""

_ARCHIVE = "environment.tar.gz"
_in_contents = panel("Contents")
_in_sources = panel("Sources")
RealStub = Annotated[
    Path | None,
    in_server(
        "The stub of Triton's release for the environment's Python, a file. Default: the server's."
    ),
]
ModelServer = Annotated[
    Path | None,
    in_server(
        "Server that runs the models, as for `endcap serve`: a program or an installation's folder."
    ),
]
_PACK = {
    "python": _in_contents(
        "Version of Python. Default: that of the Python that runs endcap.",
        metavar="3.N",
        show_default=False,
    ),
    "packages": _in_contents(
        "A conda package, such as 'scipy >=1.10'; may be repeated.", "--package", metavar="SPEC"
    ),
    "pip_packages": _in_contents(
        "A requirement or a wheel for pip; may be repeated.", "--pip", metavar="REQUIREMENT"
    ),
    "endcap": _in_contents(
        "A wheel of endcap for that Python, or a version for pip. Default: the version that runs.",
        metavar="WHEEL|VERSION",
        show_default=False,
    ),
    "channels": _in_sources(
        "Source of conda packages: a name, an address or a folder; may be repeated, the first one "
        "has priority.",
        "--channel",
        metavar="CHANNEL",
    ),
    "compress_level": typer.Option(
        min=0, max=9, help="9 makes the smallest archive and takes longest."
    ),
}

app = typer.Typer(
    name="env",
    help="Execution environments of Python-backend models.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)


@app.command("pack", epilog=PACK_EXAMPLES)
@command(options=_PACK)
def pack(
    options: PackOptions,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help=f"Archive to write. Default: {_ARCHIVE}."),
    ] = None,
    into: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="MODEL_DIR",
            help="Folder of a Python model that gets the archive, the stub and its "
            "EXECUTION_ENV_PATH; may be repeated.",
        ),
    ] = None,
    real: RealStub = None,
    tritonserver: ModelServer = None,
) -> None:
    """Build an environment for Python models, and pack it for Triton.

    Installs Python, NumPy, endcap and the packages given into a temporary folder (in TMPDIR), packs
    it, unpacks the archive elsewhere and imports from it. NumPy gets a version that works with the
    server's stub.

    With --into the archive is written to the models' folders, and to --output only where given.
    """
    models = into or []
    name = _archive_name(output)
    for model in models:
        check_model(model)
        check_archive_name(name)
    target = output or (None if models else Path(_ARCHIVE))
    if output is None and target is not None and os.path.lexists(target):
        raise InvalidArgumentError(
            f"{target} exists already; name the archive by --output, which replaces a file"
        )
    limit = find_numpy_limit(options.python, real=real, tritonserver=tritonserver)
    with tempfile.TemporaryDirectory(prefix="endcap-", ignore_cleanup_errors=True) as scratch:
        archive = Path(scratch, name)
        checked = _build(options, archive, target, limit)
        size = archive.stat().st_size
        for model in models:
            place(archive, model, name, python=options.python, real=real, tritonserver=tritonserver)
    places = [*([target] if target else []), *(model / name for model in models)]
    _report(checked, limit, heading=f"Wrote {', '.join(map(str, places))}", archive_bytes=size)


def _archive_name(output: Path | None) -> str:
    name = _ARCHIVE if output is None else output.name
    if not name.endswith((".tar.gz", ".tgz")):
        raise InvalidArgumentError(
            f"--output is {output}; name it .tar.gz, the only archive that Triton unpacks"
        )
    return name


def _build(
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
@command()
def check(
    archive: Annotated[Path, typer.Argument(help="A packed environment.", metavar="ARCHIVE")],
    real: RealStub = None,
    tritonserver: ModelServer = None,
) -> None:
    """Unpack an environment elsewhere and import from it, as `endcap env pack` does."""
    with (
        tempfile.TemporaryDirectory(prefix="endcap-", ignore_cleanup_errors=True) as scratch,
        step_status() as progress,
    ):
        checked = check_archive(archive, Path(scratch), shown=archive, progress=progress)
    limit = find_numpy_limit(checked.python, real=real, tritonserver=tritonserver)
    limit.check(checked, archive)
    _report(checked, limit, heading=f"{archive} works", archive_bytes=archive.stat().st_size)


def _report(
    checked: CheckedEnvironment, limit: NumpyLimit, *, heading: str, archive_bytes: int
) -> None:
    """Print sizes, the limit on NumPy, and all packages."""
    console = PlainConsole(highlight=False)
    table = Table.grid(padding=(0, 2))
    for name, version in checked.packages.items():
        table.add_row(Text(printable(f"  {name}")), Text(printable(version)))
    sizes = f"{_megabytes(archive_bytes)}, {_megabytes(checked.size_bytes)} unpacked"
    console.print(Text(printable(heading), style="bold"), soft_wrap=True)
    print(f"{sizes}, Python {checked.python}")
    wanted = f"must be numpy{limit.specifier}" if limit.specifier else "may be any"
    print(printable(f"NumPy {checked.numpy}; {wanted}: {limit.reason}"))
    console.print(table)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
