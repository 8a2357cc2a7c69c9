"""The model to which a client sends images, requested from its server and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from endcap.client.calls import UNREADABLE, ModelMetadata, TensorSpec
from endcap.client.errors import ClientError, RequestError
from endcap.client.options import Address, ConnectionOptions, Protocol
from endcap.errors import InvalidArgumentError
from endcap.results import INPUT, VIDEO_INPUTS, Task, task_of, why_no_task
from endcap.triton.labels import parse_labels

if TYPE_CHECKING:
    from endcap.client.connection import AsyncConnection

_PROBE_TIMEOUT_S = 2.0  # of an error message, which must not wait long


def image_input(inputs: Mapping[str, TensorSpec]) -> str | None:
    """Return the name of the input that takes encoded images, None where a model has none.

    It is the only one, whatever its name: BYTES with one element for an image, or UINT8 with the
    bytes of one.
    """
    if len(inputs) != 1:
        return None
    ((name, spec),) = inputs.items()
    sides = spec.shape[1:] if len(spec.shape) > 1 else spec.shape
    fits = sides == (-1,) or (sides == (1,) and spec.datatype == "BYTES")
    return name if fits and spec.datatype in ("BYTES", "UINT8") else None


def why_no_images(metadata: ModelMetadata, *, decoupled: bool = False) -> str | None:
    """Return why a client cannot send images to a model; None where it can."""
    if image_input(metadata.inputs) is None:
        given = (
            f"{name} {spec.datatype} [{','.join(map(str, spec.shape))}]"
            for name, spec in metadata.inputs.items()
        )
        return f"its inputs are {', '.join(given)}, and one of encoded images is expected"
    if task_of(metadata.outputs, decoupled=decoupled) is None:
        return why_no_task(metadata.outputs)
    return None


@dataclass(frozen=True)
class ServedModel:
    """A model that takes images and returns detections, classes or tensors.

    Attributes:
        input: That of encoded images.
        outputs: By name.
        batch_limit: The most images in a request.
        decoupled: Whether it may send several responses to a request, or none.
        labels_text, upright: Of its configuration's parameters `labels` and `exif`; boxes are of
            the image as stored where the latter is `ignore`.
        input_name: The name of `input`.
        reads_videos: Whether it takes videos, and returns the detections of each frame.
    """

    name: str
    task: Task
    input: TensorSpec
    outputs: Mapping[str, TensorSpec]
    batch_limit: int = 1
    decoupled: bool = False
    labels_text: str = ""
    upright: bool = True
    input_name: str = INPUT
    reads_videos: bool = False

    @property
    def batched(self) -> bool:
        """Whether its tensors begin with a batch dimension."""
        return len(self.input.shape) == 2

    def labels(self) -> list[str] | None:
        """Return class names by id, None where there are none; ClientError for invalid ones."""
        try:
            return parse_labels(self.labels_text) or None
        except InvalidArgumentError as error:
            raise ClientError(f"in the parameter labels of model '{self.name}', {error}") from error


async def fetch_served_model(
    connection: AsyncConnection, model: str, *, best_classes: bool = False
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
        if not await connection.is_ready(model):
            if not await connection.is_live():
                raise ClientError(
                    f"the server at {address} is not a Triton server, or not live; "
                    "pass the address of another with --url (`url=` in Python)"
                )
            advice = await _advice(connection)
            raise ClientError(
                f"the server at {address} has no model '{model}' that is ready; {advice}"
            )
        metadata = await connection.metadata(model)
        config = await connection.config(model)
    except RequestError as error:
        raise await _no_server(connection, error) from error
    decoupled = _is_decoupled(config)
    reads_videos = decoupled and set(metadata.inputs) == VIDEO_INPUTS
    name = INPUT if reads_videos else image_input(metadata.inputs)
    task = task_of(metadata.outputs, decoupled=decoupled, best_classes=best_classes)
    if name is None or task is None:
        advice = await _advice(connection)
        raise ClientError(
            f"model '{model}' does not take encoded images and return detections, classes or, with "
            f"geometry, other tensors: {why_no_images(metadata, decoupled=decoupled)}; {advice}"
        )
    encoded = metadata.inputs[name]
    try:
        limit = int(config.get("max_batch_size", 0)) if encoded.datatype != "UINT8" else 1
        labels, exif = (_parameter(config, parameter) for parameter in ("labels", "exif"))
    except UNREADABLE as error:
        raise ClientError(f"the configuration of model '{model}' cannot be read") from error
    return ServedModel(
        model,
        task,
        encoded,
        metadata.outputs,
        max(limit, 1),
        decoupled,
        labels,
        upright=exif != "ignore",
        input_name=name,
        reads_videos=reads_videos,
    )


def _parameter(config: Mapping[str, Any], name: str) -> str:
    return str(config.get("parameters", {}).get(name, {}).get("string_value", ""))


def _is_decoupled(config: Mapping[str, Any]) -> bool:
    policy = config.get("model_transaction_policy")
    return isinstance(policy, dict) and bool(policy.get("decoupled", False))


async def find_model(connection: AsyncConnection, default: str) -> str:
    """Return `default` where it is ready or nothing else fits, else the only model for images.

    Args:
        connection: With the server.
        default: The model's usual name.

    Raises:
        ClientError: No server responds.
    """
    try:
        if await connection.is_ready(default):
            return default
    except RequestError as error:
        raise await _no_server(connection, error) from error
    names = await models_with_images(connection)
    return names[0] if len(names) == 1 else default


async def _no_server(connection: AsyncConnection, error: RequestError) -> ClientError:
    address, timeout_s = connection.address, connection.options.timeout_s
    other: Protocol = "http" if address.protocol == "grpc" else "grpc"
    if await _responds(connection, replace(address, protocol=other)):
        port = {"http": "HTTP", "grpc": "gRPC"}[other]
        return ClientError(
            f"no Triton server responds at {address} ({error}); this looks like the {port} port: "
            f"give {other}://{address.authority}"
        )
    if error.status_name == "timeout":
        return ClientError(
            f"{address} did not respond within {timeout_s:g} s; give it longer with --timeout "
            "(`timeout_s=` in Python)"
        )
    return ClientError(
        f"no Triton server responds at {address} ({error}); start one with "
        "`endcap serve REPOSITORY`, or give its address with --url (`url=` in Python)"
    )


async def _responds(connection: AsyncConnection, address: Address) -> bool:
    """Return whether a Triton server responds at an address, without TLS."""
    if address.secure:
        return False
    options = ConnectionOptions(
        timeout_s=min(connection.options.timeout_s, _PROBE_TIMEOUT_S), retries=0
    )
    try:
        async with connection.to(address, options) as other:
            await other.ready_models()  # the port for metrics calls itself live, too
    except (ClientError, RequestError):  # without HTTP's package, or no server
        return False
    return True


async def _advice(connection: AsyncConnection) -> str:
    """Return which model to name instead."""
    names = await models_with_images(connection)
    if len(names) == 1:
        return f"the server has {names[0]}: --model {names[0]} (`model=` in Python)"
    if names:
        return f"name one of these with --model (`model=` in Python): {', '.join(names)}"
    return (
        "none of the server's models takes encoded images and returns detections or classes; name "
        "an ensemble that does with --model (`model=` in Python)"
    )


async def models_with_images(connection: AsyncConnection) -> list[str]:
    """Return the ready models that a client can send images to; none where no server responds."""
    names: list[str] = []
    try:
        for model in await connection.ready_models():
            metadata = await connection.metadata(model)
            if why_no_images(metadata) is None or (
                why_no_images(metadata, decoupled=True) is None
                and _is_decoupled(await connection.config(model))
            ):
                names.append(model)
    except RequestError:  # it is for advice only: the error that calls for it is raised anyway
        return []
    return names
