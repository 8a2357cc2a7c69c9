"""benchmarks/gpu and scripts/gpu_machine.py on the emulated GPU, and the refusal without a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import endcap

ROOT = Path(__file__).resolve().parents[3]
EMULATED = ROOT / "build/dev/tests/cuda_emulation/libendcap_cuda_emulated.so"
needs_emulation = pytest.mark.skipif(
    not EMULATED.exists(), reason="the emulated library is not built (ENDCAP_BUILD_TESTS)"
)


def run(*command: object, library: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "ENDCAP_CUDA_LIBRARY"}
    if library is not None:
        environment["ENDCAP_CUDA_LIBRARY"] = str(library)
    arguments = [sys.executable, *map(str, command)]
    return subprocess.run(
        arguments, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.skipif(endcap.cuda_state().available, reason="there is a GPU")
def test_the_benchmark_refuses_a_machine_without_a_gpu() -> None:
    done = run("-m", "benchmarks.gpu")
    assert done.returncode == 2
    assert done.stderr.startswith("No CUDA device was found: ")
    assert "Traceback" not in done.stderr


@needs_emulation
def test_the_benchmark_does_not_measure_an_emulated_gpu() -> None:
    done = run("-m", "benchmarks.gpu", library=EMULATED)
    assert done.returncode == 2
    assert "add --tiny" in done.stderr


@needs_emulation
def test_a_dry_run_from_the_archive_to_the_results(tmp_path: Path) -> None:
    """The archive holds all that the tests and the benchmark import."""
    packed = run("scripts/gpu_machine.py", "pack", tmp_path / "endcap-gpu.tar", "--dry-run")
    assert packed.returncode == 0, packed.stderr
    with tarfile.open(tmp_path / "endcap-gpu.tar") as archive:
        archive.extractall(tmp_path)
    script, out = tmp_path / "endcap-gpu/scripts/gpu_machine.py", tmp_path / "out"
    done = run(script, "run", "--dry-run", "--out", out, library=EMULATED)
    logs = "".join(log.read_text()[-3000:] for log in out.glob("*.log"))
    assert done.returncode == 0, done.stdout + done.stderr + logs
    results = json.loads((out / "results.json").read_text())
    assert {name: step["state"] for name, step in results["steps"].items()} == {
        "smoke": "passed",
        "tests": "passed",
        "benchmark": "passed",
    }
    assert "test_smoke_cuda.py::test_a_jpeg_file" in (out / "tests.log").read_text()
    measured = json.loads((out / "gpu.json").read_text())
    assert measured["emulated"] is True
    assert measured["commit"] == results["commit"] in packed.stdout
    assert {row["by"] for row in measured["rows"]} == {"endcap", "endcap, hybrid"}
    assert len(measured["rows"]) == 4


def test_a_step_that_fails_does_not_keep_the_others_from_running(tmp_path: Path) -> None:
    done = run(
        *("scripts/gpu_machine.py", "run", "--dry-run", "--out", tmp_path),
        library=tmp_path / "missing.so",
    )
    assert done.returncode == 1
    steps = json.loads((tmp_path / "results.json").read_text())["steps"]
    assert [step["state"] for step in steps.values()] == ["failed", "passed", "failed"]
    assert "No CUDA device was found" in (tmp_path / "benchmark.log").read_text()
