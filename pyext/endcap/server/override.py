"""A copy of a model repository in which parameters of some models have other values."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from endcap._scratch import scratch_folder
from endcap.server.errors import ServerError
from endcap.server.leftovers import REPOSITORY_PURPOSE
from endcap.server.repository import read_repository

CONFIG_NAME = "config.pbtxt"


@contextlib.contextmanager
def repository_with(
    repository: Path, *, backend: str, parameters: Mapping[str, str]
) -> Iterator[Path]:
    """Yields a repository like `repository`, `parameters` set in every model of `backend`.

    It lies in a temporary folder and consists of symbolic links, but for the edited config.pbtxt;
    the original is not written to. It is gone after the block, and swept by the next server's start
    where this process is killed.

    Raises ServerError when `repository` is none, no model of it runs in `backend`, or a
    config.pbtxt that has to be edited cannot be read.
    """
    models = read_repository(repository)
    if not any(model.backend == backend for model in models):
        named = ", ".join(
            f"{model.path.name} ({model.backend or 'none named'})" for model in models
        )
        raise ServerError(
            f"no model of repository {repository} runs in backend {backend}, so that none takes "
            f"{', '.join(parameters)}; its models and their backends are {named}"
        )
    with scratch_folder(REPOSITORY_PURPOSE) as scratch:
        copy = scratch / "repository"
        copy.mkdir()
        for model in models:
            if model.backend == backend:
                _copy_with(model.path, copy / model.path.name, parameters)
            else:
                _link(model.path, copy / model.path.name)
        yield copy


def _copy_with(model: Path, target: Path, parameters: Mapping[str, str]) -> None:
    config = read_model_config(model)
    for name, value in parameters.items():
        config.parameters[name].string_value = value  # makes the entry where there is none
    target.mkdir()
    for entry in model.iterdir():
        if entry.name != CONFIG_NAME:
            _link(entry, target / entry.name)
    text_format, _ = protobuf_modules()
    text = text_format.MessageToString(config, as_utf8=True)
    (target / CONFIG_NAME).write_text(text, encoding="utf-8")


def _link(source: Path, link: Path) -> None:
    link.symlink_to(source.resolve(), target_is_directory=source.is_dir())


def read_model_config(model: Path) -> Any:
    """Returns the inference.ModelConfig message that a model folder's config.pbtxt holds.

    Raises ServerError when there is none, or it does not fit Triton's definition.
    """
    text_format, model_config = protobuf_modules()
    path = model / CONFIG_NAME
    try:
        # Comments may be in any encoding; in a text, such an escape does not fit the definition.
        text = path.read_bytes().decode("utf-8", "surrogateescape")
        return text_format.Parse(text, model_config.ModelConfig())
    except OSError as error:
        raise ServerError(f"{path} cannot be read: {error.strerror}") from error
    except (UnicodeError, text_format.ParseError) as error:
        reason = str(error).strip().rstrip(".")
        raise ServerError(
            f"{path} is no model configuration that Triton knows: {reason}"
        ) from error


def protobuf_modules() -> tuple[Any, ModuleType]:
    """Returns google.protobuf.text_format, and the module that has Triton's ModelConfig.

    Raises ServerError when Triton's gRPC client is not installed.
    """
    try:
        return (
            importlib.import_module("google.protobuf.text_format"),
            importlib.import_module("tritonclient.grpc.model_config_pb2"),
        )
    except (ImportError, RuntimeError) as error:  # tritonclient wraps a missing part of it
        raise ServerError(
            f"reading a model's configuration takes Triton's gRPC client, which is not installed "
            f"({error}); run `pip install 'endcap[client]'`"
        ) from error
