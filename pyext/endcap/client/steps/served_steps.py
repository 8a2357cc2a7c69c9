"""The steps of a served ensemble, as the server tells them."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from endcap.client.steps.model_config import EnsembleStep, Json, ModelConfig, read_model_config
from endcap.errors import UnsupportedError

if TYPE_CHECKING:
    from endcap.client.aio_connection import AsyncConnection
    from endcap.client.connection import Connection

_ADVICE = "let the server take its steps: preprocess='server' and postprocess='server'"


@dataclass(frozen=True)
class Step:
    """One step: what the ensemble says of it, and the configuration of its model."""

    place: EnsembleStep
    model: ModelConfig


@dataclass(frozen=True)
class ServedSteps:
    """An ensemble: its own configuration, and its steps in an order in which they can be taken."""

    ensemble: ModelConfig
    steps: tuple[Step, ...]

    @property
    def max_batch(self) -> int:
        """The most images in one request, to the ensemble and to each of its steps."""
        limits = [self.ensemble.max_batch_size]
        limits += [step.model.max_batch_size for step in self.steps if step.model.batched]
        return max(1, min(limits))


def read_served_steps(connection: Connection, model: str) -> ServedSteps:
    """Returns the steps of the ensemble `model`.

    Raises RequestError where the server does not answer, ClientError where what it answers is no
    configuration, and UnsupportedError for a model that a client cannot take apart: one that is no
    ensemble, or whose steps are pinned to versions or wait for each other.
    """
    reading = steps_reading(model)
    wanted = next(reading)
    while True:
        try:
            wanted = reading.send(connection.config(wanted))
        except StopIteration as done:
            steps: ServedSteps = done.value
            return steps


async def read_served_steps_async(connection: AsyncConnection, model: str) -> ServedSteps:
    """As read_served_steps."""
    reading = steps_reading(model)
    wanted = next(reading)
    while True:
        try:
            wanted = reading.send(await connection.config(wanted))
        except StopIteration as done:
            steps: ServedSteps = done.value
            return steps


def steps_reading(model: str) -> Generator[str, Json, ServedSteps]:
    """Reads an ensemble without asking anyone.

    Yields the name of each model whose configuration is wanted, is sent that in JSON's terms, and
    returns the steps. Raises as read_served_steps.
    """
    ensemble = read_model_config((yield model), model)
    if not ensemble.steps:
        kind = f"runs in backend {ensemble.backend}" if ensemble.backend else "has no steps"
        raise UnsupportedError(
            f"model '{model}' is no ensemble, whose steps a client could take: it {kind}; {_ADVICE}"
        )
    steps = []
    for place in ensemble.steps:
        if place.version != -1:
            raise UnsupportedError(
                f"ensemble '{model}' takes version {place.version} of model '{place.model}', and a "
                f"client asks for the newest; {_ADVICE}"
            )
        config = read_model_config((yield place.model), place.model)
        steps.append(Step(place, config))
    return ServedSteps(ensemble, tuple(_in_order(ensemble, steps)))


def _in_order(ensemble: ModelConfig, steps: Sequence[Step]) -> Sequence[Step]:
    made, waiting, ordered = set(ensemble.inputs), list(steps), []
    while waiting:
        ready = [step for step in waiting if made.issuperset(step.place.inputs.values())]
        if not ready:
            names = ", ".join(step.place.model for step in waiting)
            raise UnsupportedError(
                f"in ensemble '{ensemble.name}' the steps {names} wait for tensors that nothing "
                "makes; `endcap validate` says which"
            )
        ordered += ready
        waiting = [step for step in waiting if step not in ready]
        made.update(tensor for step in ready for tensor in step.place.outputs.values())
    return ordered
