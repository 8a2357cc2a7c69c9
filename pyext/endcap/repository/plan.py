"""Plan of a repository: all decisions about a network, before anything is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from endcap.errors import EndcapError, InvalidArgumentError
from endcap.repository.errors import MissingOptionError, UnknownOperatorError
from endcap.repository.graph_edit import edit_network
from endcap.repository.head_evidence import Head
from endcap.repository.head_recognition import find_heads, leave_outputs
from endcap.repository.metadata import add_companions
from endcap.repository.network_tensors import NetworkInput, declared_outputs, read_input
from endcap.repository.onnx_file import OnnxFile, read_onnx
from endcap.repository.options import (
    AS_GIVEN,
    MERGE_PARAMETERS,
    NO_HEAD,
    Decision,
    InitOptions,
    decided_values,
)
from endcap.repository.stage_parameters import ClassNames, StageParameters, choose_parameters
from endcap.repository.trial_run import Trial, has_suppression, try_network
from endcap.triton.ensemble import POSTPROCESS_BACKEND, PREPROCESS_BACKEND
from endcap.triton.model_contract import (
    TensorContract,
    model_contract,
    postprocess_contract,
    preprocess_contract,
)
from endcap.triton.tensor_spec import TensorSpec


class ModelNames(NamedTuple):
    """Names of the repository's models; without postprocess its name is ""."""

    preprocess: str
    network: str
    postprocess: str
    ensemble: str

    @property
    def all(self) -> tuple[str, ...]:
        """The models that are there, in the order of the data flow, the ensemble last."""
        return tuple(filter(None, self))


class SummaryRow(NamedTuple):
    """One decision for people: on the terminal and in the README."""

    name: str
    value: str
    reason: str


@dataclass(frozen=True)
class Plan:
    """All decisions; preprocess and postprocess take batches of `options.max_batch`."""

    options: InitOptions
    network: OnnxFile
    image: NetworkInput
    head: Head
    classes: ClassNames
    preprocess: dict[str, Decision]  # the parameters to write
    postprocess: dict[str, Decision]
    network_batch: int  # the largest batch of the network and of the ensemble
    batch_reason: str = ""  # why it is smaller, where the input's shape does not tell
    dropped: tuple[str, ...] = ()  # outputs that are removed from the network

    @property
    def names(self) -> ModelNames:
        """Names of the models, by what the network does."""
        prefix = f"{self.options.name}_" if self.options.name else ""
        network, ensemble = {
            "classification": ("classifier", "classify"),
            "semantic": ("segmenter", "segment"),
            NO_HEAD: ("network", "predict"),
        }.get(self.head.family, ("detector", "detect"))
        return ModelNames(
            preprocess=f"{prefix}preprocess",
            network=f"{prefix}{network}",
            postprocess=f"{prefix}postprocess" if self.has_postprocess else "",
            ensemble=self.options.name or ensemble,
        )

    @property
    def served(self) -> dict[str, TensorSpec]:
        """Outputs of the network's model, by the inputs of postprocess."""
        return {
            part: TensorSpec(output.name, output.data_type, output.served_dims)
            for part, output in self.head.inputs.items()
        }

    @property
    def is_classifier(self) -> bool:
        """Whether the results are classes of the whole image."""
        return self.head.family == "classification"

    @property
    def has_postprocess(self) -> bool:
        """Whether the network's outputs are read; else the ensemble returns them."""
        return self.head.family != NO_HEAD

    @property
    def batch_text(self) -> str:
        """How many images the network takes."""
        if self.image.batch is None and not self.batch_reason:
            return "any number of images at a time"
        count = "one image" if self.network_batch == 1 else f"up to {self.network_batch} images"
        return f"{count} at a time"

    @property
    def batch_advice(self) -> str:
        """How the network is exported for larger batches; "" where no export helps, or none has to.

        endcap suppresses in batches of any size, suppression inside a network seldom does.
        """
        if self.head.is_for_one_image or self.network_batch >= self.options.max_batch:
            return ""
        if self.network.metadata.has_nms:
            return "export it with dynamic=True and leave out nms=True; endcap suppresses itself"
        inside = has_suppression(self.network.model)
        more = " and without suppression inside; endcap suppresses itself" if inside else ""
        return f"export it with a dynamic batch dimension{more}"

    @property
    def our_backends(self) -> dict[str, str]:
        """The backends of endcap that the models run in, by model."""
        names, options, backends = self.names, self.options, {}
        if options.preprocess == "cpp":
            backends[names.preprocess] = PREPROCESS_BACKEND
        if options.runtime == "endcap_onnx":
            backends[names.network] = options.runtime
        if self.has_postprocess and options.postprocess == "cpp":
            backends[names.postprocess] = POSTPROCESS_BACKEND
        return backends

    @property
    def results(self) -> tuple[TensorSpec, ...]:
        """Outputs of the ensemble: of postprocess, or else the network's own."""
        if not self.has_postprocess:
            sides = preprocess_contract(decided_values(self.preprocess)).outputs
            return (
                *(replace(spec, name=name) for name, spec in self.served.items()),
                *(spec for spec in sides if spec.name in ("geometry", "status")),
            )
        made = postprocess_contract(decided_values(self.postprocess)).outputs
        has_labels = self.classes.names is not None
        return tuple(spec for spec in made if has_labels or spec.name != "class_labels")

    def summary(self) -> Iterator[SummaryRow]:
        """Yield all that the configurations depend on, in the order of the data flow."""
        image = self.image
        batch = self.batch_text + (f" ({self.batch_reason})" if self.batch_reason else "")
        order = "channels first" if image.layout == "nchw" else "channels last"
        dims = ", ".join(map(str, image.dims))
        yield SummaryRow("input", f"{image.name} {image.data_type} [{dims}]", f"{order}, {batch}")
        if image.normalization is not None:
            operators = ", ".join(image.normalization.operators)
            reason = f"computed by the network itself ({operators})"
            yield SummaryRow("begins with", str(image.normalization), reason)
        for name, decision in {**self.preprocess, **self.postprocess}.items():
            yield SummaryRow(name, decision.value, decision.reason)
        is_default = self.options.runtime == "endcap_onnx"
        reason = "ONNX Runtime inside the server, no Python" if is_default else AS_GIVEN
        yield SummaryRow("runtime", self.options.runtime, reason)
        if self.has_postprocess:
            names = self.classes.names or ("none",)
            shown = ", ".join(names if len(names) < 5 else (*names[:3], f"... {names[-1]}"))
            yield SummaryRow("class names", shown, self.classes.reason)
        else:
            yield SummaryRow("head", NO_HEAD, "as given: the outputs are returned unread")
        edits = {} if image.has_batch else {image.name: "gets a batch dimension"}
        edits |= {n: f"becomes a constant, {a.tolist()}" for n, a in image.constants.items()}
        edits |= {each.name: str(each.edit) for each in self.head.inputs.values()}
        edits |= dict.fromkeys(self.dropped, "is removed, as it has no dynamic batch dimension")
        yield from (SummaryRow("graph edit", name, edit) for name, edit in edits.items() if edit)
        for location, name in self.network.weight_names().items():
            size = self.network.external_files[location].stat().st_size
            reason = f"a file next to the network, copied as {name} ({size} bytes)"
            yield SummaryRow("weights", location, reason)


def make_plan(path: Path, options: InitOptions, scratch: Path) -> Plan:
    """Read an ONNX file, run it on noise, and decide.

    The plan refers to `scratch`, a folder for the edited network.

    Raises:
        RepositoryError: The network cannot be served, or an option has to be given.
        InvalidArgumentError: An option does not fit the network.
        UnsupportedError: The head is recognised, and postprocess does not read it.
        OSError: A file cannot be read.
    """
    network = read_onnx(path)
    network = replace(network, metadata=add_companions(network.metadata, path))
    image = read_input(network, options.size)
    try:
        plan = _decide(network, image, options, scratch)
    except EndcapError as error:
        if not image.missing_size:
            raise
        # Also where the network does not run at the size that was tried instead.
        more = error.reasons if isinstance(error, MissingOptionError) else ()
        raise MissingOptionError(path, image.missing_size, *more) from error
    if image.missing_size:
        raise MissingOptionError(path, image.missing_size)
    return plan


def _decide(network: OnnxFile, image: NetworkInput, options: InitOptions, scratch: Path) -> Plan:
    # Refuses a size before an image of that size is made.
    preprocess_contract({"size": f"{image.size[0]},{image.size[1]}"})
    trial, batch, batch_reason = _try(network, image, options)
    if options.head == NO_HEAD:
        heads, ambiguity = [leave_outputs(network.path, trial)], ""
        if trial.rows_error:
            batch, batch_reason = 1, "its outputs have as many rows as it finds in an image"
    else:
        ambiguity, heads = find_heads(network, image, trial, options)
    head, chosen = _choose_head(network, image, options, heads, ambiguity)
    head = replace(head, inputs={part: each.with_batch() for part, each in head.inputs.items()})
    fixed = [each.name for each in head.inputs.values() if each.is_dynamic[:1] == (False,)]
    if image.batch == 1 or head.is_for_one_image:
        batch, batch_reason = 1, ""
    elif network.metadata.has_nms and trial.batch_error:
        batch, batch_reason = 1, "the trial run fails or gives other results with two images"
    elif fixed and batch == 1:
        batch_reason = batch_reason or f"the file declares {fixed[0]} for one image"
    else:  # servers refuse to batch with an output of a fixed batch
        freed = {part: each.with_free_batch() for part, each in head.inputs.items()}
        head = replace(head, inputs=freed)
    if head.is_for_one_image or (batch_reason and batch == 1):  # whatever the file declares
        image = replace(image, batch=1)
    # Servers do not batch with such an output, read or not.
    served = {output.name for output in head.inputs.values()}
    dropped = tuple(
        each.name
        for each in trial.outputs
        if image.batch is None and each.is_dynamic[:1] != (True,) and each.name not in served
    )
    if options.tile is not None and head.family in (NO_HEAD, "classification", "semantic"):
        raise InvalidArgumentError(
            f"--tile is for detectors, and the head is {head.family}; leave --tile out"
        )
    if options.tile is not None and batch < 2:
        raise InvalidArgumentError(
            f"--tile is for detectors that take several images at a time, and {network.path} is "
            f"not one{': ' + batch_reason if batch_reason else ''}; leave --tile out, or export "
            "the network with a dynamic batch dimension"
        )
    if chosen.postprocess:
        of_one = {n: each for n, each in chosen.postprocess.items() if n not in MERGE_PARAMETERS}
        contract = model_contract(
            POSTPROCESS_BACKEND,
            decided_values(of_one),
            in_python=options.postprocess == "python",
        )
        head = _with_types(head, contract.tensors["input"])
    return Plan(
        options=options,
        network=edit_network(network, image, head.inputs.values(), scratch, dropped),
        image=image,
        head=head,
        classes=chosen.classes,
        preprocess=chosen.preprocess,
        postprocess=chosen.postprocess,
        network_batch=min(batch, options.max_batch),
        batch_reason=batch_reason,
        dropped=dropped,
    )


def _choose_head(
    network: OnnxFile,
    image: NetworkInput,
    options: InitOptions,
    heads: Sequence[Head],
    ambiguity: str,
) -> tuple[Head, StageParameters]:
    """Return the only head, with its parameters; MissingOptionError lists what any head lacks."""
    missing: dict[str, list[str]] = {}
    for head in heads:
        try:
            chosen = choose_parameters(network, image, head, options)
        except MissingOptionError as error:
            for reason in error.reasons:
                missing.setdefault(reason, []).append(head.family)
        except EndcapError:  # maybe of an option that another head needs
            if not ambiguity:
                raise
    if not ambiguity and not missing:
        return head, chosen
    reasons = [
        reason
        if len(named) == len(heads)
        else f"with --head {' or '.join(dict.fromkeys(named))}: {reason}"
        for reason, named in missing.items()
    ]
    raise MissingOptionError(network.path, *filter(None, (ambiguity, *reasons)))


def _try(network: OnnxFile, image: NetworkInput, options: InitOptions) -> tuple[Trial, int, str]:
    """Return what the network gave, the largest batch that is to be served, and why no more."""
    known, batch, reason = network.metadata.nms_batch, options.max_batch, ""
    if known is not None and known < batch:
        batch = known
        reason = f"by the metadata it was exported with nms=True and batch={known}"
    elif known is None and batch > 1 and image.batch is None and has_suppression(network.model):
        batch, reason = 1, "suppression inside it may be for one image alone"
    try:
        trial = try_network(network, image, options, in_batch=batch > 1)
    except UnknownOperatorError:
        if options.runtime != "tensorrt":
            raise
        return Trial(declared_outputs(network)), batch, reason
    return (trial, 1, trial.one_image) if trial.one_image else (trial, batch, reason)


def _with_types(head: Head, taken: Mapping[str, TensorContract]) -> Head:
    """Return a head whose outputs an edit gives the types and shapes that postprocess takes."""
    inputs = {**head.inputs}
    for part in inputs.keys() & taken.keys():
        output, forms = inputs[part], taken[part].forms
        if len(forms[0].dims) == 1 and not output.dims:
            output = output.edited(replace(output.edit, shape=(1,)))
        if output.data_type not in [form.data_type for form in forms]:
            data_type = forms[0].data_type
            edit = replace(output.edit, data_type=data_type)
            output = replace(output, data_type=data_type, edit=edit)
        inputs[part] = output
    return replace(head, inputs=inputs)
