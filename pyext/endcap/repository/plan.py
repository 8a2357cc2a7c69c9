"""From an ONNX file to everything that a repository around it says, before a line is written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from endcap.errors import InvalidArgumentError
from endcap.repository.class_names import ClassNames, choose_class_names
from endcap.repository.decision import Decision
from endcap.repository.errors import RepositoryError
from endcap.repository.exporter_notes import read_notes
from endcap.repository.half_precision import to_half
from endcap.repository.head import Head, choose_head
from endcap.repository.head_pairs import propose_pair
from endcap.repository.head_recipe import choose_reading
from endcap.repository.hints import Hints, collect_hints
from endcap.repository.image_recipe import choose_recipe
from endcap.repository.network_input import NetworkInput, read_input
from endcap.repository.network_output import NetworkOutput, declared_outputs, tried_outputs
from endcap.repository.network_process import UnknownOperatorError
from endcap.repository.onnx_file import OnnxFile, read_onnx
from endcap.repository.options import End, FirstEnd, InitOptions, Runtime
from endcap.repository.other_heads import propose_classifier, propose_suppressed
from endcap.repository.served_outputs import NetworkModel, choose_runtime, served_outputs
from endcap.repository.trial_run import try_network
from endcap.repository.yolo_heads import propose_yolo
from endcap.triton.stage_contract import postprocess_contract, preprocess_contract
from endcap.triton.tensor_spec import TensorSpec

# Decided before the others, and by more than a value.
_HAVE_OPTIONS = {
    "head": "--head",
    "num_classes": "--num-classes or --labels",
    "preset": "--preset",
    "size": "--size",
}


@dataclass(frozen=True)
class ModelNames:
    """What the models of the repository are called."""

    preprocess: str
    network: str
    postprocess: str
    ensemble: str


@dataclass(frozen=True)
class Plan:
    """All decisions.

    Attributes:
        preprocess, postprocess: The parameters to write, each with its reason.
        model: What runs the network, and what that gives under the network's own names.
        network_batch: The largest batch of the network and of the ensemble; the steps around it
            take `options.max_batch`.
    """

    options: InitOptions
    network: OnnxFile
    image: NetworkInput
    head: Head
    classes: ClassNames
    preprocess: dict[str, Decision]
    postprocess: dict[str, Decision]
    model: NetworkModel
    names: ModelNames
    network_batch: int

    @property
    def runtime(self) -> Runtime:
        """What runs the network."""
        return self.model.runtime

    @property
    def served(self) -> tuple[TensorSpec, ...]:
        """What the network's model gives."""
        return self.model.outputs

    @property
    def is_classifier(self) -> bool:
        """Whether it answers with classes of the whole image."""
        return self.head.family == "classification"

    @property
    def fits_onnxruntime(self) -> bool:
        """Whether Triton's own backend for ONNX Runtime could run the network's file as it is."""
        try:
            path, runtime = self.network.path, Runtime.onnxruntime
            tuple(served_outputs(path, self.image, self.head, runtime, values(self.postprocess)))
        except RepositoryError:
            return False
        return self.image.batch is None or self.runtime is Runtime.endcap_onnx

    @property
    def our_backends(self) -> dict[str, str]:
        """The models that run in endcap's compiled backends, and in which."""
        names, options = self.names, self.options
        needed = (
            (names.preprocess, "endcap_preprocess", options.preprocess is FirstEnd.cpp),
            (names.network, "endcap_onnx", self.runtime is Runtime.endcap_onnx),
            (names.postprocess, "endcap_postprocess", options.postprocess is End.cpp),
        )
        return {model: backend for model, backend, is_needed in needed if is_needed}

    @property
    def images(self) -> TensorSpec:
        """What preprocess makes for the network."""
        return preprocess_contract(values(self.preprocess)).outputs[0]

    @property
    def results(self) -> tuple[TensorSpec, ...]:
        """What postprocess answers, and so the ensemble."""
        made = postprocess_contract(values(self.postprocess)).outputs
        if not self.is_classifier or self.classes.names is None:
            return made
        (top_k,) = (spec.dims for spec in made if spec.name == "class_ids")
        return (*made, TensorSpec("class_labels", "STRING", top_k))


def make_plan(path: Path, options: InitOptions, scratch: Path) -> Plan:
    """Read a network, tries it, and decides.

    Raises RepositoryError, InvalidArgumentError and UnsupportedError, each with a message, for
    what cannot be served or is not clear without a word of the user, and OSError for a file that
    cannot be read.

    Args:
        scratch: A folder for the network in half precision, which the plan refers to.
    """
    _refuse_settings(options)
    network = read_onnx(path)
    if options.fp16:
        network = to_half(network, scratch, options.trial_limits)
    notes = read_notes(network.metadata)
    image = read_input(network, notes, options.size)
    preprocess_contract(
        {"size": f"{image.size[0]},{image.size[1]}"}
    )  # before such a tensor is made
    outputs = _outputs(network, image, options)
    hints = collect_hints(image.size, notes, options)
    proposals = tuple(_proposals(network, outputs, hints))
    head = choose_head(path, proposals, outputs, options.head)
    classes = choose_class_names(path, head, notes, options)
    recipe = choose_recipe(path, image, head, notes, options)
    reading = choose_reading(path, image, head, classes, options)
    return Plan(
        options=options,
        network=network,
        image=image,
        head=head,
        classes=classes,
        preprocess=recipe,
        postprocess=reading,
        model=choose_runtime(path, image, head, options.runtime, values(reading)),
        names=_names(options, is_classifier=head.family == "classification"),
        network_batch=1 if image.batch == 1 else options.max_batch,
    )


def values(decisions: dict[str, Decision]) -> dict[str, str]:
    """Return the values without the reasons."""
    return {name: decision.value for name, decision in decisions.items()}


def _outputs(
    network: OnnxFile, image: NetworkInput, options: InitOptions
) -> tuple[NetworkOutput, ...]:
    try:
        trial = try_network(
            network, image, several=options.max_batch > 1, limits=options.trial_limits
        )
    except UnknownOperatorError:
        if options.runtime is not Runtime.tensorrt:
            raise
        return declared_outputs(network)
    return tried_outputs(trial)


def _proposals(
    network: OnnxFile, outputs: tuple[NetworkOutput, ...], hints: Hints
) -> Iterator[Head]:
    suppressed = tuple(propose_suppressed(outputs))
    if suppressed:  # its boxes and scores would pass for a pair
        yield from suppressed
        return
    pairs = tuple(propose_pair(outputs, hints))
    if pairs:
        yield from pairs
        return
    yield from propose_yolo(outputs, hints)
    is_told = hints.wanted == "classification" or hints.notes.task == "classify"
    yield from propose_classifier(network, outputs, hints.num_classes, is_told=is_told)


def _names(options: InitOptions, *, is_classifier: bool) -> ModelNames:
    prefix = f"{options.name}_" if options.name else ""
    network, ensemble = ("classifier", "classify") if is_classifier else ("detector", "detect")
    return ModelNames(
        preprocess=f"{prefix}preprocess",
        network=f"{prefix}{network}",
        postprocess=f"{prefix}postprocess",
        ensemble=options.name or ensemble,
    )


def _refuse_settings(options: InitOptions) -> None:
    known = {**preprocess_contract({}).parameters, **postprocess_contract({}).parameters}
    for name in options.settings:
        if name in _HAVE_OPTIONS:
            raise InvalidArgumentError(f"--set {name}: say it with {_HAVE_OPTIONS[name]}")
        if name not in known:
            raise InvalidArgumentError(
                f"--set {name}: neither preprocess nor postprocess has such a parameter; they have "
                f"{', '.join(known)}"
            )
