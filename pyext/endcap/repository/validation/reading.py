"""Reading the models of a repository, however broken some of them are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from endcap.repository.errors import RepositoryError
from endcap.repository.validation.finding import Finding, Severity
from endcap.repository.validation.model import Model, version_folders
from endcap.triton.config_text import Block, read_lines
from endcap.triton.model_config import CONFIG_NAME, protobuf_modules
from endcap.triton.model_folder import needed_backend, read_model_folder

_PLACE = re.compile(r"^\d+:\d+ : ")  # how protobuf begins a message


def model_folders(repository: Path) -> list[Path]:
    """Return the folders of a repository, whether models or not.

    Raises:
        RepositoryError: It is no folder of model folders.
    """
    if not repository.is_dir():
        raise RepositoryError(
            f"model repository {repository} is not a folder; give a folder of model folders"
        )
    if (repository / CONFIG_NAME).is_file():
        raise RepositoryError(
            f"{repository} is a model's folder; give the folder around it, {repository}/.."
        )
    folders = sorted(path for path in repository.iterdir() if path.is_dir())
    if not folders:
        raise RepositoryError(
            f"model repository {repository} holds no model; "
            "each model is a folder with a config.pbtxt and a version folder such as 1/"
        )
    return folders


def read_model(folder: Path) -> Model | Finding:
    """Return the model in a folder, or why there is none that could be looked at.

    Raises:
        ServerError: Triton's gRPC client is not installed.
    """
    text_format, model_config = protobuf_modules()
    file = folder / CONFIG_NAME
    if not file.is_file():
        if not version_folders(folder):
            return _unreadable(
                folder,
                None,
                "this is no model, and Triton does not start beside such a folder: it has neither "
                "a config.pbtxt nor a version folder",
                "move it elsewhere, or into a model",
            )
        backend = needed_backend(read_model_folder(folder))
        return Model(folder, folder, model_config.ModelConfig(), Block(1, ()), backend)
    try:
        text = _decoded(file.read_bytes())
        config = text_format.Parse(text, model_config.ModelConfig())
    except OSError as error:
        return _unreadable(file, None, f"it cannot be read: {error.strerror}", "make it readable")
    except text_format.ParseError as error:
        reason = _PLACE.sub("", str(error)).strip().rstrip(".")
        return _unreadable(
            file,
            error.GetLine(),
            f"this is no model configuration that Triton knows: {reason}",
            "correct it; nothing else of this model was checked",
        )
    backend = needed_backend(read_model_folder(folder))
    return Model(folder, file, config, read_lines(text), backend)


def check_identity(model: Model) -> Iterator[Finding]:
    """Whether Triton takes the folder for a model of this name, version and backend."""
    if model.config.name not in ("", model.name):
        yield model.error(
            model.lines.line_of("name"),
            f"the model is named {model.config.name}, and its folder {model.name}",
            "give both the same name, or leave the line out",
        )
    if not model.versions():
        yield Finding(
            file=model.folder,
            line=None,
            severity=Severity.ERROR,
            model=model.name,
            problem="the model has no version folder",
            remedy=f"`mkdir {model.folder / '1'}`",
        )
    if not model.backend and not model.is_ensemble:
        yield model.error(
            1,
            "the model tells no backend, and has no file from which Triton would know it",
            'name it, as in backend: "endcap_preprocess"',
        )


def _decoded(encoded: bytes) -> str:
    try:
        return encoded.decode("utf-8")
    except UnicodeDecodeError:  # Triton takes any bytes in comments and strings
        return encoded.decode("latin-1")


def _unreadable(path: Path, line: int | None, problem: str, remedy: str) -> Finding:
    return Finding(
        file=path,
        line=line,
        severity=Severity.ERROR,
        model=path.parent.name if path.name == CONFIG_NAME else path.name,
        problem=problem,
        remedy=remedy,
    )
