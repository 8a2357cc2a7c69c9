"""A model's configuration and statistics as plain data, the same by either protocol."""

from __future__ import annotations

import importlib
from collections.abc import MutableMapping, MutableSequence
from typing import Any

from endcap.client.errors import RequestError
from endcap.client.wire.install import import_client


def config_from_json(model: str, said: Any) -> dict[str, Any]:
    """Returns what `plain_fields` does, of the configuration as Triton's HTTP service gives it.

    Fields that tritonclient does not know are left out, as gRPC does. Raises RequestError for what
    is no configuration.
    """
    message = import_client("grpc").model_config_pb2.ModelConfig()
    return _parsed(said, message, f"the configuration of model '{model}'")


def statistics_from_json(said: Any) -> list[dict[str, Any]]:
    """Returns each model's statistics in the same way; see `config_from_json`."""
    message = import_client("grpc").service_pb2.ModelStatisticsResponse()
    models: list[dict[str, Any]] = _parsed(said, message, "the statistics").get("model_stats", [])
    return models


def _parsed(said: Any, message: Any, what: str) -> dict[str, Any]:
    json_format = importlib.import_module("google.protobuf.json_format")
    try:
        json_format.ParseDict(dict(said), message, ignore_unknown_fields=True)
    except (json_format.ParseError, AttributeError, TypeError, ValueError) as error:
        raise RequestError("internal", f"{what} cannot be read: {error}") from error
    return plain_fields(message)


def plain_fields(message: Any) -> dict[str, Any]:
    """Returns the fields of a protobuf message that are set, as JSON would have them.

    Numbers stay numbers, those of 64 bits, too; enumerations are names.
    """
    return {field.name: _plain(value, field) for field, value in message.ListFields()}


def _plain(value: Any, field: Any) -> Any:
    if isinstance(value, MutableMapping):
        of_values = field.message_type.fields_by_name["value"]
        return {key: _plain(each, of_values) for key, each in value.items()}
    if isinstance(value, MutableSequence):
        return [_plain(each, field) for each in value]
    if field.message_type is not None:
        return plain_fields(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    return value
