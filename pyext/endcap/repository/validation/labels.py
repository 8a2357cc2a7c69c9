"""Class names: those that clients read from an ensemble, and a classifier's file of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from endcap.errors import InvalidArgumentError
from endcap.repository.validation.finding import Finding
from endcap.repository.validation.model import POSTPROCESS, Model
from endcap.triton.labels import parse_labels

_LABELS = "labels"


def check_labels(ensemble: Model, called: Sequence[Model]) -> Iterator[Finding]:
    """Whether the parameter `labels` has a name for each class of the step behind the network."""
    given = ensemble.parameters.get(_LABELS)
    if not given:
        return
    line = ensemble.parameter_line(_LABELS)
    names = _names(given)
    if names is None:
        yield ensemble.warning(
            line,
            "labels begins with [ and is no JSON list of texts",
            'write it as ["person", "bicycle"], or as names with commas between them',
        )
        return
    for model in called:
        if model.stage != POSTPROCESS:
            continue
        num_classes = model.parameters.get("num_classes", "")
        if num_classes.isdecimal() and int(num_classes) != len(names):
            yield ensemble.warning(
                line,
                f"labels has {len(names)} names, and num_classes of {model.name} is {num_classes}",
                "give one name for each class, in the order of the ids",
            )


def check_labels_file(model: Model, head: str, num_classes: int) -> Iterator[Finding]:
    """Whether the parameter `labels_file` names a file with a line for each class."""
    given = model.parameters.get("labels_file")
    if given is None:
        return
    line, file = model.parameter_line("labels_file"), model.folder / given
    if head != "classification":
        yield model.error(
            line, f"labels_file is given with head={head}", "it is for head=classification only"
        )
    elif not file.is_file():
        yield model.error(
            line,
            f"labels_file is {file}, which is no file",
            "give the path of a text file, relative to the model's folder",
        )
    else:
        names = file.read_bytes().split(b"\n")
        count = len(names) - (names[-1] == b"")
        if count != num_classes:
            yield model.error(
                line,
                f"labels_file {file} has {count} lines, and num_classes is {num_classes}",
                "give it one line for each class, or correct num_classes",
            )


def check_labels_separator(model: Model) -> Iterator[Finding]:
    """Whether `labels_separator` cuts the lines of `labels_file` into parts that are not empty."""
    separator = model.parameters.get("labels_separator")
    if separator is None:
        return
    line, given = model.parameter_line("labels_separator"), model.parameters.get("labels_file")
    if given is None:
        yield model.error(
            line,
            "labels_separator is given without labels_file",
            "give the file whose lines it separates, or leave it out",
        )
    elif not separator:
        yield model.error(
            line,
            "labels_separator is empty",
            "give what stands between the parts of a line, for example /, or leave it out",
        )
    elif (file := model.folder / given).is_file():
        paths = file.read_bytes().removesuffix(b"\n").split(b"\n")
        for number, path in enumerate(paths, 1):
            if b"" not in path.removesuffix(b"\r").split(separator.encode()):
                continue
            yield model.error(
                model.parameter_line("labels_file"),
                f"labels_file {file} has an empty part in its line {number}",
                f"write the names from the root to the class, with one {separator} between two",
            )
            return


def _names(given: str) -> list[str] | None:
    try:
        return parse_labels(given)
    except InvalidArgumentError:
        return None
