"""Changes of config.pbtxt files: their diff, and writing all of them or none."""

from __future__ import annotations

import contextlib
import difflib

from endcap.errors import EndcapError
from endcap.terminal.failure import stop_deferred
from endcap.tools.tune.settings import CLIENT, Configuration, Pipeline, TunedModel
from endcap.triton.errors import ServerError
from endcap.triton.model_config import read_config, write_config


def diff(pipeline: Pipeline, configuration: Configuration) -> str:
    """Return the unified diff of the repository's config.pbtxt files; "" without a change."""
    before = {model.name: model for model in pipeline.models}
    lines: list[str] = []
    for name, text in sorted(pipeline.texts(configuration).items()):
        file = str(before[name].file)
        lines += difflib.unified_diff(
            _lines(before[name].text), _lines(text), file, file, lineterm=""
        )
    return "\n".join(lines)


def client_options(configuration: Configuration) -> list[str]:
    """Return what clients and the server have to be told, which no config.pbtxt holds."""
    shared = any(change.model == CLIENT for change in configuration)
    return ["--shm system (the server needs --client-shared-memory)"] if shared else []


def write(pipeline: Pipeline, configuration: Configuration) -> list[str]:
    """Write the changed config.pbtxt files into the repository; return their names.

    Raises:
        ServerError: A file is another one than when it was read, or cannot be written; then all
            files are as they were before.
    """
    texts = pipeline.texts(configuration)
    models = {model.name: model for model in pipeline.models if model.name in texts}
    for model in models.values():
        try:
            now = read_config(model.file)
        except OSError as error:
            raise ServerError(f"{model.file} cannot be read: {error.strerror}") from error
        if now != model.text:
            raise ServerError(
                f"{model.file} was changed while it was measured, and nothing is written; run the "
                "command again"
            )
    written: list[TunedModel] = []
    with stop_deferred():
        try:
            for name in sorted(texts):
                written.append(models[name])
                write_config(models[name].file, texts[name])
        except (EndcapError, OSError) as error:
            for model in written:
                with contextlib.suppress(EndcapError, OSError):  # the one that was not replaced
                    write_config(model.file, model.text)
            raise ServerError(
                f"{written[-1].file} cannot be written ({error}); the repository is as it was"
            ) from error
    return [str(model.file) for model in written]


def _lines(text: str) -> list[str]:
    # Carriage returns stay in the lines, and undecodable bytes are shown escaped.
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace").split("\n")
