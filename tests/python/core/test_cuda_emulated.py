"""The tests of the GPU once more, on the emulated library, in a process that opens that one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
LIBRARIES = sorted(
    HERE.parents[2].glob("build/dev/tests/cuda_emulation/libendcap_cuda_emulated.so")
)
FILES = sorted(path for path in HERE.glob("test_cuda_*.py") if path != Path(__file__).resolve())


@pytest.mark.skipif(not LIBRARIES, reason="the emulated library is not built (ENDCAP_BUILD_TESTS)")
@pytest.mark.skipif("ENDCAP_CUDA_LIBRARY" in os.environ, reason="a library is chosen already")
@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_on_the_emulated_library(file: Path) -> None:
    environment = os.environ | {
        "ENDCAP_CUDA_LIBRARY": str(LIBRARIES[0]),
        "ENDCAP_REQUIRE_CUDA": "1",
    }
    if file.stem == "test_cuda_memory":
        environment["ENDCAP_EMULATED_MEMORY_MB"] = "90"
    if file.stem == "test_cuda_streams":
        environment["ENDCAP_EMULATED_DEVICES"] = "2"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)]
    done = subprocess.run(
        command, cwd=HERE.parents[2], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert re.search(r"\d+ passed", done.stdout)
