"""A model's config.pbtxt as Triton's own message, by the definition that tritonclient brings."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

from endcap.triton.errors import ServerError

CONFIG_NAME = "config.pbtxt"


def read_model_config(model: Path) -> Any:
    """Return the inference.ModelConfig message that a model folder's config.pbtxt holds.

    Raises:
        ServerError: There is none, or it does not fit Triton's definition.
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
    """Return google.protobuf.text_format, and the module that has Triton's ModelConfig.

    Raises:
        ServerError: Triton's gRPC client is not installed.
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
