"""A copy of a model repository in which parameters of some models have other values."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from endcap._system.scratch import scratch_folder
from endcap.server.leftovers import REPOSITORY_PURPOSE
from endcap.triton.errors import ServerError
from endcap.triton.model_config import CONFIG_NAME, protobuf_modules, read_model_config
from endcap.triton.model_folder import read_repository


@contextlib.contextmanager
def repository_with(
    repository: Path, *, backend: str, parameters: Mapping[str, str]
) -> Iterator[Path]:
    """Yield a repository like `repository`, `parameters` set in every model of `backend`.

    It lies in a temporary folder and consists of symbolic links, but for the edited config.pbtxt;
    the original is not written to. It is gone after the block, and swept by the next server's start
    where this process is killed.

    Raises:
        ServerError: `repository` is none, no model of it runs in `backend`, or a config.pbtxt that
            has to be edited cannot be read.
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
