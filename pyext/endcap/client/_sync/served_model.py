# Made by scripts/generate_sync_client.py: change ../_async/served_model.py instead.

"""The metadata and configuration of a served model, requested from its server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from endcap.client._sync.connection import Connection
from endcap.client.address import Address
from endcap.client.errors import ClientError, RequestError
from endcap.client.options import ConnectionOptions
from endcap.client.served_model import ServedModel
from endcap.results import INPUT, VIDEO_INPUTS, task_of, why_no_task

_PROBE_TIMEOUT_S = 2.0  # of an error message, which must not wait long


def fetch_served_model(
    connection: Connection, model: str, *, best_classes: bool = False
) -> ServedModel:
    """Return the model as the server describes it.

    Args:
        connection: With the server.
        model: The model's name.
        best_classes: Whether classes come from Triton's classification extension.

    Raises:
        ClientError: No server responds, it does not serve `model`, or the model's tensors are not
            those of encoded images, and of detections, classes or, with geometry, others.
    """
    address = connection.address
    try:
        if not connection.is_ready(model):
            if not connection.is_live():
                raise ClientError(
                    f"the server at {address} is not a Triton server, or not live; "
                    "pass the address of another with --url"
                )
            advice = _advice(connection)
            raise ClientError(
                f"the server at {address} has no model '{model}' that is ready; {advice}"
            )
        metadata = connection.metadata(model)
        config = connection.config(model)
    except RequestError as error:
        raise _no_server(connection, error) from error
    decoupled = _is_decoupled(config)
    reads_videos = decoupled and set(metadata.inputs) == VIDEO_INPUTS
    inputs = [INPUT] if reads_videos else list(metadata.inputs)
    task = task_of(inputs, metadata.outputs, decoupled=decoupled, best_classes=best_classes)
    if task is None:
        advice = _advice(connection)
        raise ClientError(
            f"model '{model}' does not take encoded images and return detections, classes or, with "
            "geometry, other tensors: "
            f"{why_no_task(inputs, metadata.outputs)}; {advice}"
        )
    encoded = metadata.inputs[INPUT]
    limit = int(config.get("max_batch_size", 0)) if encoded.datatype != "UINT8" else 1
    return ServedModel(
        model,
        task,
        encoded,
        metadata.outputs,
        max(limit, 1),
        decoupled,
        _parameter(config, "labels"),
        upright=_parameter(config, "exif") != "ignore",
        reads_videos=reads_videos,
    )


def _parameter(config: Mapping[str, Any], name: str) -> str:
    return str(config.get("parameters", {}).get(name, {}).get("string_value", ""))


def _is_decoupled(config: Mapping[str, Any]) -> bool:
    return bool(config.get("model_transaction_policy", {}).get("decoupled", False))


def find_model(connection: Connection, default: str) -> str:
    """Return `default` where it is ready or nothing else fits, else the only model for images.

    Args:
        connection: With the server.
        default: The model's usual name.

    Raises:
        ClientError: No server responds.
    """
    try:
        if connection.is_ready(default):
            return default
    except RequestError as error:
        raise _no_server(connection, error) from error
    names = models_with_images(connection)
    return names[0] if len(names) == 1 else default


def _no_server(connection: Connection, error: RequestError) -> ClientError:
    address, timeout_s = connection.address, connection.options.timeout_s
    if _is_http_port(address, timeout_s):
        return ClientError(
            f"no Triton server responds at {address} ({error}); this looks like the HTTP port: "
            f"give http://{address.authority}"
        )
    if error.status_name == "timeout":
        return ClientError(
            f"{address} did not respond within {timeout_s:g} s; give it longer with --timeout"
        )
    return ClientError(
        f"no Triton server responds at {address} ({error}); start one with "
        "`endcap serve REPOSITORY`, or give its address with --url"
    )


def _is_http_port(address: Address, timeout_s: float) -> bool:
    """Return whether a Triton server responds over HTTP at an address that was taken for gRPC."""
    if address.protocol != "grpc" or address.secure:
        return False
    options = ConnectionOptions(timeout_s=min(timeout_s, _PROBE_TIMEOUT_S), retries=0)
    try:
        with Connection(replace(address, protocol="http"), options) as connection:
            connection.ready_models()  # the port for metrics calls itself live, too
    except (ClientError, RequestError):  # without HTTP's package, or no server
        return False
    return True


def _advice(connection: Connection) -> str:
    """Return which model to name instead."""
    names = models_with_images(connection)
    if len(names) == 1:
        return f"the server has {names[0]}: --model {names[0]} (`model=` in Python)"
    if names:
        return f"name one of these with --model (`model=` in Python): {', '.join(names)}"
    return "name an ensemble that takes images with --model (`model=` in Python)"


def models_with_images(connection: Connection) -> list[str]:
    """Return the ready models that a client can send images to; none where no server responds."""
    names = []
    try:
        for model in connection.ready_models():
            metadata = connection.metadata(model)
            if task_of(metadata.inputs, metadata.outputs):
                names.append(model)
            elif task_of(metadata.inputs, metadata.outputs, decoupled=True):
                names += [model] if _is_decoupled(connection.config(model)) else []
    except RequestError:  # it is for advice only: the error that calls for it is raised anyway
        return []
    return names
