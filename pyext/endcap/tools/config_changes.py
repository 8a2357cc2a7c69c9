"""Changes of a repository's config.pbtxt files: their diff, and writing all of them or none."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from endcap.errors import EndcapError
from endcap.triton.config_edits import write_config
from endcap.triton.errors import ServerError
from endcap.triton.model_config import read_config


@dataclass(frozen=True)
class ConfigChange:
    """A config.pbtxt, its text when it was read, and the text that it shall have."""

    file: Path
    before: str
    after: str


def diff(changes: Sequence[ConfigChange]) -> str:
    """Return the unified diff; "" where nothing changes."""
    lines: list[str] = []
    for each in changes:
        name = str(each.file)
        lines += difflib.unified_diff(
            _lines(each.before), _lines(each.after), name, name, lineterm=""
        )
    return "\n".join(lines)


def write(changes: Sequence[ConfigChange]) -> list[str]:
    """Write the files, and return their names.

    Raises:
        ServerError: A file is another one than when it was read, or cannot be written; then all
            files are as they were before.
    """
    for each in changes:
        try:
            now = read_config(each.file)
        except OSError as error:
            raise ServerError(f"{each.file} cannot be read: {error.strerror}") from error
        if now != each.before:
            raise ServerError(
                f"{each.file} was changed meanwhile, and nothing is written; run the command again"
            )
    written: list[ConfigChange] = []
    try:
        for each in changes:
            written.append(each)
            write_config(each.file, each.after)
    except (EndcapError, OSError) as error:
        for each in written:
            with contextlib.suppress(EndcapError, OSError):  # the one that was not replaced
                write_config(each.file, each.before)
        raise ServerError(
            f"{written[-1].file} cannot be written ({error}); the repository is as it was"
        ) from error
    return [str(each.file) for each in changes]


def _lines(text: str) -> list[str]:
    # Carriage returns stay in the lines, and undecodable bytes are shown escaped.
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace").split("\n")
