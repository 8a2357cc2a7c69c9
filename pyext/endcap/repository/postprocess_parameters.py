"""Class names and the parameters of postprocess."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from endcap.detections import class_name
from endcap.errors import InvalidArgumentError
from endcap.postprocess import Postprocessor
from endcap.repository.head_evidence import Head
from endcap.repository.head_families import HEAD_FAMILIES
from endcap.repository.network_tensors import NetworkInput
from endcap.repository.onnx_file import ExporterMetadata
from endcap.repository.options import AS_GIVEN, Decision, InitOptions, decided_values
from endcap.triton.labels import read_labels
from endcap.triton.model_contract import ModelContract, postprocess_contract

# Written down although they are the defaults: what people tune first.
_TUNED = ("score_threshold", "iou_threshold", "max_detections", "top_k")


@dataclass(frozen=True)
class ClassNames:
    """Class names and their source.

    Attributes:
        names: By class id; None where neither user nor exporter has named the classes.
    """

    names: tuple[str, ...] | None
    reason: str


def choose_class_names(
    path: Path, head: Head, metadata: ExporterMetadata, options: InitOptions
) -> ClassNames:
    """Return the names of the classes.

    Raises:
        InvalidArgumentError: The labels file does not fit the network or cannot be used.
    """
    known = head.num_classes or options.num_classes
    if options.labels is None:
        return _declared_names(metadata, known)
    names = tuple(read_labels(options.labels))
    if known not in (None, len(names)):
        raise InvalidArgumentError(
            f"labels file {options.labels} has {len(names)} lines, and {path} has {known} classes; "
            "give a file with one name a line, in the order of the class ids"
        )
    for number, name in enumerate(names, 1):
        if not _is_usable(name):
            raise InvalidArgumentError(
                f"labels file {options.labels} has no name, or one with control characters, in "
                f"line {number}; give a file with one name a line, in the order of the class ids"
            )
    return ClassNames(names, f"the lines of {options.labels}")


def _declared_names(metadata: ExporterMetadata, known: int | None) -> ClassNames:
    names = metadata.names
    if names is None:
        return ClassNames(None, "the metadata names none; --labels FILE does")
    if known not in (None, len(names)):
        return ClassNames(
            None,
            f"the metadata names {len(names)}, and the head has {known}; --labels FILE names them",
        )
    kept = tuple(class_name(n, name if _is_usable(name) else None) for n, name in enumerate(names))
    reason = metadata.names_source
    if kept != names:
        reason += ", where some are empty or have control characters; --labels FILE names them all"
    return ClassNames(kept, reason)


def _is_usable(name: str) -> bool:
    """Return whether a name can be a line of a file: without its end, or what no encoding has."""
    return bool(name.strip()) and name.isprintable()


def find_missing_options(
    path: Path, head: Head, classes: ClassNames, options: InitOptions
) -> Iterator[str]:
    """Yield messages, each with what the network does not tell of its head and what to give."""
    if head.missing:
        yield f"{path} ends in a head of the family {head}, and {head.missing}"
    if not _counts(head, classes, options) and "--num-classes" not in head.missing:
        yield (
            f"the head of {path} does not tell how many classes it has; give --labels FILE or "
            "--num-classes (80 for a network trained on COCO, or 91 with COCO's own ids)"
        )
    known = {*head.parameters, *options.settings}
    missing = [] if head.missing else [*HEAD_FAMILIES[head.family].needs]
    if "activation" in missing and "activation" not in known:
        yield (
            f"nothing in {path} tells what its scores need to be from 0 to 1; give "
            "--set activation=none, sigmoid or softmax"
        )
    if "box_format" in missing and "box_format" not in known:
        yield (
            f"nothing in {path} tells whether its boxes are corners or centres and sizes; give "
            "--set box_format=xyxy or cxcywh"
        )


def choose_postprocess_parameters(
    path: Path, image: NetworkInput, head: Head, classes: ClassNames, options: InitOptions
) -> dict[str, Decision]:
    """Return the parameters of postprocess that have to be written, `head` first.

    `find_missing_options` has found nothing.

    Raises:
        InvalidArgumentError: For parameters that postprocess does not take, or not with this head.
    """
    chosen = {"head": Decision(head.family, head.reason)}
    chosen["num_classes"] = _num_classes(path, head, classes, options)
    defaults = postprocess_contract(decided_values(chosen))
    chosen |= head.parameters
    read = _parameters_read(head, options)
    chosen |= {
        name: Decision(defaults.parameters[name], f"{defaults.meanings[name]}; the default")
        for name in _TUNED
        if name in read
    }
    chosen |= _given(head, defaults, options)
    if needs_input_size(decided_values(chosen)):
        size = Decision(f"{image.size[0]},{image.size[1]}", image.size_reason)
        chosen.setdefault("input_size", size)
    elif "input_size" in chosen:
        raise InvalidArgumentError(
            "input_size changes nothing for boxes in pixels; leave it out, or --set "
            "box_unit=normalized"
        )
    _check_inputs(path, head, postprocess_contract(decided_values(chosen)))
    _check_grid(head, decided_values(chosen))
    return chosen


def needs_input_size(parameters: Mapping[str, str]) -> bool:
    """Return whether the size of the images matters to postprocess."""
    has_fractions = parameters.get("box_unit") == "normalized"
    return has_fractions or _has_grid(parameters) or "prototype_size" in parameters


def _has_grid(parameters: Mapping[str, str]) -> bool:
    """Return whether boxes are relative to anchors that postprocess makes."""
    return parameters.get("anchors") == "grid" or HEAD_FAMILIES[parameters["head"]].has_grid


def _check_grid(head: Head, parameters: Mapping[str, str]) -> None:
    """Raise InvalidArgumentError where a grid has not as many anchors as there are boxes."""
    if _has_grid(parameters):
        nothing = {part: np.zeros(each.dims, np.float32) for part, each in head.inputs.items()}
        options: dict[str, Any] = dict(parameters)
        Postprocessor(threads=1, **options)(nothing)


def _parameters_read(head: Head, options: InitOptions) -> tuple[str, ...]:
    """Return the family's parameters; a classifier's threshold is for several labels only."""
    read = HEAD_FAMILIES[head.family].parameters
    if head.family == "classification" and options.settings.get("multi_label") != "true":
        return tuple(name for name in read if not name.startswith("score_threshold"))
    return read


def _given(head: Head, contract: ModelContract, options: InitOptions) -> dict[str, Decision]:
    given = {}
    for name, value in options.settings.items():
        if name not in contract.parameters:
            continue
        read = _parameters_read(head, options)
        if name not in read:
            raise InvalidArgumentError(
                f"{name} changes nothing for a head of the family {head.family}; leave it out (it "
                f"has {', '.join(read)})"
            )
        given[name] = Decision(value, AS_GIVEN)
    return given


def _check_inputs(path: Path, head: Head, contract: ModelContract) -> None:
    for spec in contract.inputs:
        if spec.name not in head.inputs:
            raise InvalidArgumentError(
                f"{head.family} would take {spec} with these parameters, and {path} "
                f"gives {', '.join(head.inputs)}; leave out the --set that changes it"
            )
        dims = head.inputs[spec.name].dims
        known = [(want, have) for want, have in zip(spec.dims, dims, strict=False) if want]
        if any(want != have for want, have in known) and spec.dims != (1,):
            raise InvalidArgumentError(
                f"{head.family} takes {spec}, and {path} gives {list(dims)}; correct --num-classes "
                "or --head"
            )


def _num_classes(path: Path, head: Head, classes: ClassNames, options: InitOptions) -> Decision:
    count, reason = _counts(head, classes, options)[0]
    if options.num_classes not in (None, count):
        raise InvalidArgumentError(
            f"--num-classes is {options.num_classes}, and the head of {path} has {count} "
            "classes; leave --num-classes out"
        )
    return Decision(str(count), reason)


def _counts(head: Head, classes: ClassNames, options: InitOptions) -> list[tuple[int, str]]:
    """Return the known numbers of classes with their sources, the surest first."""
    named = len(classes.names) if classes.names else None
    sources = (
        (head.num_classes, head.classes_reason),
        (options.num_classes, AS_GIVEN),
        (named, classes.reason),
    )
    return [(count, reason) for count, reason in sources if count is not None]
