"""An ensemble: its configuration, its steps, the tensors between them, its class names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from endcap.errors import InvalidArgumentError
from endcap.repository.validation.model import Finding, Interface, Model, Port
from endcap.repository.validation.network import check_normalization
from endcap.triton.ensemble import POSTPROCESS_BACKEND, PREPROCESS_BACKEND
from endcap.triton.labels import parse_labels
from endcap.triton.model_config import Block
from endcap.triton.model_contract import preprocess_contract
from endcap.triton.model_folder import read_integer
from endcap.triton.tensor_spec import Dims, dims_fit

_LABELS = "labels"
_MAX_ROIS = "max_rois"


@dataclass(frozen=True)
class RepositoryModels:
    """All folders of the repository, and the models in them that could be read."""

    folders: frozenset[str]
    models: Mapping[str, Model]
    interfaces: dict[str, Interface]


@dataclass(frozen=True)
class _Step:
    text: str  # such as `step detector`
    name: str
    block: Block
    interface: Interface
    inputs: tuple[_End, ...]
    outputs: tuple[_End, ...]


@dataclass(frozen=True)
class _End:
    """Producer or consumer of a tensor of the ensemble: a step, or itself where `step` is ""."""

    line: int
    key: str  # the tensor's name in the step's model
    tensor: str  # and in the ensemble
    step: str  # such as `step detector`
    name: str  # the model's
    port: Port | None  # the tensor in the model, None where it is not known
    max_batch_size: int | None  # of the model, None where it is not known

    def whole_dims(self, dims: Dims) -> Dims:
        """Return the shape with the batch dimension."""
        return (None, *dims) if self.max_batch_size else dims


def check_ensemble(ensemble: Model, known: RepositoryModels) -> Iterator[Finding]:
    """Yield all that is wrong with an ensemble itself, not with the models that it calls."""
    schedules = ensemble.config.blocks("ensemble_scheduling")
    scheduled = [block for schedule in schedules for block in schedule.blocks("step")]
    steps = [_read_step(number, block, known) for number, block in enumerate(scheduled)]
    if not steps:
        yield ensemble.error(
            ensemble.config.find_line("ensemble_scheduling", "platform"),
            "the ensemble has no step; list the models that it calls in ensemble_scheduling",
        )
        return
    of_steps = [finding for step in steps for finding in _check_step(ensemble, step, known)]
    yield from of_steps
    yield from _check_batch(ensemble, steps)
    yield from _check_dataflow(ensemble, steps, maps_are_complete=not of_steps)
    makers = {
        each.tensor: known.models[step.name]
        for step in steps
        if step.name in known.models and known.models[step.name].stage == PREPROCESS_BACKEND
        for each in step.outputs
        if each.key == "images" and each.port is not None
    }
    for step in steps:
        for each in step.inputs:
            if each.tensor in makers:
                yield from check_normalization(makers[each.tensor], step.name, step.interface)
                yield from _check_regions(makers[each.tensor], each)
    # Where num_classes contradicts the head, it is unknown which is right.
    called = [known.models.get(step.name) for step in steps if not step.interface.contradictory]
    yield from _check_class_names(ensemble, [*filter(None, called)])


def _check_regions(maker: Model, network: _End) -> Iterator[Finding]:
    """Check that the network takes the regions or tiles of an image as one batch."""
    largest = network.max_batch_size
    default = preprocess_contract({}).parameters[_MAX_ROIS]
    most = read_integer(maker.parameters.get(_MAX_ROIS, default))
    if maker.largest_batch == 0 and largest and most > largest:
        yield maker.warning(
            maker.parameter_line(_MAX_ROIS),
            f"{_MAX_ROIS} is {most}, and max_batch_size of {network.name}, which takes the regions "
            f"of an image as a batch, is {largest}: Triton refuses more; set {_MAX_ROIS} to "
            f"{largest}, or raise the other",
        )


def _read_step(number: int, block: Block, known: RepositoryModels) -> _Step:
    name = block.value("model_name")
    interface = known.interfaces.get(name, Interface(None, None, None))
    where, largest = f"step {name or number + 1}", interface.max_batch_size

    def ends(field: str, ports: Mapping[str, Port] | None) -> tuple[_End, ...]:
        return tuple(
            _End(
                entry.line, key, entry.value("value"), where, name, (ports or {}).get(key), largest
            )
            for key, (*_, entry) in block.entries(field).items()
        )

    inputs, outputs = ends("input_map", interface.inputs), ends("output_map", interface.outputs)
    return _Step(where, name, block, interface, inputs, outputs)


def _check_step(ensemble: Model, step: _Step, known: RepositoryModels) -> Iterator[Finding]:
    line = step.block.find_line("model_name")
    if step.name not in known.folders:
        problem = f"{step.text} calls a model that is not in the repository"
        problem = problem if step.name else f"{step.text} has no model_name"
        yield ensemble.error(line, f"{problem}; correct model_name, or add the model")
        return
    yield from _check_version(ensemble, step, known)
    inputs, outputs = step.interface.inputs, step.interface.outputs
    for side, ends, ports in (("input", step.inputs, inputs), ("output", step.outputs, outputs)):
        for each in ends:
            if ports is not None and each.key not in ports:
                text = f"{step.text} has no {side} {each.key}; the key is one of {', '.join(ports)}"
                yield ensemble.error(each.line, text)
    given = {each.key for each in step.inputs}
    unknown = sum(each.port is None for each in step.inputs)
    required = [name for name, port in (inputs or {}).items() if not port.optional]
    # A misspelt key is already reported; the input that was meant is not missing besides.
    for name in [name for name in required if name not in given][unknown:]:
        yield ensemble.error(
            line,
            f"{step.text} needs the input {name}, and its input_map has none of that key; add "
            f'input_map {{ key: "{name}" value: ... }}',
        )


def _check_version(ensemble: Model, step: _Step, known: RepositoryModels) -> Iterator[Finding]:
    model = known.models.get(step.name)
    version = read_integer(step.block.value("model_version"))
    if model is None or version == -1 or not model.versions:
        return
    loaded = model.loaded_versions()
    if version not in loaded:
        is_given = any(field.name == "model_version" for field in step.block.fields)
        without = "" if is_given else ", for want of a model_version,"
        yield ensemble.error(
            step.block.find_line("model_version"),
            f"{step.text} asks for version {version}{without} of {step.name}, and Triton "
            f"loads {', '.join(map(str, loaded))}; write model_version: -1, which is the newest",
        )


def _check_batch(ensemble: Model, steps: Sequence[_Step]) -> Iterator[Finding]:
    largest = ensemble.largest_batch or 0
    # A step whose max_batch_size is 0 is checked by the shapes of its tensors.
    sizes = {step.name: step.interface.max_batch_size or largest for step in steps}
    smaller = {name: size for name, size in sizes.items() if size < largest}
    if smaller:
        others = " and ".join(f"that of {name} {size}" for name, size in smaller.items())
        yield ensemble.error(
            ensemble.config.find_line("max_batch_size"),
            f"the ensemble's max_batch_size is {largest}, and {others}; write max_batch_size: "
            f"{min(smaller.values())} here, or raise that of {' and '.join(smaller)}",
        )


def _check_dataflow(
    ensemble: Model, steps: Sequence[_Step], *, maps_are_complete: bool
) -> Iterator[Finding]:
    """Check that every tensor is produced once, taken, and of the produced type.

    A tensor that nothing takes may follow from a missing or misspelt entry of a map.
    """
    producers = _ends(ensemble, "input", [end for step in steps for end in step.outputs])
    consumers = _ends(ensemble, "output", [end for step in steps for end in step.inputs])
    for tensor, (first, *others) in producers.items():
        before = f"{first.step} produces" if first.step else "is an input of the ensemble"
        for other in others:
            yield ensemble.error(
                other.line,
                f"{other.step} produces {tensor}, which {before} in line {first.line}; give one of "
                "the two another name",
            )
    absent = [tensor for tensor in consumers if tensor not in producers]
    for tensor in absent:
        first = min(consumers[tensor], key=lambda end: end.line)
        who = f"{first.step} takes {tensor}" if first.step else f"the ensemble gives {tensor}"
        yield ensemble.error(
            first.line,
            f"{who}, and nothing produces it; name a tensor that is an input of the ensemble or a "
            f"value in an output_map: {', '.join(filter(None, producers))}",
        )
    if maps_are_complete and not absent:  # else most likely the same misspelling
        for tensor, (first, *_) in producers.items():
            who = f"{first.step} produces {tensor}" if first.step else f"{tensor} is an input"
            if tensor not in consumers:
                yield ensemble.error(
                    first.line,
                    f"{who}, and nothing takes it, which Triton refuses; map it to a step's input, "
                    "list it as an output, or take it out",
                )
    for tensor, ends in consumers.items():
        for consumer in ends:
            for producer in producers.get(tensor, [])[:1]:
                yield from _check_agreement(ensemble, producer, consumer, tensor)


def _ends(ensemble: Model, side: str, of_steps: Sequence[_End]) -> dict[str, list[_End]]:
    """Return the producers by tensor, beginning with the ensemble's inputs; or all consumers."""
    ends = defaultdict(list)
    for name, port in ensemble.declared_ports(side).items():
        line = (port.block or ensemble.config).find_line("name")
        ends[name].append(_End(line, name, name, "", "", port, ensemble.largest_batch))
    for end in of_steps:
        ends[end.tensor].append(end)
    return dict(ends)


def _check_agreement(
    ensemble: Model, producer: _End, consumer: _End, tensor: str
) -> Iterator[Finding]:
    if producer.port is None or consumer.port is None:
        return
    given, taken = producer.port.tensor, consumer.port.tensor
    line = consumer.line if producer.step else producer.line
    taker = f"{consumer.step} takes" if consumer.step else "the ensemble gives"
    giver = f"{producer.name} gives {producer.key}"
    giver = giver if producer.step else f"the ensemble's input {tensor} is"
    what = "shape" if given.data_type == taken.data_type else "data type"
    message = (
        f"{taker} {consumer.key} as {consumer.port.type_text}, and {giver} "
        f"{producer.port.type_text}; {_advice(producer, consumer, what)}"
    )
    if given.data_type and taken.data_type and given.data_type != taken.data_type:
        yield ensemble.error(line, message)
        return
    has_batches = None not in (producer.max_batch_size, consumer.max_batch_size)
    fits = has_batches and dims_fit(
        producer.whole_dims(given.dims), consumer.whole_dims(taken.dims)
    )
    if fits or not given.dims or not taken.dims:
        return
    if not dims_fit(given.dims, taken.dims):
        yield ensemble.error(line, message)
    elif has_batches:
        ends = (producer, consumer) if producer.max_batch_size else (consumer, producer)
        with_batch, without = (end.step or "the ensemble" for end in ends)
        yield ensemble.warning(
            line,
            f"{tensor} has a batch dimension at {with_batch} and none at {without}, so that "
            "requests fail; give both a max_batch_size, or none, or the one without it a first dim "
            "of -1",
        )


def _advice(producer: _End, consumer: _End, what: str) -> str:
    steps = [end for end in (producer, consumer) if end.step]
    names = " and ".join(end.name for end in steps)
    advice = f"give {names} the same {what}"
    if len(steps) < 2:
        advice = f"give the ensemble's tensor the {what} of {names}"
    for end in steps:
        if end.port and end.port.determined_by:
            advice += f", or change {end.port.determined_by} of {end.name}"
    return advice


def _check_class_names(ensemble: Model, called: Sequence[Model]) -> Iterator[Finding]:
    given = ensemble.parameters.get(_LABELS)
    if not given:
        return
    line = ensemble.parameter_line(_LABELS)
    try:
        names = parse_labels(given)
    except InvalidArgumentError:
        yield ensemble.warning(
            line,
            "labels begins with [ and is not a JSON list of texts; write it as "
            '["person", "bicycle"], or as names with commas between them',
        )
        return
    for model in called:
        count = model.parameters.get("num_classes", "")
        if model.stage == POSTPROCESS_BACKEND and count.isdecimal() and int(count) != len(names):
            yield ensemble.warning(
                line,
                f"labels has {len(names)} names, and num_classes of {model.name} is {count}; give "
                "one name for each class, in the order of the ids",
            )
