"""Class names and the parameters of postprocess."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from endcap.detections import class_name
from endcap.errors import InvalidArgumentError
from endcap.postprocess import Postprocessor
from endcap.repository.head_evidence import Head
from endcap.repository.head_families import HEAD_PARAMETERS
from endcap.repository.network_tensors import NetworkInput
from endcap.repository.onnx_file import ExporterMetadata
from endcap.repository.options import AS_GIVEN, Decision, InitOptions, decided_values
from endcap.triton.labels import read_labels
from endcap.triton.model_contract import postprocess_contract

# Written down although they are the defaults: what people tune first.
_TUNED = ("score_threshold", "iou_threshold", "max_detections", "top_k")
# Families of which a network does not always tell these, and of which no default fits most.
_NEED_ACTIVATION = ("yolov5", "yolox", "yolov8", "classification")
_NEED_BOX_FORMAT = ("yolov5", "yolov8")
_WHOLE_INPUTS = ("num_detections", "classes")


@dataclass(frozen=True)
class ClassNames:
    """Class names and their source; None where neither user nor exporter has named the classes."""

    names: tuple[str, ...] | None
    reason: str


def choose_class_names(
    path: Path, head: Head, metadata: ExporterMetadata, options: InitOptions
) -> ClassNames:
    """Return the names of the classes.

    Raises:
        InvalidArgumentError: The labels file does not fit the network or cannot be used.
    """
    known, declared = head.num_classes or options.num_classes, metadata.names
    if options.labels is not None:
        names = tuple(read_labels(options.labels))
        if known not in (None, len(names)):
            raise InvalidArgumentError(
                f"labels file {options.labels} has {len(names)} lines, and {path} has {known} "
                "classes; give a file with one name a line, in the order of the class ids"
            )
        unusable = [number for number, name in enumerate(names, 1) if not _is_usable(name)]
        if unusable:
            raise InvalidArgumentError(
                f"labels file {options.labels} has no name, or one with control characters, in "
                f"line {unusable[0]}; give a file with one name a line, in the order of the class "
                "ids"
            )
        return ClassNames(names, f"the lines of {options.labels}")
    if declared is None:
        return ClassNames(None, "the metadata names none; --labels FILE does")
    if known not in (None, len(declared)):
        return ClassNames(
            None,
            f"the metadata names {len(declared)}, and the head has {known}; --labels FILE names "
            "them",
        )
    kept = tuple(
        class_name(n, each if _is_usable(each) else None) for n, each in enumerate(declared)
    )
    reason = metadata.names_source
    if kept != declared:
        reason += ", where some are empty or have control characters; --labels FILE names them all"
    return ClassNames(kept, reason)


def _is_usable(name: str) -> bool:
    """Return whether a name can be a line of a file: without its end, or what no encoding has."""
    return bool(name.strip()) and name.isprintable()


def choose_postprocess_parameters(
    path: Path, image: NetworkInput, head: Head, classes: ClassNames, options: InitOptions
) -> tuple[dict[str, Decision], list[str]]:
    """Return the parameters of postprocess that have to be written, `head` first.

    The second are messages, each with what the network does not tell of its head and what to give;
    the parameters are incomplete then.

    Raises:
        InvalidArgumentError: For parameters that postprocess does not take, or not with this head.
    """
    family, settings = head.family, options.settings
    counts = [
        (count, reason)
        for count, reason in (
            (head.num_classes, head.classes_reason),
            (options.num_classes, AS_GIVEN),
            (len(classes.names or ()) or None, classes.reason),
        )
        if count is not None
    ]
    missing = []
    if head.missing:
        missing.append(f"{path} ends in a head of the family {head}, and {head.missing}")
    if not counts and "--num-classes" not in head.missing:
        missing.append(
            f"the head of {path} does not tell how many classes it has; give --labels FILE or "
            "--num-classes (80 for a network trained on COCO, or 91 with COCO's own ids)"
        )
    known = {*head.parameters, *settings}
    if not head.missing and family.startswith(_NEED_ACTIVATION) and "activation" not in known:
        missing.append(
            f"nothing in {path} tells what its scores need to be from 0 to 1; give "
            "--set activation=none, sigmoid or softmax"
        )
    if not head.missing and family.startswith(_NEED_BOX_FORMAT) and "box_format" not in known:
        missing.append(
            f"nothing in {path} tells whether its boxes are corners or centres and sizes; give "
            "--set box_format=xyxy or cxcywh"
        )
    if missing:
        return {}, missing
    count, reason = counts[0]
    if options.num_classes not in (None, count):
        raise InvalidArgumentError(
            f"--num-classes is {options.num_classes}, and the head of {path} has {count} "
            "classes; leave --num-classes out"
        )
    chosen = {
        "head": Decision(family, head.reason),
        "num_classes": Decision(str(count), reason),
    }
    defaults = postprocess_contract(decided_values(chosen))
    read = HEAD_PARAMETERS[family]
    if family == "classification" and settings.get("multi_label") != "true":
        read = tuple(name for name in read if not name.startswith("score_threshold"))
    given = {name: value for name, value in settings.items() if name in defaults.parameters}
    for name in given:
        if name not in read:
            raise InvalidArgumentError(
                f"{name} changes nothing for a head of the family {family}; leave it out (it has "
                f"{', '.join(read)})"
            )
    chosen |= head.parameters
    chosen |= {
        name: Decision(defaults.parameters[name], f"{defaults.meanings[name]}; the default")
        for name in _TUNED
        if name in read
    }
    chosen |= {name: Decision(value, AS_GIVEN) for name, value in given.items()}
    values = decided_values(chosen)
    has_grid = family == "yolox" or values.get("anchors") == "grid"
    if has_grid or values.get("box_unit") == "normalized" or "prototype_size" in values:
        size = Decision(f"{image.size[0]},{image.size[1]}", image.size_reason)
        chosen.setdefault("input_size", size)
    # The core holds shapes and grids to the parameters.
    nothing = {
        part: np.zeros(
            [max(dim, 1) for dim in each.dims or (1,)],
            np.int32 if part in _WHOLE_INPUTS else np.float32,
        )
        for part, each in head.inputs.items()
    }
    arguments: dict[str, Any] = decided_values(chosen)
    Postprocessor(threads=1, **arguments)(nothing)
    return chosen, []
