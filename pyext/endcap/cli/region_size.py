"""The size of regions of shared memory, as it is written on the command line."""

from __future__ import annotations

import re

import typer

from endcap.errors import InvalidArgumentError

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def check_region_bytes(region_bytes: int | None, *, is_shared: bool) -> None:
    """Raise InvalidArgumentError for a size of what there is none of."""
    if region_bytes is not None and not is_shared:
        raise InvalidArgumentError(
            "--region-bytes is the size of shared memory; give --shm system or cuda with it"
        )


def byte_count(text: str) -> int:
    """Read 16777216, 16M or 16MiB, which are the same. Raises BadParameter for anything else."""
    found = re.fullmatch(r"([1-9]\d{0,15}) ?(?:([KMG])(?:iB)?)?", text.strip(), re.IGNORECASE)
    if found is None:
        raise typer.BadParameter(f"{text!r} is no size; write 16777216, 16M or 16MiB")
    return int(found[1]) * _UNITS[(found[2] or "").upper()]
