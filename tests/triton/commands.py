"""The commands that people type, as processes of their own."""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path

ENDCAP = str(Path(sysconfig.get_path("scripts")) / "endcap")


def endcap(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs `endcap` to its end."""
    command = [ENDCAP, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)
