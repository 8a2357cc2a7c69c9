"""What is known of a network beside its outputs, for those who recognise heads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from endcap._labels import read_labels
from endcap.repository.exporter_notes import ExporterNotes
from endcap.repository.options import InitOptions


@dataclass(frozen=True)
class Hints:
    """size: height and width of the images. num_classes: by the user or the metadata, None where
    neither tells. wanted: the family that the user names. settings: what else the user says.
    """

    size: tuple[int, int]
    notes: ExporterNotes
    num_classes: int | None
    wanted: str | None
    settings: Mapping[str, str]


def collect_hints(size: tuple[int, int], notes: ExporterNotes, options: InitOptions) -> Hints:
    """Raise InvalidArgumentError for a file of class names that cannot be read."""
    return Hints(size, notes, _num_classes(notes, options), options.head, options.settings)


def _num_classes(notes: ExporterNotes, options: InitOptions) -> int | None:
    if options.num_classes is not None:
        return options.num_classes
    if options.labels is not None:
        return len(read_labels(options.labels))
    return len(notes.names) if notes.names else None
