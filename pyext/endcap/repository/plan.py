"""From an ONNX file to everything that a repository around it says, before a line is written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from endcap.errors import InvalidArgumentError
from endcap.repository.contracts import postprocess_contract, preprocess_contract
from endcap.repository.errors import RepositoryError
from endcap.repository.exporter_notes import ExporterNotes, read_notes
from endcap.repository.head import Finding, Head, choose_head
from endcap.repository.head_recipe import ClassNames, choose_class_names, choose_reading
from endcap.repository.image_recipe import choose_recipe
from endcap.repository.network_input import NetworkInput, read_input
from endcap.repository.network_output import NetworkOutput, declared_outputs, tried_outputs
from endcap.repository.onnx_file import OnnxFile, read_onnx
from endcap.repository.options import InitOptions, Runtime
from endcap.repository.other_heads import (
    propose_classifier,
    propose_pair,
    propose_suppressed,
)
from endcap.repository.tensor_spec import TensorSpec
from endcap.repository.trial_run import try_network
from endcap.repository.yolo_heads import propose_yolo


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

    preprocess, postprocess: the parameters to write, each with its reason. served_outputs: what the
    network's model gives, under the network's own names. network_batch: the largest batch of the
    network and of the ensemble; the steps around it take `options.max_batch`.
    """

    options: InitOptions
    network: OnnxFile
    image: NetworkInput
    head: Head
    classes: ClassNames
    preprocess: dict[str, Finding]
    postprocess: dict[str, Finding]
    served_outputs: tuple[TensorSpec, ...]
    names: ModelNames
    network_batch: int

    @property
    def is_classifier(self) -> bool:
        """Whether it answers with classes of the whole image."""
        return self.head.family == "classification"

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


def make_plan(path: Path, options: InitOptions) -> Plan:
    """Reads a network, tries it, and decides.

    Raises RepositoryError, InvalidArgumentError and UnsupportedError, each with a sentence, for
    what cannot be served or is not clear without a word of the user, and OSError for a file that
    cannot be read.
    """
    network = read_onnx(path)
    notes = read_notes(network.metadata)
    image = read_input(network, notes, options.size)
    outputs = _outputs(network, image, options)
    proposals = tuple(_proposals(network, image, outputs, notes))
    head = choose_head(path, proposals, outputs, options.head)
    classes = choose_class_names(path, head, notes, options)
    plan = Plan(
        options=options,
        network=network,
        image=image,
        head=head,
        classes=classes,
        preprocess=choose_recipe(path, image, head, notes, options),
        postprocess=choose_reading(path, image, head, classes, options),
        served_outputs=tuple(_served(head, options)),
        names=_names(options, is_classifier=head.family == "classification"),
        network_batch=1 if image.batch == 1 else options.max_batch,
    )
    _refuse_unknown_settings(plan)
    return plan


def values(findings: dict[str, Finding]) -> dict[str, str]:
    """Returns the values without the reasons."""
    return {name: finding.value for name, finding in findings.items()}


def _outputs(
    network: OnnxFile, image: NetworkInput, options: InitOptions
) -> tuple[NetworkOutput, ...]:
    try:
        trial = try_network(network.path, image, several=options.max_batch > 1)
    except RepositoryError:
        if options.runtime is not Runtime.tensorrt:
            raise
        return declared_outputs(network)  # it may have operators that only TensorRT has
    return tried_outputs(trial)


def _proposals(
    network: OnnxFile,
    image: NetworkInput,
    outputs: tuple[NetworkOutput, ...],
    notes: ExporterNotes,
) -> Iterator[Head]:
    suppressed = tuple(propose_suppressed(outputs))
    if suppressed:  # its boxes and scores would pass for a pair
        yield from suppressed
        return
    yield from propose_pair(outputs)
    yield from propose_yolo(outputs, image.size, notes)
    yield from propose_classifier(network, outputs)


def _served(head: Head, options: InitOptions) -> Iterator[TensorSpec]:
    """What the network's model has to give for postprocess to take it as it comes."""
    contract = postprocess_contract({"head": head.family})
    taken = {spec.name: spec for spec in contract.inputs}
    for part, output in head.inputs.items():
        wanted, dims = taken[part].data_type, output.dims
        if wanted == "FP32" and output.data_type == "FP16":
            wanted = "FP16"
        if taken[part].dims == (1,) or part == "logits":
            dims = output.dims[:1] or (1,)
        if options.runtime is not Runtime.python and (wanted, dims) != (
            output.data_type,
            output.dims,
        ):
            raise RepositoryError(
                f"the network gives {output}, and postprocess takes {wanted} {list(dims)} for its "
                f"input {part}; --runtime python converts it on the way"
            )
        yield TensorSpec(output.name, wanted, dims)


def _names(options: InitOptions, *, is_classifier: bool) -> ModelNames:
    prefix = f"{options.name}_" if options.name else ""
    network, ensemble = ("classifier", "classify") if is_classifier else ("detector", "detect")
    return ModelNames(
        preprocess=f"{prefix}preprocess",
        network=f"{prefix}{network}",
        postprocess=f"{prefix}postprocess",
        ensemble=options.name or ensemble,
    )


def _refuse_unknown_settings(plan: Plan) -> None:
    known = {**preprocess_contract({}).parameters, **postprocess_contract({}).parameters}
    for name in plan.options.settings:
        if name not in known:
            raise InvalidArgumentError(
                f"--set {name}: neither preprocess nor postprocess has such a parameter; they have "
                f"{', '.join(known)}"
            )
