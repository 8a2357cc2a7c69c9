"""Names of shared-memory regions: told from everybody else's by their whole form."""

from __future__ import annotations

import re
import uuid
from pathlib import Path

FOLDER = Path("/dev/shm")

# No second hyphen: the regions that a launch of `endcap serve` removes by prefix all have one.
_OURS = re.compile(r"endcap-[0-9a-f]{32}")


def new_name() -> str:
    """Returns a name that no other region has, in any process or container."""
    return f"endcap-{uuid.uuid4().hex}"


def is_ours(name: str) -> bool:
    """Whether a file of /dev/shm, or a registration with a server, is one of these pools'."""
    return _OURS.fullmatch(name) is not None


def key(name: str) -> str:
    """Returns what shm_open(3) calls the file of this name."""
    return f"/{name}"
