"""Files of class names."""

from __future__ import annotations

from pathlib import Path

from endcap.errors import InvalidArgumentError


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
