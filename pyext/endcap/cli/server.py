"""endcap server: the Triton server that endcap installs for itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from endcap.cli.console import (
    INTERRUPTED,
    PlainConsole,
    installing,
    printable,
    report_errors,
    say,
    stopped_by_signals,
)
from endcap.cli.options import Verbose
from endcap.server.cache import remove_all
from endcap.server.locate import locate_server
from endcap.server.private_server import (
    check_python,
    download_packages,
    download_server,
    install_packages,
    install_private_server,
)
from endcap.server.release import read_release
from endcap.triton.errors import ServerError

INSTALL_EXAMPLES = """
**Examples**

- `endcap server install`

- `endcap server install --wheelhouse wheels`

- `endcap server install --no-python-models`

**Exit code**: 0 when it is installed, 2 when not, with an error message.
"""
DOWNLOAD_EXAMPLES = """
**Examples**

- `endcap server download wheels`

- `endcap server download wheels --no-python-models`
"""
PATH_EXAMPLES = """
**Examples**

- `endcap server path`

- `endcap server path --verbose`

**Exit code**: 0 when there is a server, 2 when there is none.
"""
REMOVE_EXAMPLES = """
**Examples**

- `endcap server remove`

**Exit code**: 0 when all is removed, 1 when a part is in use and was kept.
"""

_PythonModels = Annotated[
    bool | None,
    typer.Option(
        "--python-models/--no-python-models",
        help="Include NumPy below 2 and ONNX Runtime for models of the Python backend. Default: "
        "where there is such a NumPy for this Python, 3.10 to 3.12.",
        show_default=False,
    ),
]
_Wheelhouse = Annotated[
    Path | None,
    typer.Option(
        help="Folder of wheels to install from, without a network. Default: that of "
        "ENDCAP_WHEELHOUSE, else pip's configuration.",
        metavar="DIR",
        show_default=False,
    ),
]

app = typer.Typer(
    name="server",
    help="endcap's own Triton server, which `endcap serve` runs where there is no other; it lies "
    "outside of Python environments in ~/.cache/endcap/server (or below XDG_CACHE_HOME).",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)


@app.command("install", epilog=INSTALL_EXAMPLES)
def install(
    wheelhouse: _Wheelhouse = None, python_models: _PythonModels = None, verbose: Verbose = False
) -> None:
    """Install the server.

    The wheel of nvidia-pytriton is downloaded by pip, its SHA-256 checked, and unpacked. Packages
    for Python models are installed beside it for the Python that runs endcap;
    ENDCAP_SERVER_PACKAGES names further ones.
    """
    with report_errors(verbose=verbose), stopped_by_signals(exit_code=INTERRUPTED):
        folders = [install_private_server(installing, wheelhouse=wheelhouse)]
        if _with_python_models(python_models):
            folders.append(install_packages(installing, wheelhouse=wheelhouse))
        _print(*folders)


@app.command("download", epilog=DOWNLOAD_EXAMPLES)
def download(
    folder: Annotated[Path, typer.Argument(help="Folder for the wheels.", metavar="DIR")],
    python_models: _PythonModels = None,
    verbose: Verbose = False,
) -> None:
    """Download the wheels for `endcap server install --wheelhouse DIR`.

    They are for this machine's architecture and the Python that runs endcap.
    """
    with report_errors(verbose=verbose), stopped_by_signals(exit_code=INTERRUPTED):
        needed = _with_python_models(python_models)
        with installing() as stages:
            stages("downloading the Triton server, 53 MiB", None)
            wheel = download_server(folder)
            if needed:
                stages("downloading the packages for Python models", None)
                download_packages(folder)
        _print(wheel.parent)


@app.command("path", epilog=PATH_EXAMPLES)
def path(
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            "-v",
            help="Show the server's release and where it was found, and tracebacks.",
        ),
    ] = False,
) -> None:
    """Print the server that `endcap serve` would run."""
    with report_errors(verbose=verbose):
        server = locate_server()
        if verbose:
            say(f"{read_release(server)} ({server.origin})")
        _print(server.executable)


@app.command("remove", epilog=REMOVE_EXAMPLES)
def remove(verbose: Verbose = False) -> None:
    """Remove endcap's own servers and the packages of their Python models.

    Keeps the files of a running server, and files that endcap has not written.
    """
    with report_errors(verbose=verbose), stopped_by_signals(exit_code=INTERRUPTED):
        with installing() as stages:
            removed, kept = remove_all(stages)
        _print(*removed)
        for folder, reason in kept.items():
            say(f"endcap: {folder} was not removed: {reason}")
    raise typer.Exit(1 if kept else 0)


def _with_python_models(requested: bool | None) -> bool:
    """Return `requested`, else whether there are packages for Python models."""
    if requested is not None:
        return requested
    try:
        check_python()
    except ServerError as error:
        say(f"endcap: nothing is installed for Python models: {error}")
        return False
    return True


def _print(*paths: Path) -> None:
    console = PlainConsole(highlight=False, soft_wrap=True)
    for each in paths:
        console.print(Text(printable(str(each))))
