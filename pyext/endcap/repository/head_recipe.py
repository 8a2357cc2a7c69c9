"""How a network's outputs become answers: the parameters of postprocess, and the class names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from endcap._labels import read_labels
from endcap.errors import InvalidArgumentError
from endcap.repository.contracts import postprocess_contract
from endcap.repository.errors import RepositoryError
from endcap.repository.exporter_notes import ExporterNotes
from endcap.repository.head import Finding, Head
from endcap.repository.network_input import NetworkInput
from endcap.repository.options import InitOptions

# Written down although they are the defaults: what people tune first.
_KNOBS = {
    "yolov5": ("score_threshold", "iou_threshold", "max_detections"),
    "yolov8": ("score_threshold", "iou_threshold", "max_detections"),
    "end2end": ("score_threshold", "max_detections"),
    "efficient_nms": ("score_threshold", "max_detections"),
    "classification": ("top_k",),
}


@dataclass(frozen=True)
class ClassNames:
    """names: by class id; None where nobody has named the classes."""

    names: tuple[str, ...] | None
    reason: str


def choose_class_names(
    path: Path, head: Head, notes: ExporterNotes, options: InitOptions
) -> ClassNames:
    """Returns the names of the classes.

    Raises InvalidArgumentError when the labels file does not fit the network or cannot be used.
    """
    if options.labels is None:
        if notes.names is None:
            return ClassNames(None, "the metadata names none; --labels FILE does")
        if head.num_classes not in (None, len(notes.names)):
            return ClassNames(
                None,
                f"the metadata names {len(notes.names)}, and the head has {head.num_classes}; "
                "--labels FILE names them",
            )
        return ClassNames(notes.names, "the exporter's metadata")
    names = tuple(read_labels(options.labels))
    known = head.num_classes or options.num_classes
    if known not in (None, len(names)):
        raise InvalidArgumentError(
            f"labels file {options.labels} has {len(names)} lines, and {path} has {known} classes; "
            "give a file with one name a line, in the order of the class ids"
        )
    if not names or not all(name.strip() for name in names):
        raise InvalidArgumentError(
            f"labels file {options.labels} has {'an empty line' if names else 'no line'}; give a "
            "file with one name a line, in the order of the class ids"
        )
    return ClassNames(names, f"the lines of {options.labels}")


def choose_reading(
    path: Path, image: NetworkInput, head: Head, classes: ClassNames, options: InitOptions
) -> dict[str, Finding]:
    """Returns the parameters of postprocess that have to be written, `head` first.

    Raises RepositoryError when the number of classes is not known, and InvalidArgumentError for
    parameters that postprocess does not take.
    """
    chosen = {"head": Finding(head.family, head.reason)}
    chosen["num_classes"] = _num_classes(path, head, classes, options)
    contract = postprocess_contract(_values(chosen))
    chosen |= head.parameters
    chosen |= {
        name: Finding(contract.parameters[name], f"{contract.meanings[name]}; the default")
        for name in _KNOBS.get(head.family, ())
    }
    chosen |= {
        name: Finding(value, "as given")
        for name, value in options.settings.items()
        if name in contract.parameters
    }
    if chosen.get("box_unit", Finding("pixel", "")).value == "normalized":
        chosen["input_size"] = Finding(f"{image.size[0]},{image.size[1]}", image.size_reason)
    postprocess_contract(_values(chosen))
    return chosen


def _num_classes(path: Path, head: Head, classes: ClassNames, options: InitOptions) -> Finding:
    known = {
        "the head's shape": head.num_classes,
        "--num-classes": options.num_classes,
        classes.reason: len(classes.names) if classes.names else None,
    }
    said = {count: reason for reason, count in reversed(known.items()) if count is not None}
    if not said:
        raise RepositoryError(
            f"the head of {path} does not tell how many classes it has; give --labels FILE or "
            "--num-classes"
        )
    if len(said) > 1:
        listed = ", ".join(f"{count} by {reason}" for count, reason in said.items())
        raise InvalidArgumentError(f"{path} has two numbers of classes: {listed}; correct one")
    ((count, reason),) = said.items()
    return Finding(str(count), reason)


def _values(chosen: dict[str, Finding]) -> dict[str, str]:
    return {name: finding.value for name, finding in chosen.items()}
