"""The machine of a run: GPU, driver, clocks, versions, commit.

``python -m gpu_check.machine OUTPUT.json`` looks; in a process of its own, since a driver may hang.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from gpu_check.records import write_json

EMULATED_NAME = "emulation"  # part of the name of the emulated GPU


def query_gpu(fields: str) -> str:
    """Return what nvidia-smi says of the first GPU; "unknown" where it cannot be asked."""
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return (done.stdout.strip() or "unknown").splitlines()[0]


def is_emulated() -> bool:
    """Return whether this process uses the emulated GPU."""
    import endcap

    return any(EMULATED_NAME in device.name for device in endcap.cuda_state().devices)


def describe() -> dict[str, Any]:
    """Return the machine, ready for JSON; ``available`` is whether its GPU can be used."""
    import endcap
    from benchmarks import machine

    state = endcap.cuda_state()
    described = {
        **machine.describe(),
        "available": state.available,
        "reason": state.reason,
        "gpus": [device.name for device in state.devices],
        "emulated": is_emulated(),
        "driver": query_gpu("driver_version,clocks.max.sm,clocks.max.mem,power.limit"),
        "cuda_of_driver": state.driver_version,
        "cuda_of_code": state.runtime_version,
        "architectures": state.architectures,
        "nvjpeg": dataclasses.asdict(endcap.nvjpeg_state()),
    }
    if os.environ.get("ENDCAP_COMMIT"):
        described["commit"] = os.environ["ENDCAP_COMMIT"]
    return described


if __name__ == "__main__":
    write_json(Path(sys.argv[1]), describe())
