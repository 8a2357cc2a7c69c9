"""The environment of a model: archive and stub in its folder, and the parameter that names it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from endcap._files import whole_file
from endcap.environment.stub import install
from endcap.errors import InvalidArgumentError
from endcap.triton.model_config import CONFIG_NAME, read_config, set_parameter, write_config
from endcap.triton.model_folder import read_model_folder
from endcap.triton.parameters import EXECUTION_ENVIRONMENT, MODEL_DIRECTORY

_NAME = re.compile(r"[A-Za-z0-9._+-]+")  # characters that a config.pbtxt takes without escapes


def check_model(model: Path) -> None:
    """Raise InvalidArgumentError unless a folder is that of a Python-backend model."""
    config = model / CONFIG_NAME
    if not config.is_file():
        raise InvalidArgumentError(
            f"{model} has no {CONFIG_NAME}; give the folder of a Python-backend model"
        )
    backend = read_model_folder(model).backend
    if backend != "python":
        raise InvalidArgumentError(
            f"model {model} has the backend '{backend}', and only Python-backend models run in an "
            "environment; give the folder of one"
        )
    set_parameter(read_config(config), EXECUTION_ENVIRONMENT, "")


def check_archive_name(name: str) -> None:
    """Raise InvalidArgumentError unless config.pbtxt takes the name without escapes."""
    if not _NAME.fullmatch(name):
        raise InvalidArgumentError(
            f"the archive's name is '{name}', and a model's {EXECUTION_ENVIRONMENT} takes letters, "
            "digits and ._+- alone; give another one by --output"
        )


def place(
    archive: Path,
    model: Path,
    name: str,
    *,
    python: str,
    real: Path | None = None,
    tritonserver: Path | None = None,
) -> None:
    """Put a copy of `archive` into a model's folder as `name`, with the stub for its Python.

    The rest of config.pbtxt is unchanged.

    Args:
        archive: The packed environment.
        model: The model's folder, see `check_model`.
        name: The copy's name in that folder, see `check_archive_name`.
        python: The environment's Python, such as "3.11".
        real: The release's own stub, as for `endcap.environment.stub.install`.
        tritonserver: The server, likewise.

    Raises:
        InvalidArgumentError: config.pbtxt cannot be changed, or a file cannot be written.
        StubError: This Python has no stub.
        OSError: A file cannot be read or written.
    """
    config = model / CONFIG_NAME
    text = read_config(config)
    changed = set_parameter(text, EXECUTION_ENVIRONMENT, f"{MODEL_DIRECTORY}/{name}")
    if (model / name).is_symlink():
        (model / name).unlink()
    with (
        archive.open("rb") as source,
        whole_file(model / name, follow_links=False, replace_read_only=True) as copy,
    ):
        shutil.copyfileobj(source, copy)
        # Before the archive replaces an earlier one: there may be no stub for this Python.
        install(model, python_version=python, real=real, tritonserver=tritonserver)
    # Last: it makes a server load the others.
    if changed != text:
        write_config(config, changed)
