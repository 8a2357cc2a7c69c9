"""Files of class names."""

from __future__ import annotations

from pathlib import Path

from endcap.errors import InvalidArgumentError


def read_labels(path: Path) -> list[str]:
    """Returns the lines of a file of class names. Raises InvalidArgumentError."""
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InvalidArgumentError(f"labels file {path} cannot be read: {reason}") from error
