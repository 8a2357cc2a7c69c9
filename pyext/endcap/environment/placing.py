"""Gives a model its environment: archive and stub in its folder, and the parameter that says so."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from endcap._system.written_file import replaced_file, restored_on_failure
from endcap.environment.errors import ExecutionEnvironmentError
from endcap.environment.stub import install
from endcap.environment.stub.front import REAL_STUB_NAME, SETTINGS_NAME, STUB_NAME
from endcap.errors import InvalidArgumentError
from endcap.triton.config_text import get_parameter, read_config, set_parameter, write_config
from endcap.triton.model_folder import read_model_folder

PARAMETER = "EXECUTION_ENV_PATH"
# Triton puts the model's folder in its place, wherever the repository lies.
MODEL_DIRECTORY = "$$TRITON_MODEL_DIRECTORY"
CONFIG = "config.pbtxt"
_NAME = re.compile(r"[A-Za-z0-9._+-]+")  # what a string of a config.pbtxt holds as it is


def check_model(model: Path) -> None:
    """Raise InvalidArgumentError for what is no folder of a Python-backend model."""
    config = model / CONFIG
    if not config.is_file():
        raise InvalidArgumentError(
            f"{model} has no {CONFIG}; give the folder of a Python-backend model"
        )
    backend = read_model_folder(model).backend
    if backend != "python":
        raise InvalidArgumentError(
            f"model {model} has the backend '{backend}', and only Python-backend models run in an "
            "environment; give the folder of one"
        )
    set_parameter(read_config(config), PARAMETER, "")


def check_archive_name(name: str) -> None:
    """Raise InvalidArgumentError for a name that no config.pbtxt is given."""
    if not _NAME.fullmatch(name):
        raise InvalidArgumentError(
            f"the archive's name is '{name}', and a model's {PARAMETER} takes letters, digits and "
            "._+- alone; give another one by --output"
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
    """Put a copy of `archive` into a model's folder as `name`, beside the stub for its Python.

    The rest of config.pbtxt stays as it is. python: the environment's, such as "3.11". real,
    tritonserver: where the release's own stub is, as for `endcap.environment.stub.install`. Raises
    InvalidArgumentError, StubError and OSError; then the model's files are as they were.
    """
    check_model(model)
    check_archive_name(name)
    config = model / CONFIG
    text = read_config(config)
    changed = set_parameter(text, PARAMETER, f"{MODEL_DIRECTORY}/{name}")
    stub = (STUB_NAME, REAL_STUB_NAME, SETTINGS_NAME)
    with restored_on_failure([model / each for each in (name, *stub)]):
        with replaced_file(model / name) as copy:
            shutil.copyfile(archive, copy)
        install(model, python_version=python, real=real, tritonserver=tritonserver)
        # At last: it is the one that makes a server load the others.
        if changed != text:
            write_config(config, changed)


def environment_of(model: Path) -> Path:
    """Return the archive or folder that a model's config.pbtxt names.

    Raises:
        InvalidArgumentError: For a model that names none.
        ExecutionEnvironmentError: It is not there.
    """
    check_model(model)
    given = get_parameter(read_config(model / CONFIG), PARAMETER)
    if given is None:
        raise InvalidArgumentError(
            f"model {model} has no parameter {PARAMETER}, it runs in the server's own Python; "
            f"give it an environment by `endcap env pack --into {model}`"
        )
    place = Path(given.replace(MODEL_DIRECTORY, str(model)))
    if not place.exists():
        raise ExecutionEnvironmentError(
            f"{PARAMETER} of model {model} is {place}, which is not there; "
            f"put it there, or make it by `endcap env pack --into {model}`"
        )
    return place
