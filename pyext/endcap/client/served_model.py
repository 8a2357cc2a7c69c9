"""The model to which a client sends images, requested from its server and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from endcap.client.concurrency import run
from endcap.client.connection import Connection, read_items
from endcap.client.errors import UNREADABLE, ClientError, RequestError, unreadable_error
from endcap.client.options import Address, ConnectionOptions, Protocol
from endcap.client.results import (
    INPUT,
    TIMESTAMP,
    TRACK_IDS,
    VIDEO_INPUTS,
    Task,
    find_task,
    why_no_task,
)
from endcap.errors import InvalidArgumentError
from endcap.triton.labels import parse_labels

_PROBE_TIMEOUT_S = 2.0  # of an error message, which must not wait long


class TensorSpec(NamedTuple):
    """Triton's type and the shape of a tensor; -1 is a dimension of any size."""

    datatype: str
    shape: tuple[int, ...]


Specs = Mapping[str, TensorSpec]


@dataclass(frozen=True)
class ServedModel:
    """A model that takes images and returns detections, classes or tensors.

    Attributes:
        input: That of encoded images.
        outputs: By name.
        batch_limit: The most images in a request.
        decoupled: Whether it may send several responses to a request, or none.
        labels_text, upright: Of its configuration's parameters `labels` and `exif`; boxes are of
            the image as stored if the latter is `ignore`.
        input_name: The name of `input`.
        reads_videos: Whether it takes videos, and returns the detections of each frame.
        takes_timestamps: Whether it has an input for the time of a frame.
        takes_sequences: Whether a request needs the id of a sequence.
    """

    name: str
    task: Task
    input: TensorSpec
    outputs: Specs
    batch_limit: int = 1
    decoupled: bool = False
    labels_text: str = ""
    upright: bool = True
    input_name: str = INPUT
    reads_videos: bool = False
    takes_timestamps: bool = False
    takes_sequences: bool = False

    @property
    def batched(self) -> bool:
        """Whether its tensors begin with a batch dimension."""
        return len(self.input.shape) == 2

    def labels(self) -> list[str] | None:
        """Return class names by id, None without any; raise ClientError for invalid ones."""
        try:
            return parse_labels(self.labels_text) or None
        except InvalidArgumentError as error:
            raise ClientError(f"in the parameter labels of model '{self.name}', {error}") from error


def find_image_input(inputs: Specs) -> str | None:
    """Return the name of the input that takes encoded images, None if there is none.

    It is the only one that requests need, whatever its name: BYTES with one element for an image,
    or UINT8 with the bytes of one.
    """
    if len(inputs) != 1:
        return None
    ((name, spec),) = inputs.items()
    sides = spec.shape[1:] if len(spec.shape) > 1 else spec.shape
    fits = sides == (-1,) or (sides == (1,) and spec.datatype == "BYTES")
    return name if fits and spec.datatype in ("BYTES", "UINT8") else None


def explain_inputs(inputs: Specs) -> str:
    """Return why a client cannot send images to a model with these inputs."""
    texts = (
        f"{name} {spec.datatype} [{','.join(map(str, spec.shape))}]"
        for name, spec in inputs.items()
    )
    return f"its inputs are {', '.join(texts)}, and one of encoded images is expected"


async def fetch_served_model(
    connection: Connection, model: str, *, best_classes: bool = False
) -> ServedModel:
    """Return a model as the server describes it; the task is as for `find_task`.

    Raises:
        ClientError: No server responds, it does not serve the model, or a client cannot use it.
    """
    address = connection.address
    try:
        if not await connection.request("is_model_ready", model_name=model):
            if not await connection.request("is_server_live"):
                raise ClientError(
                    f"the server at {address} is not a Triton server, or not live; "
                    "pass the address of another with --url (`url=` in Python)"
                )
            raise ClientError(
                f"the server at {address} has no model '{model}' that is ready; "
                f"{await _advise(connection)}"
            )
        described = await _describe(connection, model, best_classes=best_classes)
    except RequestError as error:
        raise await _explain_no_server(connection, error) from error
    if isinstance(described, str):
        raise ClientError(
            f"model '{model}' does not take encoded images and return detections, classes or, with "
            f"geometry, other tensors: {described}; {await _advise(connection)}"
        )
    return described


def find_model(address: Address, options: ConnectionOptions, default: str) -> str:
    """Return `default` if it is ready or not the only choice, else the only model for images.

    Raises:
        ClientError: No server responds.
    """

    async def find() -> str:
        async with Connection(address, options) as connection:
            try:
                if await connection.request("is_model_ready", model_name=default):
                    return default
            except RequestError as error:
                raise await _explain_no_server(connection, error) from error
            names = await _list_models_with_images(connection)
            return names[0] if len(names) == 1 else default

    return run(find())


async def _describe(
    connection: Connection, model: str, *, best_classes: bool = False
) -> ServedModel | str:
    """Return a model as the server describes it, or why a client cannot use it."""
    metadata = await connection.request("get_model_metadata", model_name=model)
    config = await connection.request("get_model_config", model_name=model)
    try:
        inputs, outputs = (
            {
                str(tensor["name"]): TensorSpec(tensor["datatype"], (*map(int, tensor["shape"]),))
                for tensor in metadata.get(side, [])
            }
            for side in ("inputs", "outputs")
        )
        optional = {str(each["name"]) for each in config.get("input", []) if each.get("optional")}
        decoupled = bool((config.get("model_transaction_policy") or {}).get("decoupled", False))
        batch_limit = max(int(config.get("max_batch_size", 0)), 1)
        labels, exif = (
            str(config.get("parameters", {}).get(parameter, {}).get("string_value", ""))
            for parameter in ("labels", "exif")
        )
    except UNREADABLE as error:
        raise unreadable_error(error) from error
    reads_videos = decoupled and set(inputs) == VIDEO_INPUTS
    needed = {name: spec for name, spec in inputs.items() if name not in optional}
    input_name = INPUT if reads_videos else find_image_input(needed)
    task = find_task(outputs, decoupled=decoupled, best_classes=best_classes)
    if input_name is None or task is None:
        return explain_inputs(needed) if input_name is None else why_no_task(outputs)
    return ServedModel(
        model,
        task,
        inputs[input_name],
        outputs,
        1 if inputs[input_name].datatype == "UINT8" else batch_limit,
        decoupled,
        labels,
        upright=exif != "ignore",
        input_name=input_name,
        reads_videos=reads_videos,
        takes_timestamps=TIMESTAMP in inputs,
        takes_sequences=await _takes_sequences(connection, config, outputs),
    )


async def _takes_sequences(
    connection: Connection, config: Mapping[str, Any], outputs: Specs
) -> bool:
    """Return whether a model has a sequence batcher or, of tracks, one of its composing models."""
    configs = [config]
    if TRACK_IDS in outputs:
        names = [
            step["model_name"] for step in config.get("ensemble_scheduling", {}).get("step", [])
        ]
        configs += [await connection.request("get_model_config", model_name=n) for n in names]
    return any("sequence_batching" in each for each in configs)


async def _list_models_with_images(connection: Connection) -> list[str]:
    """Return the ready models that a client can send images to; none if no server responds."""
    try:
        # `endcap serve` closes the repository's index, so that the statistics have to name them.
        statistics = await connection.request("get_inference_statistics")
        names = {str(model.get("name")) for model in read_items(statistics, "model_stats")}
        models = [await _describe(connection, name) for name in sorted(names)]
    except RequestError:  # it is for advice only: the error that calls for it is raised anyway
        return []
    return [
        model.name for model in models if isinstance(model, ServedModel) and not model.reads_videos
    ]


async def _advise(connection: Connection) -> str:
    """Return the end of an error message: which model to name instead."""
    names = await _list_models_with_images(connection)
    if len(names) == 1:
        return f"the server has {names[0]}: --model {names[0]} (`model=` in Python)"
    if names:
        return f"name one of these with --model (`model=` in Python): {', '.join(names)}"
    return (
        "none of the server's models takes encoded images and returns detections or classes; name "
        "an ensemble that does with --model (`model=` in Python)"
    )


async def _explain_no_server(connection: Connection, error: RequestError) -> ClientError:
    """Return the error for a server that does not respond."""
    address = connection.address
    other: Protocol = "http" if address.protocol == "grpc" else "grpc"
    if await _responds(connection, replace(address, protocol=other)):
        port = "HTTP" if other == "http" else "gRPC"
        return ClientError(
            f"no Triton server responds at {address} ({error}); this looks like the {port} port: "
            f"give {other}://{address.authority}"
        )
    if error.status_name == "timeout":
        return ClientError(
            f"{address} did not respond within {connection.options.timeout_s:g} s; give it longer "
            "with --timeout (`timeout_s=` in Python)"
        )
    return ClientError(
        f"no Triton server responds at {address} ({error}); start one with "
        "`endcap serve REPOSITORY`, or give its address with --url (`url=` in Python)"
    )


async def _responds(connection: Connection, address: Address) -> bool:
    """Return whether a Triton server responds at an address, without TLS."""
    timeout_s = min(connection.options.timeout_s, _PROBE_TIMEOUT_S)
    options = ConnectionOptions(timeout_s=timeout_s, retries=0)
    try:
        async with Connection(address, options, connection.runtime) as other:
            # The port for metrics would also call itself live.
            await other.request("get_inference_statistics")
    except (ClientError, RequestError):  # without HTTP's package, or no server
        return False
    return True
