"""A config.pbtxt in the terms in which the server hands it to a Python model: JSON's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from google.protobuf import json_format, text_format
from tritonclient.grpc import model_config_pb2


def read_config(file: Path) -> dict[str, Any]:
    """What is left out is left out, but for the sides, which the server always lists."""
    message = text_format.Parse(file.read_text(), model_config_pb2.ModelConfig())
    config = json_format.MessageToDict(message, preserving_proto_field_name=True)
    return {"input": [], "output": [], **config}
