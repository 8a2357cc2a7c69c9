"""An ensemble: its configuration, the tensors between its steps, its class names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from endcap.errors import InvalidArgumentError
from endcap.repository.validation.model import POSTPROCESS, Finding, Model
from endcap.repository.validation.network import check_normalization
from endcap.repository.validation.steps import Known, Step, check_batch, check_step, steps_of
from endcap.repository.validation.tensors import SIDES, Port, declared_ports, form
from endcap.triton.labels import parse_labels
from endcap.triton.tensor_spec import Dims, dims_fit

_LABELS = "labels"


def check_ensemble(ensemble: Model, known: Known) -> Iterator[Finding]:
    """Yield all that is wrong with an ensemble itself, not with the models that it calls."""
    yield from _check_kind(ensemble)
    steps = steps_of(ensemble, known)
    if not steps:
        yield ensemble.error(
            ensemble.lines.line_of("ensemble_scheduling", "platform"),
            "the ensemble has no step",
            "list the models that it calls in ensemble_scheduling",
        )
        return
    of_steps = [finding for step in steps for finding in check_step(ensemble, step, known)]
    yield from of_steps
    yield from check_batch(ensemble, steps)
    yield from _check_dataflow(ensemble, steps, maps_are_complete=not of_steps)
    yield from check_normalization(steps, known)
    # Where num_classes contradicts the head, which is reported, it is unknown which is right.
    called = [s.name for s in steps if s.interface and not s.interface.contradictory]
    yield from _check_class_names(ensemble, [known.models[name] for name in called])


def _check_kind(ensemble: Model) -> Iterator[Finding]:
    config, lines = ensemble.config, ensemble.lines
    if config.platform != "ensemble" or config.backend:
        yield ensemble.error(
            lines.line_of("backend", "platform", "ensemble_scheduling"),
            f'the model has ensemble_scheduling, and platform: "{config.platform}" with '
            f'backend: "{config.backend}"',
            'write platform: "ensemble" and no backend',
        )
    for field, advice in (
        ("model_warmup", "give it to the models of the steps"),
        ("instance_group", "an ensemble runs nothing itself; give it to the models of the steps"),
    ):
        if len(getattr(config, field)):
            yield ensemble.error(
                lines.line_of(field), f"Triton refuses {field} in an ensemble", advice
            )


@dataclass(frozen=True)
class _End:
    """Producer or consumer of a tensor: a step, or the ensemble where `step` is None."""

    line: int
    step: Step | None
    key: str
    port: Port | None
    max_batch_size: int | None

    @property
    def is_certain(self) -> bool:
        return self.port is not None and not self.port.in_doubt


_Ends = Mapping[str, Sequence[_End]]


def _check_dataflow(
    ensemble: Model, steps: Sequence[Step], *, maps_are_complete: bool
) -> Iterator[Finding]:
    """Check that every tensor is produced once, taken, and of the produced type.

    Args:
        ensemble: The ensemble.
        steps: Its steps.
        maps_are_complete: No entry of a map is missing or misspelt; else a tensor that nothing
            takes follows from that.
    """
    producers = _ends(ensemble, steps, from_ensemble="input")
    consumers = _ends(ensemble, steps, from_ensemble="output")
    yield from _check_produced_once(ensemble, producers)
    absent = [*_check_produced(ensemble, producers, consumers)]
    yield from absent
    if maps_are_complete and not absent:  # else most likely the same misspelling
        yield from _check_taken(ensemble, producers, consumers)
    for tensor, ends in consumers.items():
        for consumer in ends:
            for producer in producers.get(tensor, [])[:1]:
                yield from _check_agreement(ensemble, producer, consumer, tensor)


def _ends(ensemble: Model, steps: Sequence[Step], *, from_ensemble: str) -> _Ends:
    """Return the producers by tensor, beginning with the ensemble's inputs; or all consumers."""
    ends: dict[str, list[_End]] = defaultdict(list)
    own = ensemble.max_batch_size
    for name, port in declared_ports(ensemble, from_ensemble).items():
        line = (port.block or ensemble.lines).line_of("name")
        ends[name].append(_End(line, None, name, port, own))
    for step in steps:
        for each in step.outputs if from_ensemble == SIDES[0] else step.inputs:
            ends[each.tensor].append(
                _End(each.line, step, each.key, each.port, each.max_batch_size)
            )
    return dict(ends)


def _check_produced_once(ensemble: Model, producers: _Ends) -> Iterator[Finding]:
    for tensor, (first, *others) in producers.items():
        for other in others:
            yield ensemble.error(
                other.line,
                f"{other.step} produces {tensor}, which {_origin(first)} in line {first.line}",
                "give one of the two another name",
            )


def _origin(end: _End) -> str:
    return f"{end.step} produces" if end.step else "is an input of the ensemble"


def _check_produced(ensemble: Model, producers: _Ends, consumers: _Ends) -> Iterator[Finding]:
    for tensor, ends in consumers.items():
        if tensor not in producers:
            first = min(ends, key=lambda end: end.line)
            who = f"{first.step} takes {tensor}" if first.step else f"the ensemble gives {tensor}"
            yield ensemble.error(
                first.line,
                f"{who}, and nothing produces it",
                "name a tensor that is an input of the ensemble or a value in an output_map: "
                + ", ".join(filter(None, producers)),
            )


def _check_taken(ensemble: Model, producers: _Ends, consumers: _Ends) -> Iterator[Finding]:
    for tensor, (first, *_) in producers.items():
        if tensor not in consumers:
            who = f"{first.step} produces {tensor}" if first.step else f"{tensor} is an input"
            yield ensemble.error(
                first.line,
                f"{who}, and nothing takes it, which Triton refuses",
                "map it to a step's input, list it as an output, or take it out",
            )


def _check_agreement(
    ensemble: Model, producer: _End, consumer: _End, tensor: str
) -> Iterator[Finding]:
    if producer.port is None or consumer.port is None:
        return
    if not (producer.is_certain and consumer.is_certain):
        return
    given, taken = producer.port.tensor, consumer.port.tensor
    line = producer.line if producer.step is None else consumer.line
    taking, giving = _consumer_text(consumer, tensor), _producer_text(producer)
    message = f"{taking} as {form(taken)}, and {giving} {form(given)}"
    if given.data_type and taken.data_type and given.data_type != taken.data_type:
        yield ensemble.error(line, message, _advice(producer, consumer, "data type"))
        return
    if not given.dims or not taken.dims:
        return
    whole = [_whole(given.dims, producer), _whole(taken.dims, consumer)]
    if whole[0] is not None and whole[1] is not None and dims_fit(whole[0], whole[1]):
        return
    if not dims_fit(given.dims, taken.dims):
        yield ensemble.error(line, message, _advice(producer, consumer, "shape"))
    elif None not in whole:
        with_batch, without = _name(producer), _name(consumer)
        if not producer.max_batch_size:
            with_batch, without = without, with_batch
        yield ensemble.warning(
            line,
            f"{tensor} has a batch dimension at {with_batch} and none at {without}, so that "
            "requests fail",
            "give both a max_batch_size, or none, or the one without it a first dim of -1",
        )


def _whole(dims: Dims, end: _End) -> Dims | None:
    """Return the shape with the batch dimension; None where it is not known to have one."""
    if end.max_batch_size is None:
        return None
    return (None, *dims) if end.max_batch_size else dims


def _consumer_text(end: _End, tensor: str) -> str:
    return f"{end.step} takes {end.key}" if end.step else f"the ensemble gives {tensor}"


def _producer_text(end: _End) -> str:
    return f"{end.step.name} gives {end.key}" if end.step else f"the ensemble's input {end.key} is"


def _name(end: _End) -> str:
    return str(end.step) if end.step else "the ensemble"


def _advice(producer: _End, consumer: _End, what: str) -> str:
    steps = [end.step.name for end in (producer, consumer) if end.step]
    advice = (
        f"give {' and '.join(steps)} the same {what}"
        if len(steps) > 1
        else f"give the ensemble's tensor the {what} of {''.join(steps)}"
    )
    for end in (producer, consumer):
        if end.step and end.port and end.port.determined_by:
            advice += f", or change {end.port.determined_by} of {end.step.name}"
    return advice


def _check_class_names(ensemble: Model, called: Sequence[Model]) -> Iterator[Finding]:
    """Check that the parameter `labels` has a name for each class of the postprocess step."""
    given = ensemble.parameters.get(_LABELS)
    if not given:
        return
    line = ensemble.parameter_line(_LABELS)
    names = _class_names(given)
    if names is None:
        yield ensemble.warning(
            line,
            "labels begins with [ and is no JSON list of texts",
            'write it as ["person", "bicycle"], or as names with commas between them',
        )
        return
    for model in called:
        if model.stage != POSTPROCESS:
            continue
        num_classes = model.parameters.get("num_classes", "")
        if num_classes.isdecimal() and int(num_classes) != len(names):
            yield ensemble.warning(
                line,
                f"labels has {len(names)} names, and num_classes of {model.name} is {num_classes}",
                "give one name for each class, in the order of the ids",
            )


def _class_names(given: str) -> list[str] | None:
    try:
        return parse_labels(given)
    except InvalidArgumentError:
        return None
