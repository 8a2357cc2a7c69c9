"""The model repository before a server reads it."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from endcap.doctor.finding import Problem, Severity, Skipped
from endcap.doctor.subject import Subject
from endcap.errors import EndcapError
from endcap.repository import validation
from endcap.server.backends import ONNX_BACKEND, ONNXRUNTIME_VARIABLE, find_onnxruntime
from endcap.triton.installation import OUR_BACKENDS
from endcap.triton.model_folder import ModelFolder


def check_repository(subject: Subject) -> str:
    """Check that the repository can be read, and that `endcap validate` finds no error.

    The folder of models, `--repository` or else the one that comes with endcap, has no error
    that `endcap validate` finds.
    """
    if isinstance(subject.repository, EndcapError):
        raise subject.repository
    folder, models = subject.repository
    found = f"{', '.join(model.path.name for model in models)} in {folder}"
    try:
        report = validation.validate_repository(folder)
    except EndcapError as error:  # without the package that reads configurations
        raise Problem(found, str(error), Severity.NOTE) from error
    errors = [each for each in report.findings if each.severity is validation.Severity.ERROR]
    if errors:
        command = shlex.join(["endcap", "validate", str(folder)])
        raise Problem(
            found,
            f"{errors[0].file}: {errors[0].problem}"
            f"{f', and {len(errors) - 1} more' if errors[1:] else ''}; `{command}` says what to do",
        )
    return found


def check_backends(subject: Subject) -> str:
    """Check that the server has the models' backends.

    The server has the backend that each model names. The packaged server has endcap's
    backends and `python`, and no other.
    """
    if subject.installation is None or not subject.models:
        raise Skipped("there is no server" if subject.models else "there is no repository")
    folder = subject.installation.backends_dir
    available = {*OUR_BACKENDS, *(path.name for path in (folder.iterdir() if folder else ()))}
    missing = {
        model.path.name: model.needed_backend
        for model in subject.models
        if model.needed_backend not in ("", *available) and not _brings_its_own(model)
    }
    found = ", ".join(sorted({model.needed_backend for model in subject.models} - {""}))
    if missing:
        named = ", ".join(f"{model} needs {backend}" for model, backend in missing.items())
        remedy = (
            'write backend: "endcap_onnx" for "onnxruntime" in their config.pbtxt, which serves '
            "the same folder"
            if {*missing.values()} == {"onnxruntime"}
            else 'run the network as a Python model, backend: "python" and a model.py, as in the '
            "shipped model_repository/detector_python"
        )
        raise Problem(
            found,
            f"the server has no such backend: {named} (it has {', '.join(sorted(available))}); "
            f"{remedy}, or use a server that has it, such as NVIDIA's container "
            "(`--tritonserver PATH`)",
        )
    return found


def _brings_its_own(model: ModelFolder) -> bool:
    library = f"libtriton_{model.needed_backend}.so"
    folders = [model.path, *(model.path / str(version) for version in model.versions)]
    return any((folder / library).is_file() for folder in folders)


def check_onnxruntime(subject: Subject) -> str:
    """Check that networks on endcap_onnx would find their library.

    The library that models of the backend `endcap_onnx` run on: that of ENDCAP_ONNXRUNTIME, of
    the Python package `onnxruntime`, or of the server's own backend.
    """
    users = [model.path.name for model in subject.models if model.backend == ONNX_BACKEND]
    if not users:
        raise Skipped(f"no model runs in {ONNX_BACKEND}")
    if named := os.environ.get(ONNXRUNTIME_VARIABLE):
        if not Path(named).is_file():
            remedy = f"`unset {ONNXRUNTIME_VARIABLE}`, or name the library's file"
            raise Problem(named, f"{named} is not a file; {remedy}")
        return named
    if subject.installation is None:
        raise Skipped("there is no server")
    library = find_onnxruntime(subject.installation)
    if library is None:
        raise Problem(
            "none",
            f"{', '.join(users)} run in {ONNX_BACKEND}, which needs ONNX Runtime; `pip install "
            "onnxruntime` (for instances on a GPU `onnxruntime-gpu`), or name the file of another "
            f"build: `export {ONNXRUNTIME_VARIABLE}=/path/to/libonnxruntime.so`",
        )
    return str(library)
