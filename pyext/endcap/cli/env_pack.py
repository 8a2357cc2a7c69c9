"""endcap env pack: builds an environment, and gives it to models."""

from __future__ import annotations

import contextlib
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from endcap._system.scratch import scratch_folder
from endcap._system.written_file import whole_file
from endcap._version import __version__
from endcap.cli.env_options import Real, Tritonserver
from endcap.cli.env_report import report
from endcap.cli.options import Verbose
from endcap.environment.checking import CheckedEnvironment
from endcap.environment.options import (
    DEFAULT_CHANNEL,
    NumpyLimit,
    PackOptions,
    find_numpy_limit,
)
from endcap.environment.packing import build_archive
from endcap.environment.placing import check_archive_name, check_model, place
from endcap.errors import InvalidArgumentError
from endcap.terminal.failure import INTERRUPTED, report_errors, stopped_by_signals
from endcap.terminal.progress import stage_bar

EXAMPLES = """
**Examples**

- `endcap env pack --python 3.11 -o environment.tar.gz`

- `endcap env pack --package "scipy >=1.10" --pip onnxruntime --into models/detector`

- `endcap env pack --endcap dist/endcap-0.1.0-cp311-cp311-manylinux_2_35_x86_64.whl
  --channel ./channel --find-links ./wheels --offline --into models/preprocess_python`

**Exit code**: 0 when the archive was written and works, 2 when not: the error message says why, no
broken archive is left, and a model that could not be given it has the files it had.
"""

_ARCHIVE = "environment.tar.gz"
_RUNNING_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
_CONTENTS = "Contents"
_SOURCES = "Sources"


def pack(
    python: Annotated[
        str,
        typer.Option(
            metavar="3.N",
            help="Its version. Else that of the Python that runs endcap.",
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
            help="What pip installs, a requirement or a wheel; may be repeated.",
            show_default=False,
            rich_help_panel=_CONTENTS,
        ),
    ] = None,
    endcap: Annotated[
        str,
        typer.Option(
            metavar="WHEEL|VERSION",
            help="A wheel of endcap for that Python, or the version for pip to find. Else the "
            "version that runs.",
            show_default=False,
            rich_help_panel=_CONTENTS,
        ),
    ] = __version__,
    channel: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CHANNEL",
            help="Where conda packages come from: a name, an address or a folder; may be repeated, "
            f"the first one goes before the others. [default: {DEFAULT_CHANNEL}]",
            show_default=False,
            rich_help_panel=_SOURCES,
        ),
    ] = None,
    find_links: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FOLDER",
            help="A folder of wheels where pip looks, too; may be repeated.",
            show_default=False,
            rich_help_panel=_SOURCES,
        ),
    ] = None,
    offline: Annotated[
        bool,
        typer.Option("--offline", help="Take all from folders.", rich_help_panel=_SOURCES),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help=f"Archive to write. Else {_ARCHIVE}.", show_default=False
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
        int, typer.Option(min=0, max=9, help="9 makes the smallest archive, and takes longest.")
    ] = 4,
    real: Real = None,
    tritonserver: Tritonserver = None,
    verbose: Verbose = False,
) -> None:
    """Build an environment for Python models, and pack it as Triton takes it.

    Installs Python, NumPy, endcap and what else is asked for into a temporary folder (TMPDIR says
    where), packs that, unpacks the archive elsewhere and imports from it. NumPy is one that the
    server's stub goes with.

    With --into the archive lies in the models' folders, and at --output only where that is given.
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
        limit = find_numpy_limit(python, real=real, tritonserver=tritonserver)
        target = output or (None if models else Path(_ARCHIVE))
        name = _archive_name(output)
        with scratch_folder("env-pack") as scratch:
            archive = scratch / name
            checked = _built(options, archive, target, limit)
            size = archive.stat().st_size
            for model in models:
                place(archive, model, name, python=python, real=real, tritonserver=tritonserver)
        places = [*([target] if target else []), *(model / name for model in models)]
        report(checked, limit, heading=f"Wrote {', '.join(map(str, places))}", archive_bytes=size)


def _archive_name(output: Path | None) -> str:
    name = _ARCHIVE if output is None else output.name
    if not name.endswith((".tar.gz", ".tgz")):
        raise InvalidArgumentError(
            f"--output is {output}; name it .tar.gz, the only archive that Triton unpacks"
        )
    return name


def _built(
    options: PackOptions, archive: Path, target: Path | None, limit: NumpyLimit
) -> CheckedEnvironment:
    with contextlib.ExitStack() as opened:
        # Opened first: what cannot be written is said before minutes of work.
        stream = opened.enter_context(whole_file(target)) if target is not None else None
        with stage_bar() as stages:
            checked = build_archive(options, archive, limit=limit, stages=stages)
        if stream is not None:
            with archive.open("rb") as source:
                shutil.copyfileobj(source, stream)
    return checked
