"""Class names: files of labels, and the parameter `labels` of an ensemble."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from endcap.errors import InvalidArgumentError


@dataclass(frozen=True)
class Labels:
    """The lines of a file of class names, by class id; none of them without a file.

    A line may be the class's path in a taxonomy, from the root to the class itself.

    Attributes:
        lines: whole lines.
        names: what stands behind the last separator; the lines without a separator.
    """

    lines: Sequence[bytes] = ()
    names: Sequence[bytes] = ()

    @staticmethod
    def read(file: Path, num_classes: int, separator: str | None) -> Labels:
        """Read a file with a line for each class.

        Raises:
            InvalidArgumentError: it cannot be read, does not have ``num_classes`` lines, or has a
                path with an empty part.
        """
        try:
            lines = file.read_bytes().split(b"\n")
        except OSError as error:
            raise InvalidArgumentError(
                f"labels_file '{file}' cannot be read: give the path of a text file, relative to "
                "the model's folder"
            ) from error
        if lines[-1] == b"":  # what follows the last line's end
            del lines[-1]
        lines = [line.removesuffix(b"\r") for line in lines]
        if len(lines) != num_classes:
            raise InvalidArgumentError(
                f"labels_file '{file}' has {len(lines)} lines: num_classes={num_classes} needs one "
                "for each class"
            )
        if separator is None:
            return Labels(lines, lines)
        for number, line in enumerate(lines, 1):
            if b"" in line.split(separator.encode()):
                raise InvalidArgumentError(
                    f"labels_file '{file}' line {number} is '{line.decode(errors='replace')}', a "
                    "path with an empty part: write the names from the root to the class, with one "
                    f"'{separator}' between two"
                )
        names = [line.rpartition(separator.encode())[2] for line in lines]
        return Labels(lines, names)

    def look_up_names(self, class_ids: npt.NDArray[np.int32]) -> npt.NDArray[np.object_]:
        """Return the names of class ids, empty for -1 and without a file."""
        return _look_up(self.names, class_ids)

    def look_up_paths(self, class_ids: npt.NDArray[np.int32]) -> npt.NDArray[np.object_]:
        """Return the whole lines of class ids, empty for -1 and without a file."""
        return _look_up(self.lines, class_ids)


def parse_labels(text: str) -> list[str]:
    """Return the names by class id, of the parameter `labels`.

    Args:
        text: Names with commas between, or a JSON list of texts, which begins with `[`, where a
            name has a comma in it. Raises InvalidArgumentError for another one.
    """
    text = text.strip()
    if not text.startswith("["):
        return [label.strip() for label in text.split(",")] if text else []
    try:
        labels = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError(
            f"the labels begin with [ and are no JSON list: {error}; give a list of texts, or "
            "names with commas between"
        ) from error
    for position, label in enumerate(labels):
        if not isinstance(label, str):
            raise InvalidArgumentError(
                f"label {position} of the JSON list is {json.dumps(label)}; give texts only"
            )
    return list(labels)


def read_labels(path: Path) -> list[str]:
    """Return the lines of a file of class names, in UTF-8. Raises InvalidArgumentError."""
    if path.exists() and not path.is_file() and not path.is_dir():  # it may never end
        raise InvalidArgumentError(f"labels file {path} is a pipe or a device: give a file")
    try:
        lines = path.read_bytes().decode("utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InvalidArgumentError(f"labels file {path} cannot be read: {reason}") from error
    if lines[-1] == "":  # what follows the last line's end
        del lines[-1]
    return [line.removesuffix("\r") for line in lines]


def _look_up(texts: Sequence[bytes], class_ids: npt.NDArray[np.int32]) -> npt.NDArray[np.object_]:
    if not texts:
        return np.full(class_ids.shape, b"", np.object_)
    table: npt.NDArray[Any] = np.array([*texts, b""], np.object_)  # -1 is the last
    found: npt.NDArray[np.object_] = table[class_ids]
    return found
