"""How many GPUs the server will see, and how much memory to set aside on each."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from pathlib import Path

from endcap.server.repository import ModelFolder

DRIVER_GPUS = Path("/proc/driver/nvidia/gpus")
TRITON_DEFAULT_POOL_MB = 64
_BATCHES_IN_FLIGHT = 2  # one batch is being filled while the step after it reads another


def gpu_count() -> int:
    """Returns the number of usable NVIDIA GPUs, 0 without a driver."""
    present = _gpus_of_driver()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return present
    # CUDA stops reading the list at the first entry that names no device.
    named = itertools.takewhile(lambda device: device not in ("", "-1"), visible.split(","))
    return min(present, len(list(named)))


def pool_megabytes(models: list[ModelFolder]) -> int:
    """Returns the size of the CUDA pool that keeps an ensemble's tensors on the GPU, in MiB.

    Counts every fixed-size tensor of every model at its largest batch, for two batches in flight,
    and is never below Triton's own default.
    """
    total_bytes = _BATCHES_IN_FLIGHT * sum(model.tensor_bytes for model in models)
    return max(TRITON_DEFAULT_POOL_MB, -(-total_bytes // 2**20))


def _gpus_of_driver() -> int:
    program = shutil.which("nvidia-smi")
    if program is not None:
        listing = subprocess.run(
            [program, "-L"], capture_output=True, text=True, timeout=60, check=False
        )
        return sum(line.startswith("GPU ") for line in listing.stdout.splitlines())
    return sum(1 for _ in DRIVER_GPUS.iterdir()) if DRIVER_GPUS.is_dir() else 0
