"""Settings of a model repository that are searched, their values, and configurations with them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from endcap.errors import InvalidArgumentError
from endcap.server.models import choose_models
from endcap.tools.config_changes import ConfigChange
from endcap.triton.cascade_settings import CascadeSettings, models_called, parse_routes
from endcap.triton.config_edits import set_field, set_parameter
from endcap.triton.ensemble import POSTPROCESS_BACKEND, PREPROCESS_BACKEND
from endcap.triton.errors import ServerError
from endcap.triton.model_config import CONFIG_NAME, parse_config, read_config
from endcap.triton.model_folder import ModelFolder, read_repository

NETWORK_BACKEND = "endcap_onnx"
CASCADE_BACKEND = "endcap_bls"
CLIENT = ""  # the model of a change that is the client's, not one of config.pbtxt
SHARED_MEMORY = "shared_memory"

_ONNX_BACKENDS = (NETWORK_BACKEND, "onnxruntime")
# Of these it is known that they call no other model by themselves, but for those that a cascade's
# parameters name.
_CLOSED_BACKENDS = (
    *_ONNX_BACKENDS, PREPROCESS_BACKEND, POSTPROCESS_BACKEND, CASCADE_BACKEND, "tensorrt",
    "openvino", "pytorch",
)  # fmt: skip
_MANY = 3  # models that are counted, not named
_MAX_BATCH, _INSTANCES = "max_batch_size", "instances"
_DELAY, _PREFERRED = "max_queue_delay_microseconds", "preferred_batch_size"
_THREADS, _RUN_THREADS = "threads", "intra_op_thread_count"
_FIELDS: Mapping[str, tuple[str, ...]] = {
    _MAX_BATCH: ("max_batch_size",),
    _INSTANCES: ("instance_group", "count"),
    _DELAY: ("dynamic_batching", _DELAY),
    _PREFERRED: ("dynamic_batching", _PREFERRED),
}


class Change(NamedTuple):
    """A value that differs from that of the repository.

    Attributes:
        model: Its name; CLIENT for a setting of the client.
        setting: A parameter of the model, or a key of the table of fields above.
        value: As config.pbtxt has it.
    """

    model: str
    setting: str
    value: str

    def __str__(self) -> str:
        return f"{self.model or 'client'} {self.setting} {self.value}"


# The changes in the order of models and settings; none is the repository as it is.
Configuration = tuple[Change, ...]
AS_IT_IS: Configuration = ()


def describe(configuration: Configuration) -> str:
    """Return the changes as one line; those of one value to several models once."""
    models: dict[tuple[str, str], list[str]] = {}
    for change in configuration:
        models.setdefault((change.setting, change.value), []).append(change.model or "client")
    parts = [
        f"{'+'.join(of)} {setting} {value}"
        if len(of) < _MANY
        else f"{setting} {value} of {len(of)} models"
        for (setting, value), of in models.items()
    ]
    return "; ".join(parts) or "as it is"


@dataclass(frozen=True)
class TunedModel:
    """A model whose config.pbtxt may be changed: its folder, the file's text, and what it says."""

    folder: ModelFolder
    text: str
    config: Any  # inference.ModelConfig

    @property
    def name(self) -> str:
        """The name by which the server knows it."""
        return self.folder.path.name

    @property
    def is_ensemble(self) -> bool:
        """Whether it only passes tensors between other models."""
        return bool(self.config.ensemble_scheduling.step)

    @property
    def file(self) -> Path:
        """Its config.pbtxt."""
        return self.folder.path / CONFIG_NAME

    def value(self, setting: str) -> str:
        """Return the value of a setting in force, as config.pbtxt has it; "" for none."""
        if setting == _MAX_BATCH:
            return str(self.config.max_batch_size)
        if setting == _INSTANCES:
            groups = self.config.instance_group
            return str((groups[0].count if groups else 0) or 1)
        if setting == _DELAY:
            return str(self.config.dynamic_batching.max_queue_delay_microseconds)
        if setting == _PREFERRED:
            return _list(self.config.dynamic_batching.preferred_batch_size)
        given = self.config.parameters
        return str(given[setting].string_value) if setting in given else ""


@dataclass(frozen=True)
class Pipeline:
    """The model that clients call, with the steps of an ensemble.

    Attributes:
        repository: The folder of all models.
        model: The name of the model that clients call.
        models: Those whose configurations are searched, that model among them.
        served: Names for the server; none means the whole repository, for models that may call
            others by themselves.
        calling: Those models.
        folders: Of all models that are served.
    """

    repository: Path
    model: str
    models: tuple[TunedModel, ...]
    served: tuple[str, ...]
    calling: tuple[str, ...]
    folders: tuple[ModelFolder, ...]

    def texts(self, configuration: Configuration) -> dict[str, str]:
        """Return the texts of config.pbtxt that differ in a configuration, by model.

        Raises:
            ServerError: A text has been changed otherwise than meant.
        """
        by_name = {model.name: model for model in self.models}
        texts: dict[str, str] = {}
        for change in configuration:
            if change.model != CLIENT:
                before = texts.get(change.model, by_name[change.model].text)
                texts[change.model] = _with_change(before, change)
        for name, text in texts.items():
            _check(by_name[name], text, [each for each in configuration if each.model == name])
        return texts

    def changes(self, configuration: Configuration) -> list[ConfigChange]:
        """Return the changes of config.pbtxt files that a configuration takes."""
        by_name = {model.name: model for model in self.models}
        return [
            ConfigChange(by_name[name].file, by_name[name].text, text)
            for name, text in sorted(self.texts(configuration).items())
        ]


def client_options(configuration: Configuration) -> list[str]:
    """Return what clients and the server have to be told, which no config.pbtxt holds."""
    shared = any(change.model == CLIENT for change in configuration)
    return ["--shm system (the server needs --client-shared-memory)"] if shared else []


def read_pipeline(repository: Path, model: str) -> Pipeline:
    """Return the pipeline behind a model: steps of ensembles, and models that a cascade calls.

    Raises:
        ServerError: It is not in the repository, or a config.pbtxt cannot be read.
        InvalidArgumentError: The parameters of a cascade are wrong.
    """
    everything = read_repository(repository)
    names = [model]
    while True:
        folders = choose_models(everything, names)
        tuned = tuple(_tuned(folder) for folder in folders if (folder.path / CONFIG_NAME).is_file())
        called = {name for each in tuned for name in _called(each)}
        found = sorted({each.path.name for each in everything} & called - set(names))
        if not found:
            break
        names += found
    calling = tuple(
        each.name
        for each in tuned
        if not (each.is_ensemble or each.folder.backend in _CLOSED_BACKENDS)
    )
    closed = not calling and len(tuned) == len(folders)
    served = tuple(names) if closed else ()
    return Pipeline(
        repository, model, tuned, served, calling, tuple(folders if closed else everything)
    )


def _called(model: TunedModel) -> list[str]:
    """Return the models that a cascade calls."""
    routes = model.value("classifiers")
    if model.folder.backend != CASCADE_BACKEND and not routes:
        return []
    try:
        default = CascadeSettings(classifiers=parse_routes(routes))
    except InvalidArgumentError:
        if model.folder.backend == CASCADE_BACKEND:
            raise
        return []  # a parameter of its own
    detect_model = model.value("detect_model") or default.detect_model
    return [name for _, name in models_called(replace(default, detect_model=detect_model))]


def _tuned(folder: ModelFolder) -> TunedModel:
    file = folder.path / CONFIG_NAME
    try:
        text = read_config(file)
    except OSError as error:
        raise ServerError(f"{file} cannot be read: {error.strerror}") from error
    return TunedModel(folder, text, parse_config(text, file))


def _with_change(text: str, change: Change) -> str:
    try:
        if change.setting in _FIELDS:
            return set_field(text, _FIELDS[change.setting], change.value)
        return set_parameter(text, change.setting, change.value)
    except InvalidArgumentError as error:
        raise ServerError(f"config.pbtxt of {change.model}: {error}") from error


def _check(model: TunedModel, text: str, changes: Iterable[Change]) -> None:
    after = TunedModel(model.folder, text, parse_config(text, model.file))
    for change in changes:
        if after.value(change.setting) != change.value:
            raise ServerError(
                f"{model.file}: {change.setting} cannot be set to {change.value} in this text"
            )


@dataclass(frozen=True)
class Knob:
    """Something to turn: alternatives, each the changes that it takes."""

    name: str
    alternatives: tuple[Configuration, ...]


def cpu_count() -> int:
    """Return the number of CPUs that this process, and so the server, may use."""
    return len(os.sched_getaffinity(0))


def combine(before: Configuration, changes: Iterable[Change], pipeline: Pipeline) -> Configuration:
    """Return a configuration with more changes; values of the repository are none."""
    models = {model.name: model for model in pipeline.models}
    values = {(each.model, each.setting): each for each in (*before, *changes)}
    return tuple(
        sorted(
            each
            for each in values.values()
            if each.model == CLIENT or models[each.model].value(each.setting) != each.value
        )
    )


def find_knobs(pipeline: Pipeline, *, cpus: int, batch: int, shared_memory: bool) -> list[Knob]:
    """Return what can be turned in a pipeline, what has most effect first.

    Args:
        pipeline: The models.
        cpus: The number of CPUs.
        batch: Images of a request; no model gets a smaller max_batch_size.
        shared_memory: Whether clients on the server's machine may be recommended shared memory.
    """
    models = [model for model in pipeline.models if not model.is_ensemble]
    networks = [
        each
        for each in models
        if each.folder.backend == NETWORK_BACKEND or not each.folder.backend.startswith("endcap_")
    ]
    before = [each for each in models if each.folder.backend == PREPROCESS_BACKEND]
    after = [each for each in models if each.folder.backend == POSTPROCESS_BACKEND]
    knobs = [
        *(_run_threads(model, cpus) for model in networks),
        *(_core_threads(model, cpus) for model in before),
        *(_instances(model, {2, cpus}) for model in networks),
        Knob("shared memory", ((Change(CLIENT, SHARED_MEMORY, "system"),),) * shared_memory),
        *(_batching(model) for model in networks),
        _largest_batch(pipeline, batch),
        *(_core_threads(model, cpus) for model in after),
        *(_queue_delay(model) for model in (*before, *after)),
        *(_instances(model, {2}) for model in (*before, *after)),
    ]
    return [knob for knob in knobs if knob.alternatives]


def _run_threads(model: TunedModel, cpus: int) -> Knob:
    name = f"ONNX Runtime threads of {model.name}"
    if model.folder.backend not in _ONNX_BACKENDS:
        return Knob(name, ())
    alternatives = list(_values(model, _RUN_THREADS, {1, max(1, cpus // 2), cpus}, same={}))
    if model.folder.backend == NETWORK_BACKEND:
        alternatives += _values(model, "max_concurrent_runs", {1}, same={})
    return Knob(name, tuple(alternatives))


def _core_threads(model: TunedModel, cpus: int) -> Knob:
    # 0 and none are all CPUs.
    same = {"": cpus, "0": cpus}
    values = {1, max(1, cpus // 2), cpus, 2 * cpus}
    return Knob(f"threads of {model.name}", tuple(_values(model, _THREADS, values, same=same)))


def _instances(model: TunedModel, values: set[int]) -> Knob:
    groups = model.config.instance_group
    # Several groups, or one with a list of GPUs, are somebody's plan for this machine.
    planned = len(groups) > 1 or any(group.gpus for group in groups)
    found = () if planned else tuple(_values(model, _INSTANCES, values - {1}, same={}))
    return Knob(f"instances of {model.name}", found)


def _batching(model: TunedModel) -> Knob:
    name = f"batching of {model.name}"
    if model.config.max_batch_size < 2:
        return Knob(name, ())
    size = min(4, model.config.max_batch_size)
    waiting = (Change(model.name, _DELAY, "1000"), Change(model.name, _PREFERRED, f"[ {size} ]"))
    alternatives: list[Configuration] = []
    merged: Configuration = ()
    if model.folder.backend == NETWORK_BACKEND and model.value("merge_requests") != "1":
        merged = (Change(model.name, "merge_requests", "1"),)
        alternatives.append(merged)
    alternatives += _queue_delay(model).alternatives
    alternatives.append((*merged, *waiting))
    return Knob(name, tuple(alternatives))


def _queue_delay(model: TunedModel) -> Knob:
    name = f"queue delay of {model.name}"
    if model.config.max_batch_size < 2:
        return Knob(name, ())
    return Knob(name, tuple(_values(model, _DELAY, {0, 500, 2000}, same={})))


def _largest_batch(pipeline: Pipeline, batch: int) -> Knob:
    """Return max_batch_size of all models: that of an ensemble is bound to those of its steps."""
    models = [model for model in pipeline.models if model.config.max_batch_size > 0]
    alternatives = tuple(
        tuple(Change(model.name, _MAX_BATCH, str(size)) for model in models)
        for size in (1, 4, 8, 32)
        if size >= batch and any(model.config.max_batch_size != size for model in models)
    )
    return Knob("max_batch_size", alternatives if models else ())


def _values(
    model: TunedModel, setting: str, values: set[int], *, same: Mapping[str, int]
) -> Iterator[Configuration]:
    """Yield a change to each value that is not in force; `same` has the numbers of other texts."""
    now = model.value(setting)
    for value in sorted(values):
        if str(value) != now and same.get(now) != value:
            yield (Change(model.name, setting, str(value)),)


def _list(values: Iterable[int]) -> str:
    return f"[ {', '.join(map(str, values))} ]"
