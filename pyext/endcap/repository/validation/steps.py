"""An ensemble's steps: the models that they call, and the tensors of these that they name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from endcap.repository.validation.model import Finding, Model
from endcap.repository.validation.tensors import Interface, Port
from endcap.triton.model_config import Block


@dataclass(frozen=True)
class Known:
    """The other models of the repository.

    Attributes:
        folders: Every folder; models and interfaces: those that could be read.
    """

    folders: frozenset[str]
    models: Mapping[str, Model]
    interfaces: Mapping[str, Interface]


@dataclass(frozen=True)
class Mapped:
    """One entry of a step's input_map or output_map.

    Attributes:
        key, tensor: The name in the step's model, and the one in the ensemble.
        port: The model's tensor, None where it is not known.
        max_batch_size: Of the model.
    """

    key: str
    tensor: str
    line: int
    port: Port | None
    max_batch_size: int | None


@dataclass(frozen=True)
class Step:
    """One step; `interface` is None where the model's is not known."""

    number: int
    name: str
    version: int
    block: Block
    interface: Interface | None
    inputs: tuple[Mapped, ...]
    outputs: tuple[Mapped, ...]

    def __str__(self) -> str:
        """Such as `step detector`."""
        return f"step {self.name or self.number + 1}"


def steps_of(ensemble: Model, known: Known) -> list[Step]:
    """Return an ensemble's steps in their order."""
    scheduling = ensemble.lines.nth("ensemble_scheduling", 0)
    steps = []
    for number, step in enumerate(ensemble.config.ensemble_scheduling.step):
        block = scheduling.nth("step", number)
        interface = known.interfaces.get(step.model_name)
        inputs = interface.inputs if interface else None
        outputs = interface.outputs if interface else None
        largest = interface.max_batch_size if interface else None
        steps.append(
            Step(
                number,
                step.model_name,
                step.model_version,
                block,
                interface,
                _mapped(block, "input_map", step.input_map, inputs, largest),
                _mapped(block, "output_map", step.output_map, outputs, largest),
            )
        )
    return steps


def _mapped(
    block: Block,
    field: str,
    entries: Any,
    ports: Mapping[str, Port] | None,
    max_batch_size: int | None,
) -> tuple[Mapped, ...]:
    mapped = [
        Mapped(
            key,
            tensor,
            block.entry(field, key).line,
            ports.get(key) if ports else None,
            max_batch_size,
        )
        for key, tensor in entries.items()
    ]
    return tuple(sorted(mapped, key=lambda each: (each.line, each.key)))


def check_step(ensemble: Model, step: Step, known: Known) -> Iterator[Finding]:
    """Check that the model exists, takes and gives what the maps say."""
    if step.name not in known.folders:
        yield ensemble.error(
            step.block.line_of("model_name"),
            f"{step} calls a model that is not in the repository"
            if step.name
            else f"step {step.number + 1} has no model_name",
            "correct model_name, or put the model beside this one",
        )
        return
    yield from _check_version(ensemble, step, known)
    if step.interface is None:
        return
    yield from _check_keys(ensemble, step, "input", step.inputs, step.interface.inputs)
    yield from _check_keys(ensemble, step, "output", step.outputs, step.interface.outputs)
    yield from _check_required(ensemble, step, step.interface)


def check_batch(ensemble: Model, steps: Sequence[Step]) -> Iterator[Finding]:
    """Check that every step takes the ensemble's largest batch."""
    largest = ensemble.max_batch_size or 0
    # A step whose max_batch_size is 0 is checked by the shapes of its tensors.
    sizes = {s.name: s.interface.max_batch_size or largest for s in steps if s.interface}
    smaller = {name: size for name, size in sizes.items() if size < largest}
    if smaller:
        others = " and ".join(f"that of {name} {size}" for name, size in smaller.items())
        yield ensemble.error(
            ensemble.lines.line_of("max_batch_size"),
            f"the ensemble's max_batch_size is {largest}, and {others}",
            f"write max_batch_size: {min(smaller.values())} here, or raise that of "
            + " and ".join(smaller),
        )


def _check_version(ensemble: Model, step: Step, known: Known) -> Iterator[Finding]:
    model = known.models.get(step.name)
    if model is None or step.version == -1 or not model.versions():
        return
    loaded = model.loaded_versions()
    if step.version not in loaded:
        is_given = any(field.name == "model_version" for field in step.block.fields)
        yield ensemble.error(
            step.block.line_of("model_version"),
            f"{step} asks for version {step.version}"
            + ("" if is_given else ", for want of a model_version,")
            + f" of {step.name}, and Triton loads {', '.join(map(str, loaded))}",
            "write model_version: -1, which is the newest",
        )


def _check_keys(
    ensemble: Model,
    step: Step,
    side: str,
    mapped: tuple[Mapped, ...],
    ports: Mapping[str, Port] | None,
) -> Iterator[Finding]:
    for each in mapped:
        if ports is not None and each.key not in ports:
            yield ensemble.error(
                each.line,
                f"{step} has no {side} {each.key}",
                f"the key of {side}_map is one of {', '.join(ports)}",
            )


def _check_required(ensemble: Model, step: Step, interface: Interface) -> Iterator[Finding]:
    given = {each.key for each in step.inputs}
    unknown = [each for each in step.inputs if each.port is None]
    required = [
        name
        for name, port in (interface.inputs or {}).items()
        if not port.optional and name not in given
    ]
    # A misspelt key is already reported; the input that was meant is not missing besides.
    for name in required[len(unknown) :]:
        yield ensemble.error(
            step.block.line_of("model_name"),
            f"{step} needs the input {name}, and its input_map has none of that key",
            f'add input_map {{ key: "{name}" value: ... }}',
        )
