"""Files that commands read and write: the shipped repository, checks of targets."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable
from pathlib import Path

from endcap._files import refuse_links
from endcap._pip_commands import find_in_package
from endcap.errors import InvalidArgumentError

# Inside a model's folder: Triton takes every folder of a repository for a model.
SAMPLES = Path("detect") / "samples"


def find_repository() -> Path:
    """Return the model repository of the source tree, else the one installed with the package."""
    in_source_tree = Path(__file__).parents[3] / "model_repository"
    if (in_source_tree / "detect").is_dir():
        return in_source_tree
    return find_in_package(
        "model_repository", "the shipped model_repository is", InvalidArgumentError
    )


def make_folder(folder: Path) -> None:
    """Create a folder for results. Raises InvalidArgumentError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidArgumentError(
            f"folder {folder} cannot be created: {error.strerror}"
        ) from error


def refuse_to_overwrite(inputs: Iterable[Path], targets: Iterable[Path], *, advice: str) -> None:
    """Raise InvalidArgumentError where a target is one of the inputs, by whatever name or link.

    Args:
        inputs: Files that are read.
        targets: Files to be written.
        advice: What to do then, the end of the message.
    """
    existing = {_file_id(target): target for target in targets}
    existing.pop(None, None)
    if not existing:
        return
    for path in inputs:
        target = existing.get(_file_id(path))
        if target is not None:
            by = "" if path == target else f" by {target}"
            raise InvalidArgumentError(
                f"{path}, which is an input, would be overwritten{by}: {advice}"
            )


def check_targets(inputs: Iterable[Path], pictures: Collection[Path], report: Path | None) -> None:
    """Raise InvalidArgumentError where a result would replace an input or what endcap has not made.

    Args:
        inputs: Files that are read.
        pictures: Files with results drawn on them.
        report: The file of --output; None for standard output.
    """
    targets = [*pictures]
    if report is not None:
        if os.path.realpath(report) in map(os.path.realpath, pictures):
            raise InvalidArgumentError(
                f"--output and --draw both write {report}; change one of them"
            )
        targets.append(report)
    refuse_to_overwrite(
        inputs, targets, advice="give --output another file, or --draw another file or folder"
    )
    refuse_foreign(pictures, advice="give --draw another file or folder")


# In the first bytes of every file that a command writes under a name that the user has not given.
MADE_BY = "made by endcap"
_MARKED_WITHIN_BYTES = 4096
_MAX_INDEX_BYTES = 64 << 20  # of a video; 40 bytes a frame


def refuse_foreign(targets: Iterable[Path], *, advice: str) -> None:
    """Raise InvalidArgumentError where something is in a target's place that endcap has not made.

    Args:
        targets: Files to be written: those whose names are not the user's own choice, and videos,
            among which a recording is soon named by mistake.
        advice: What else can be done, the end of the message.
    """
    refuse_links(targets := list(targets))
    for target in targets:
        if target.exists() and MADE_BY.encode() not in _first_bytes(target):
            raise InvalidArgumentError(
                f"{target} exists and was not created by endcap; move it away, or {advice}"
            )


def _first_bytes(path: Path) -> bytes:
    """Return the bytes that the mark is in; of an MP4 file those of its index, too."""
    try:
        with path.open("rb") as file:
            begin = file.read(_MARKED_WITHIN_BYTES)
            return begin + file.read(_MAX_INDEX_BYTES) if begin[4:8] == b"ftyp" else begin
    except OSError as error:
        raise InvalidArgumentError(f"{path} cannot be read: {error.strerror}") from error


def _file_id(path: Path) -> tuple[int, int] | None:
    """Return device and number of a file, None where there is none."""
    with contextlib.suppress(OSError):
        status = os.stat(path)
        return status.st_dev, status.st_ino
    return None
