"""What a server says of a model: whether it can be asked, and what it answers with."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeAlias

from endcap.client.address import Address
from endcap.client.calls import TensorSpec
from endcap.client.errors import ClientError, RequestError
from endcap.errors import InvalidArgumentError
from endcap.results.task import INPUT, Task, task_of
from endcap.triton.labels import parse_labels


@dataclass(frozen=True)
class ServedModel:
    """A model that can be asked.

    input: what it says of `encoded`. outputs: of its outputs, by name.
    batch_limit: the most images in a request.
    decoupled: whether it may answer a request with several responses, or none.
    labels_text, upright: of its configuration's parameters `labels` and `exif`; boxes are of the
        image as stored where the latter is `ignore`.
    """

    name: str
    task: Task
    input: TensorSpec
    outputs: Mapping[str, TensorSpec]
    batch_limit: int = 1
    decoupled: bool = False
    labels_text: str = ""
    upright: bool = True

    @property
    def batched(self) -> bool:
        """Whether its tensors begin with a batch dimension."""
        return len(self.input.shape) == 2

    def labels(self) -> list[str] | None:
        """Returns class names by id, None where there are none; ClientError for broken ones."""
        try:
            return parse_labels(self.labels_text) or None
        except InvalidArgumentError as error:
            raise ClientError(f"in the parameter labels of model '{self.name}', {error}") from error


class Asked(Protocol):
    """What a script asks of a connection of either kind: values, or awaitables of them."""

    def is_ready(self, model: str) -> Any:
        """See `Connection`, as for all of these."""

    def is_live(self) -> Any:
        """Whether a server answers."""

    def metadata(self, model: str) -> Any:
        """A model's tensors."""

    def config(self, model: str) -> Any:
        """A model's configuration."""

    def ready_models(self) -> Any:
        """The names of all models."""


Query: TypeAlias = Callable[[Asked], Any]
# Yields questions and is sent the answers, or has the RequestError of one thrown in.
Script: TypeAlias = "Generator[Query, Any, ServedModel]"


def look_up(
    address: Address, model: str, *, timeout_s: float, best_classes: bool = False
) -> Script:
    """Asks for a model, over any connection; see `endcap.client.queries`.

    best_classes: whether Triton's classification extension is to name classes.
    Raises ClientError when no server answers, it does not serve `model`, or the model takes or
    gives something else than encoded images, detections and classes.
    """
    try:
        ready = yield (lambda asked: asked.is_ready(model))
        live = ready or (yield (lambda asked: asked.is_live()))
        metadata = (yield partial(_metadata, model)) if ready else None
        config = (yield partial(_config, model)) if ready else {}
    except RequestError as error:
        raise _no_server(address, error, timeout_s) from error
    if not live:
        raise ClientError(
            f"what answers at {address} is no Triton server, or one that is not live; "
            "give the address of another with --url"
        )
    if metadata is None:
        advice = yield from _advice()
        raise ClientError(f"the server at {address} has no model '{model}' that is ready; {advice}")
    decoupled = _is_decoupled(config)
    task = task_of(
        metadata.inputs, metadata.outputs, decoupled=decoupled, best_classes=best_classes
    )
    if task is None:
        advice = yield from _advice()
        raise ClientError(
            f"model '{model}' does not take encoded images and answer with detections or classes; "
            f"{advice}"
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
    )


def _metadata(model: str, asked: Asked) -> Any:
    return asked.metadata(model)


def _config(model: str, asked: Asked) -> Any:
    return asked.config(model)


def _parameter(config: Mapping[str, Any], name: str) -> str:
    return str(config.get("parameters", {}).get(name, {}).get("string_value", ""))


def _is_decoupled(config: Mapping[str, Any]) -> bool:
    return bool(config.get("model_transaction_policy", {}).get("decoupled", False))


def _no_server(address: Address, error: RequestError, timeout_s: float) -> ClientError:
    if error.status_name == "timeout":
        return ClientError(
            f"{address} did not answer within {timeout_s:g} s; give it longer with --timeout"
        )
    return ClientError(
        f"no Triton server answers at {address} ({error}); start one with "
        "`endcap serve REPOSITORY`, or give its address with --url"
    )


def _advice() -> Generator[Query, Any, str]:
    """What to ask instead, from what the server has."""
    names = yield from _models_to_ask()
    if len(names) == 1:
        return f"the server has {names[0]}: --model {names[0]} (`model=` in Python)"
    if names:
        return f"name one that can be asked, with --model (`model=` in Python): {', '.join(names)}"
    return "name an ensemble that can be asked, with --model (`model=` in Python)"


def _models_to_ask() -> Generator[Query, Any, list[str]]:
    names = []
    try:
        for model in (yield (lambda asked: asked.ready_models())):
            metadata = yield partial(_metadata, model)
            if task_of(metadata.inputs, metadata.outputs):
                names.append(model)
            elif task_of(metadata.inputs, metadata.outputs, decoupled=True):
                config = yield partial(_config, model)
                names += [model] if _is_decoupled(config) else []
    except RequestError:  # it is for advice only: the reason to give some is told all the same
        return []
    return names
