"""Plan of a repository: all decisions about a network, before anything is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path

from endcap.errors import EndcapError, InvalidArgumentError
from endcap.parameters import suggestion
from endcap.repository.companion_config import CompanionConfig, read_companion, read_recipe
from endcap.repository.errors import MissingOptionError, UnknownOperatorError
from endcap.repository.graph_edit import edit_network, edited_output
from endcap.repository.head_evidence import Head, collect_hints
from endcap.repository.head_families import NO_HEAD
from endcap.repository.head_recognition import (
    AmbiguousHeadError,
    leave_outputs,
    recognize_head,
)
from endcap.repository.network_tensors import (
    NetworkInput,
    OutputEdit,
    declared_outputs,
    read_input,
)
from endcap.repository.onnx_file import OnnxFile, read_onnx
from endcap.repository.options import (
    AS_GIVEN,
    Decision,
    InitOptions,
    PostprocessBackend,
    PreprocessBackend,
    Runtime,
    decided_values,
)
from endcap.repository.postprocess_parameters import (
    ClassNames,
    choose_class_names,
    choose_postprocess_parameters,
    find_missing_options,
)
from endcap.repository.preprocess_parameters import choose_preprocess_parameters
from endcap.repository.trial_run import (
    LargestBatch,
    Trial,
    count_score_columns,
    find_nms_boxes,
    try_network,
)
from endcap.triton.model_contract import (
    TensorContract,
    postprocess_contract,
    preprocess_contract,
)
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
    """Names of the repository's models; without postprocess its name is ""."""

    preprocess: str
    network: str
    postprocess: str
    ensemble: str

    @property
    def all(self) -> tuple[str, ...]:
        """The models that are there, in the order of the data flow, the ensemble last."""
        return tuple(name for name in astuple(self) if name)


@dataclass(frozen=True)
class SummaryRow:
    """One decision for people: on the terminal and in the README."""

    name: str
    value: str
    reason: str


@dataclass(frozen=True)
class Plan:
    """All decisions.

    Attributes:
        preprocess: The parameters to write, each with its reason.
        postprocess: Likewise.
        network_batch: The largest batch of the network and of the ensemble; preprocess and
            postprocess take `options.max_batch`.
        is_for_one_image: Whether no export of the network would take batches.
        dropped: Outputs that are removed from the network.
        batch_reason: Why it is smaller than `options.max_batch`, "" where the input's shape tells.
    """

    options: InitOptions
    network: OnnxFile
    image: NetworkInput
    head: Head
    classes: ClassNames
    preprocess: dict[str, Decision]
    postprocess: dict[str, Decision]
    names: ModelNames
    network_batch: int
    is_for_one_image: bool = False
    batch_reason: str = ""
    dropped: tuple[str, ...] = ()

    @property
    def runtime(self) -> Runtime:
        """What runs the network."""
        return self.options.runtime

    @property
    def served(self) -> tuple[TensorSpec, ...]:
        """Outputs of the network's model."""
        return tuple(
            TensorSpec(output.name, output.data_type, output.served_dims)
            for output in self.head.inputs.values()
        )

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
        if self.network_batch == 1:
            return "one image at a time"
        return f"up to {self.network_batch} images at a time"

    @property
    def batch_advice(self) -> str:
        """How the network is exported for larger batches; "" where no export helps, or none has to.

        endcap suppresses in batches of any size, suppression inside a network seldom does.
        """
        if self.is_for_one_image or self.network_batch >= self.options.max_batch:
            return ""
        if self.network.metadata.has_nms:
            return "export it with dynamic=True and leave out nms=True; endcap suppresses itself"
        dynamic = "export it with a dynamic batch dimension"
        if self.batch_reason and find_nms_boxes(self.network.model):
            return f"{dynamic} and without suppression inside; endcap suppresses itself"
        if self.image.batch is None:
            return ""
        return f"{dynamic} (dynamic_axes of torch.onnx.export, dynamic=True of Ultralytics)"

    @property
    def our_backends(self) -> dict[str, str]:
        """The models that run in endcap's compiled backends, and in which."""
        names, options = self.names, self.options
        needed = (
            (names.preprocess, "endcap_preprocess", options.preprocess is PreprocessBackend.cpp),
            (names.network, "endcap_onnx", self.runtime is Runtime.endcap_onnx),
            (
                names.postprocess,
                "endcap_postprocess",
                self.has_postprocess and options.postprocess is PostprocessBackend.cpp,
            ),
        )
        return {model: backend for model, backend, is_needed in needed if is_needed}

    @property
    def results(self) -> tuple[TensorSpec, ...]:
        """Outputs of the ensemble: of postprocess, or else the network's own."""
        if not self.has_postprocess:
            sides = preprocess_contract(decided_values(self.preprocess)).outputs
            own = zip(self.head.inputs, self.served, strict=True)
            return (
                *(TensorSpec(name, spec.data_type, spec.dims) for name, spec in own),
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
        for name, decision in self.preprocess.items():
            yield SummaryRow(name, decision.value, decision.reason)
        for name, decision in self.postprocess.items():
            yield SummaryRow(name, decision.value, decision.reason)
        is_default = self.runtime is Runtime.endcap_onnx
        reason = "ONNX Runtime inside the server, no Python" if is_default else AS_GIVEN
        yield SummaryRow("runtime", self.runtime.value, reason)
        if self.has_postprocess:
            names = self.classes.names
            value = "none" if names is None else _shortened(names)
            yield SummaryRow("class names", value, self.classes.reason)
        else:
            yield SummaryRow("head", NO_HEAD, "as given: the outputs are returned unread")
        if not image.has_batch:
            yield SummaryRow("graph edit", image.name, "gets a batch dimension")
        for name, array in image.constants.items():
            yield SummaryRow("graph edit", name, f"becomes a constant, {array.tolist()}")
        for output in self.head.inputs.values():
            if output.edit != OutputEdit():
                yield SummaryRow("graph edit", output.name, str(output.edit))
        for name in self.dropped:
            yield SummaryRow("graph edit", name, "is removed, as it has no dynamic batch dimension")
        for location, name in self.network.weight_names().items():
            size = self.network.external_files[location].stat().st_size
            yield SummaryRow(
                "weights", location, f"a file next to the network, copied as {name} ({size} bytes)"
            )


def make_plan(path: Path, options: InitOptions, scratch: Path) -> Plan:
    """Read a network, run it on noise, and decide.

    Args:
        path: The ONNX file.
        options: What the user gives; wins over what is recognised.
        scratch: A folder for the edited network, to which the plan refers.

    Raises:
        RepositoryError: The network cannot be served, or an option has to be given.
        InvalidArgumentError: An option does not fit the network.
        UnsupportedError: The head is recognised, and postprocess does not read it.
        OSError: A file cannot be read.
    """
    _refuse_settings(options)
    network, companion = read_onnx(path), read_companion(path)
    network = replace(network, metadata=companion.complete(network.metadata))
    if options.preprocess_from is not None:
        companion = read_recipe(options.preprocess_from)
    image = read_input(network, options.size)
    try:
        plan = _decide(network, image, companion, options, scratch)
    except EndcapError as error:
        if not image.missing_size:
            raise
        # Also where the network does not run at the size that was tried instead.
        more = error.reasons if isinstance(error, MissingOptionError) else ()
        raise MissingOptionError(path, image.missing_size, *more) from error
    if image.missing_size:
        raise MissingOptionError(path, image.missing_size)
    return plan


def _decide(
    network: OnnxFile,
    image: NetworkInput,
    companion: CompanionConfig,
    options: InitOptions,
    scratch: Path,
) -> Plan:
    """Return the plan for a network whose image input is known."""
    path, metadata = network.path, network.metadata
    # Refuses a size before such a tensor is made.
    preprocess_contract({"size": f"{image.size[0]},{image.size[1]}"})
    largest, trial = _try(network, image, options)
    if options.head == NO_HEAD:
        head = leave_outputs(path, trial)
        if trial.rows_error:
            largest = LargestBatch(1, "its outputs have as many rows as it finds in an image")
    else:
        hints = collect_hints(
            network,
            image.size,
            options,
            lambda scores: count_score_columns(network, image, scores, options.trial_limits),
        )
        try:
            head = recognize_head(path, trial, hints)
        except AmbiguousHeadError as error:
            more = _missing_with_each(error.heads, network, image, companion, options)
            raise MissingOptionError(path, str(error), *more) from error
    inputs = {
        part: each if each.has_batch else edited_output(each, OutputEdit(adds_batch=True))
        for part, each in head.inputs.items()
    }
    head = replace(head, inputs=inputs)
    is_for_one = any(output.edit.adds_batch for output in inputs.values())
    if image.batch == 1 or is_for_one:
        largest = LargestBatch(1)
    elif metadata.has_nms and trial.batch_error:
        largest = LargestBatch(1, "the trial run fails or gives other results with two images")
    if is_for_one or (largest.reason and largest.images == 1):  # whatever the file declares
        image = replace(image, batch=1)
    image, head, largest = _with_batch_as_declared(image, head, largest)
    if missing := _missing_options(network, image, head, companion, options):
        raise MissingOptionError(path, *missing)
    # Servers do not batch with such an output, read or not.
    served = {output.name for output in head.inputs.values()}
    dropped = tuple(
        each.name
        for each in trial.outputs
        if image.batch is None and each.is_dynamic[:1] != (True,) and each.name not in served
    )
    classes, postprocess = ClassNames(None, ""), {}
    preprocess = choose_preprocess_parameters(network, image, head, companion, options)
    if head.family != NO_HEAD:
        classes = choose_class_names(path, head, metadata, options)
        postprocess = choose_postprocess_parameters(path, image, head, classes, options)
        contract = postprocess_contract(decided_values(postprocess))
        head = _with_types(head, contract.tensors["input"])
    return Plan(
        options=options,
        network=edit_network(network, image, head.inputs.values(), scratch, dropped),
        image=image,
        head=head,
        classes=classes,
        preprocess=preprocess,
        postprocess=postprocess,
        names=_names(options, head.family),
        network_batch=min(largest.images, options.max_batch),
        is_for_one_image=is_for_one,
        batch_reason=largest.reason,
        dropped=dropped,
    )


def _with_types(head: Head, taken: Mapping[str, TensorContract]) -> Head:
    """Return a head whose outputs an edit gives the types and shapes that postprocess takes."""
    inputs = {}
    for part, output in head.inputs.items():
        forms, edited = taken[part].forms if part in taken else (), output
        if forms and len(forms[0].dims) == 1 and not output.dims:
            edited = edited_output(output, replace(output.edit, shape=(1,)))
        if forms and output.data_type not in [form.data_type for form in forms]:
            data_type = forms[0].data_type
            edit = replace(edited.edit, data_type=data_type)
            edited = replace(edited, data_type=data_type, edit=edit)
        inputs[part] = edited
    return replace(head, inputs=inputs)


def _missing_options(
    network: OnnxFile,
    image: NetworkInput,
    head: Head,
    companion: CompanionConfig,
    options: InitOptions,
) -> list[str]:
    """Return messages, each with what nothing tells and what to give."""
    missing: list[str] = []
    if head.family != NO_HEAD:
        classes = choose_class_names(network.path, head, network.metadata, options)
        missing += find_missing_options(network.path, head, classes, options)
    try:
        choose_preprocess_parameters(network, image, head, companion, options)
    except MissingOptionError as error:
        missing += error.reasons
    return missing


def _missing_with_each(
    heads: Sequence[Head],
    network: OnnxFile,
    image: NetworkInput,
    companion: CompanionConfig,
    options: InitOptions,
) -> Iterator[str]:
    """Yield what has to be given besides --head, and for which of the heads if not for all.

    Not what only one of several heads of a family lacks, as --head does not choose among these.
    """
    families: dict[str, list[str]] = {}
    for head in heads:
        try:
            reasons = _missing_options(network, image, head, companion, options)
        except EndcapError:  # of an option that another head may need
            continue
        for reason in reasons:
            families.setdefault(reason, []).append(head.family)
    counts = Counter(head.family for head in heads)
    for reason, named in families.items():
        if len(named) == len(heads):
            yield reason
        elif all(named.count(family) == counts[family] for family in named):
            yield f"with --head {' or '.join(dict.fromkeys(named))}: {reason}"


def _with_batch_as_declared(
    image: NetworkInput, head: Head, largest: LargestBatch
) -> tuple[NetworkInput, Head, LargestBatch]:
    """Return them so that a file that takes batches declares no output for one image.

    Servers refuse to batch with such an output. Where several images are served the declaration is
    edited, and it counts where they are not.
    """
    fixed = [
        each for each in head.inputs.values() if each.has_batch and each.is_dynamic[:1] == (False,)
    ]
    if image.batch is not None or not fixed:
        return image, head, largest
    if largest.images == 1:
        reason = f"the file declares {fixed[0].name} for one image"
        return replace(image, batch=1), head, LargestBatch(1, reason)
    inputs = {
        part: replace(
            each,
            is_dynamic=(True, *each.is_dynamic[1:]),
            edit=replace(each.edit, frees_batch=True),
        )
        if any(each is one for one in fixed)
        else each
        for part, each in head.inputs.items()
    }
    return image, replace(head, inputs=inputs), largest


def _try(
    network: OnnxFile, image: NetworkInput, options: InitOptions
) -> tuple[LargestBatch, Trial]:
    """Return the largest batch that is to be served, and what the network gave."""
    metadata, largest = network.metadata, LargestBatch(options.max_batch)
    if metadata.nms_batch is not None and metadata.nms_batch < options.max_batch:
        reason = f"by the metadata it was exported with nms=True and batch={metadata.nms_batch}"
        largest = LargestBatch(metadata.nms_batch, reason)
    try:
        trial = try_network(network, image, images=largest.images, limits=options.trial_limits)
    except UnknownOperatorError:
        if options.runtime is not Runtime.tensorrt:
            raise
        return largest, Trial(declared_outputs(network))
    found = trial.largest_batch
    return (found if found and found.images < largest.images else largest), trial


def _names(options: InitOptions, family: str) -> ModelNames:
    prefix = f"{options.name}_" if options.name else ""
    network, ensemble = {
        "classification": ("classifier", "classify"),
        NO_HEAD: ("network", "predict"),
    }.get(family, ("detector", "detect"))
    return ModelNames(
        preprocess=f"{prefix}preprocess",
        network=f"{prefix}{network}",
        postprocess=f"{prefix}postprocess" if family != NO_HEAD else "",
        ensemble=options.name or ensemble,
    )


def _refuse_settings(options: InitOptions) -> None:
    of_heads = postprocess_contract({"head": "yolov8"}).parameters  # the same for every head
    known = {**preprocess_contract({}).parameters, **of_heads}
    if options.head == NO_HEAD:
        known = dict(preprocess_contract({}).parameters)
        for option, is_given in (
            ("labels", options.labels is not None),
            ("num-classes", options.num_classes is not None),
            ("postprocess", options.postprocess is not PostprocessBackend.cpp),
        ):
            if is_given:
                raise InvalidArgumentError(
                    f"--{option} is for postprocess, and --head none writes none; leave it out"
                )
    stages = "neither preprocess nor postprocess"
    if options.head == NO_HEAD:
        stages = "there is no postprocess with --head none, and nothing else"
    for name in options.settings:
        if name in _HAVE_OPTIONS:
            raise InvalidArgumentError(f"--set {name}: give it with {_HAVE_OPTIONS[name]}")
        if name not in known:
            raise InvalidArgumentError(
                f"--set {name}: {stages} has such a parameter"
                f"{_suggested(name) or '.'} They have {', '.join(known)}"
            )


def _suggested(name: str) -> str:
    """Return "; did you mean ...?" for a name of --set that is close to one, else ""."""
    if name == "resize":  # elsewhere another name for the size, which has an option here
        return "; did you mean 'resize_shorter'?"
    text = suggestion(name)
    for parameter, option in _HAVE_OPTIONS.items():
        text = text.replace(f"'{parameter}'", option)
    return text


def _shortened(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown}, ... {names[-1]}"
