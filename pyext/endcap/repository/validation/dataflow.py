"""The tensors inside an ensemble: who produces each, who takes it, and whether the two agree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from endcap.repository.validation.finding import Finding
from endcap.repository.validation.model import Model
from endcap.repository.validation.steps import Step
from endcap.repository.validation.tensors import SIDES, Port, declared_ports, form
from endcap.triton.tensor_spec import Dims, dims_fit


@dataclass(frozen=True)
class _End:
    """One who produces or takes a tensor: a step, or the ensemble where `step` is None."""

    line: int
    step: Step | None
    key: str
    port: Port | None
    max_batch_size: int | None

    @property
    def is_certain(self) -> bool:
        return self.port is not None and not self.port.in_doubt


_Ends = Mapping[str, Sequence[_End]]


def check_dataflow(
    ensemble: Model, steps: Sequence[Step], *, maps_are_complete: bool
) -> Iterator[Finding]:
    """Every tensor is produced once and taken, in no circle, and as what it was produced.

    Args:
        maps_are_complete: No entry of a map is missing or misspelt; else what nothing takes is no
            news.
    """
    producers = _ends(ensemble, steps, from_ensemble="input")
    takers = _ends(ensemble, steps, from_ensemble="output")
    twice = [*_check_produced_once(ensemble, producers)]
    yield from twice
    absent = [*_check_produced(ensemble, producers, takers)]
    yield from absent
    if (
        maps_are_complete and not absent
    ):  # else most likely the same misspelling, seen from its other end
        yield from _check_taken(ensemble, producers, takers)
    if not twice:
        yield from _check_order(ensemble, steps)
    for tensor, ends in takers.items():
        for taker in ends:
            for producer in producers.get(tensor, [])[:1]:
                yield from _check_agreement(ensemble, producer, taker, tensor)


def _ends(ensemble: Model, steps: Sequence[Step], *, from_ensemble: str) -> _Ends:
    """Return the producers by tensor, beginning with the ensemble's inputs; or all takers."""
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


def _check_produced(ensemble: Model, producers: _Ends, takers: _Ends) -> Iterator[Finding]:
    for tensor, ends in takers.items():
        if tensor not in producers:
            first = min(ends, key=lambda end: end.line)
            who = f"{first.step} takes {tensor}" if first.step else f"the ensemble gives {tensor}"
            yield ensemble.error(
                first.line,
                f"{who}, and nothing produces it",
                "name a tensor that is an input of the ensemble or a value in an output_map: "
                + ", ".join(filter(None, producers)),
            )


def _check_taken(ensemble: Model, producers: _Ends, takers: _Ends) -> Iterator[Finding]:
    for tensor, (first, *_) in producers.items():
        if tensor not in takers:
            who = f"{first.step} produces {tensor}" if first.step else f"{tensor} is an input"
            yield ensemble.error(
                first.line,
                f"{who}, and nothing takes it, which Triton refuses",
                "map it to a step's input, list it as an output, or take it out",
            )


def _check_order(ensemble: Model, steps: Sequence[Step]) -> Iterator[Finding]:
    waiting = [*steps]
    while True:
        unfinished = {each.tensor for step in waiting for each in step.outputs}
        left = [s for s in waiting if any(each.tensor in unfinished for each in s.inputs)]
        if len(left) == len(waiting):
            break
        waiting = left
    if waiting:
        yield ensemble.error(
            waiting[0].block.line_of("model_name"),
            f"{' and '.join(map(str, waiting))} wait for each other's outputs, so that none starts",
            "let each step take only what the ensemble or a step before it gives",
        )


def _check_agreement(
    ensemble: Model, producer: _End, taker: _End, tensor: str
) -> Iterator[Finding]:
    if producer.port is None or taker.port is None:
        return
    if not (producer.is_certain and taker.is_certain):
        return
    given, taken = producer.port.tensor, taker.port.tensor
    line = producer.line if producer.step is None else taker.line
    message = f"{_takes(taker, tensor)} as {form(taken)}, and {_gives(producer)} {form(given)}"
    if given.data_type and taken.data_type and given.data_type != taken.data_type:
        yield ensemble.error(line, message, _advice(producer, taker, "data type"))
        return
    if not given.dims or not taken.dims:
        return
    whole = [_whole(given.dims, producer), _whole(taken.dims, taker)]
    if whole[0] is not None and whole[1] is not None and dims_fit(whole[0], whole[1]):
        return
    if not dims_fit(given.dims, taken.dims):
        yield ensemble.error(line, message, _advice(producer, taker, "shape"))
    elif None not in whole:
        with_batch, without = _name(producer), _name(taker)
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


def _takes(end: _End, tensor: str) -> str:
    return f"{end.step} takes {end.key}" if end.step else f"the ensemble gives {tensor}"


def _gives(end: _End) -> str:
    return f"{end.step.name} gives {end.key}" if end.step else f"the ensemble's input {end.key} is"


def _name(end: _End) -> str:
    return str(end.step) if end.step else "the ensemble"


def _advice(producer: _End, taker: _End, what: str) -> str:
    steps = [end.step.name for end in (producer, taker) if end.step]
    advice = (
        f"give {' and '.join(steps)} the same {what}"
        if len(steps) > 1
        else f"give the ensemble's tensor the {what} of {''.join(steps)}"
    )
    for end in (producer, taker):
        if end.step and end.port and end.port.determined_by:
            advice += f", or change {end.port.determined_by} of {end.step.name}"
    return advice
