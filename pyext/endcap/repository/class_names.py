"""The names of a network's classes: the user's, or the exporter's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from endcap._labels import read_labels
from endcap.errors import InvalidArgumentError
from endcap.repository.exporter_notes import ExporterNotes
from endcap.repository.head import Head
from endcap.repository.options import InitOptions


@dataclass(frozen=True)
class ClassNames:
    """names: by class id; None where nobody has named the classes."""

    names: tuple[str, ...] | None
    reason: str


def choose_class_names(
    path: Path, head: Head, notes: ExporterNotes, options: InitOptions
) -> ClassNames:
    """Return the names of the classes.

    Raises:
        InvalidArgumentError: The labels file does not fit the network or cannot be used.
    """
    known = head.num_classes or options.num_classes
    if options.labels is None:
        return _noted(notes, known)
    names = tuple(read_labels(options.labels))
    if known not in (None, len(names)):
        raise InvalidArgumentError(
            f"labels file {options.labels} has {len(names)} lines, and {path} has {known} classes; "
            "give a file with one name a line, in the order of the class ids"
        )
    flaw = _flaw(names)
    if flaw is not None:
        raise InvalidArgumentError(
            f"labels file {options.labels} has {flaw}; give a file with one name a line, in the "
            "order of the class ids"
        )
    return ClassNames(names, f"the lines of {options.labels}")


def _noted(notes: ExporterNotes, known: int | None) -> ClassNames:
    names = notes.names
    if names is None:
        return ClassNames(None, "the metadata names none; --labels FILE does")
    flaw = _flaw(names)
    if flaw is not None:
        return ClassNames(None, f"the metadata's names have {flaw}; --labels FILE names them")
    if known not in (None, len(names)):
        return ClassNames(
            None,
            f"the metadata names {len(names)}, and the head has {known}; --labels FILE names them",
        )
    return ClassNames(names, "the exporter's metadata")


def _flaw(names: tuple[str, ...]) -> str | None:
    """What keeps names from being the lines of a file; None where nothing does."""
    if not names:
        return "no line"
    for number, name in enumerate(names, 1):
        if not name.strip():
            return f"an empty line, line {number}"
        if not name.isprintable():  # a line's end, or what no encoding has
            return f"control characters in line {number}"
    return None
