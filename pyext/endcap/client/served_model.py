"""Whether a server can be asked for a model, and what the model answers with."""

from __future__ import annotations

from dataclasses import dataclass

from endcap.client.connection import Connection
from endcap.client.errors import ClientError, RequestError
from endcap.client.task import Task, task_of


@dataclass(frozen=True)
class ServedModel:
    """A model that can be asked: what it answers with, and the names of all its outputs."""

    task: Task
    outputs: frozenset[str]


def check_model(connection: Connection, model: str) -> ServedModel:
    """Returns what the server says of a model.

    Raises ClientError when no server answers, it does not serve `model`, or the model takes or
    gives something else than encoded images, detections and classes.
    """
    address = connection.address
    try:
        ready = connection.is_ready(model)
        live = ready or connection.is_live()
        tensors = connection.tensors(model) if ready else None
    except RequestError as error:
        if error.status_name == "timeout":
            raise ClientError(
                f"{address} did not answer within {connection.timeout_s:g} s; give it longer "
                "with --timeout"
            ) from error
        raise ClientError(
            f"no Triton server answers at {address} ({error}); start one with "
            "`endcap serve REPOSITORY`, or give its address with --url"
        ) from error
    if not live:
        raise ClientError(
            f"what answers at {address} is no Triton server, or one that is not live; "
            "give the address of another with --url"
        )
    if tensors is None:
        raise ClientError(
            f"the server at {address} has no model '{model}' that is ready; {_advice(connection)}"
        )
    task = task_of(*tensors)
    if task is None:
        raise ClientError(
            f"model '{model}' does not take encoded images and answer with detections or classes; "
            f"{_advice(connection)}"
        )
    return ServedModel(task, frozenset(tensors[1]))


def _advice(connection: Connection) -> str:
    """What to ask instead, from what the server has."""
    names = _models_to_ask(connection)
    if len(names) == 1:
        return f"the server has {names[0]}: --model {names[0]} (`model=` in Python)"
    if names:
        return f"name one that can be asked, with --model (`model=` in Python): {', '.join(names)}"
    return "name an ensemble that can be asked, with --model (`model=` in Python)"


def _models_to_ask(connection: Connection) -> list[str]:
    try:
        return [model for model in connection.ready_models() if task_of(*connection.tensors(model))]
    except RequestError:  # it is for advice only: the reason to give some is told all the same
        return []
