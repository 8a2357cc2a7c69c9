"""The headers of the CUDA runtime, which DALI's include; its libraries are not needed."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from endcap.dali.errors import DaliError

# Each is in another of NVIDIA's packages for Python; a toolkit has them all.
_NEEDED = (Path("cuda_runtime.h"), Path("crt/host_config.h"), Path("nv/target"))
_SYSTEM = (Path("/usr/local/cuda/include"), Path("/usr/include"))


def find_cuda_headers() -> list[Path]:
    """Return the folders that have them all; raise DaliError where there are none.

    They are looked for where CUDA_HOME or CUDA_PATH says, where nvcc is, in /usr/local/cuda and
    /usr/include, and in NVIDIA's packages for Python.
    """
    places = list(dict.fromkeys(_places()))
    for place in places:
        folders = [place, place / "cccl"]  # the second one is where CUDA 13 keeps some
        if all(any((folder / name).is_file() for folder in folders) for name in _NEEDED):
            return [folder for folder in folders if folder.is_dir()]
    raise DaliError(
        f"the headers of the CUDA runtime are not found (searched {', '.join(map(str, places))}); "
        "install them with `pip install nvidia-cuda-runtime nvidia-cuda-crt nvidia-cuda-cccl`, or "
        "set CUDA_HOME to a CUDA toolkit"
    )


def _places() -> Iterator[Path]:
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if home := os.environ.get(variable):
            yield Path(home) / "include"
    if nvcc := shutil.which("nvcc"):
        yield Path(nvcc).resolve().parents[1] / "include"
    yield from _SYSTEM
    # Each folder by itself: where one has nvidia/__init__.py, `import nvidia` sees no other.
    for folder in sys.path:
        yield from sorted((Path(folder) / "nvidia").glob("cu[0-9]*/include"), reverse=True)
