"""tests/gpu/gpu_benchmark/variants.py on the emulated GPU: what is verified, and what is lost."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

if "emulated" not in os.environ.get("ENDCAP_CUDA_LIBRARY", ""):
    pytest.skip("for the emulated library", allow_module_level=True)

ROOT = Path(__file__).resolve().parents[3]
EMULATED = Path(os.environ["ENDCAP_CUDA_LIBRARY"])
# The emulated library, but its preprocess does nothing.
IDLE = """
#include <dlfcn.h>
#include "cuda/cuda_api.h"
#include "cuda_library/kernel_table.h"
extern "C" const endcap::CudaApi* EndcapCudaApi() {
  void* library = dlopen(EMULATED, RTLD_NOW | RTLD_LOCAL);
  static endcap::CudaApi table =
      *reinterpret_cast<endcap::CudaApiFunction>(dlsym(library, endcap::kCudaApiSymbol))();
  static endcap::KernelTable kernels = *table.kernels;
  kernels.preprocess = [](int32_t, const endcap::FusedLaunch*, void*) { return int32_t{0}; };
  table.kernels = &kernels;
  return &table;
}
"""
CRASHING = "#include <cstdlib>\n__attribute__((constructor)) void crash() { std::abort(); }\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "variants"
    add(made, "default")
    return made


def add(folder: Path, name: str, source: str = "") -> None:
    """Adds the emulated library under a name, or one compiled from C++."""
    target = folder / name / "libendcap_cuda.so"
    target.parent.mkdir(parents=True)
    if not source:
        shutil.copy2(EMULATED, target)
        return
    code = folder / f"{name}.cc"
    code.write_text(source)
    command = ["g++", "-std=c++20", "-shared", "-fPIC", f"-DEMULATED={json.dumps(str(EMULATED))}"]
    command += [f"-I{ROOT / 'csrc'}", f"-I{ROOT / 'csrc/include'}", str(code), "-o", str(target)]
    subprocess.run(command, check=True)


def run(folder: Path, output: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests" / "gpu")}
    command = [sys.executable, "-m", "gpu_benchmark.variants", str(folder), str(output)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_small_batches_are_verified_and_nothing_is_measured(folder: Path, tmp_path: Path) -> None:
    add(folder, "same")
    constants = {"PREPROCESS_MAX_THREADS": 64}
    record = {"variants": {"same": {"constants": constants}}}
    (folder / "variants.json").write_text(json.dumps(record))
    done = run(folder, tmp_path / "out.json")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[:2] == ["round 1, default: verified", "round 1, same: verified"]
    assert lines[-2:] == ["preprocess: not measured", "postprocess: not measured"]
    results = json.loads((tmp_path / "out.json").read_text())["variants"]
    assert results["same"] == {"constants": constants, "measured": False}


def test_a_library_that_fails_loses_its_own_rows(folder: Path, tmp_path: Path) -> None:
    add(folder, "crashing", CRASHING)
    add(folder, "idle", IDLE)
    add(folder, "no-table", "int x;\n")
    (folder / "text").mkdir()
    (folder / "text" / "libendcap_cuda.so").write_text("no library at all")
    done = run(folder, tmp_path / "out.json")
    assert done.returncode == 1
    assert "Traceback" not in done.stdout + done.stderr
    results = json.loads((tmp_path / "out.json").read_text())["variants"]
    assert results.pop("default") == {"constants": None, "measured": False}
    assert "exit status -6" in results["crashing"]["error"]
    assert results["idle"]["error"].startswith("AssertionError: Arrays are not equal")
    assert "is not endcap's GPU code" in results["no-table"]["error"]
    assert "could not be loaded" in results["text"]["error"]
    assert done.stdout.count("default: verified") == 2
    assert done.stdout.count("crashing: exit status") == 1, "not run again"


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path, tmp_path / "out.json")
    assert done.returncode == 2
    assert "holds no NAME/libendcap_cuda.so" in done.stderr


@pytest.fixture
def variants(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "tests" / "gpu")
    return importlib.import_module("gpu_benchmark.variants")


def measured(kernels_ms: float | None, call_ms: float) -> dict[str, object]:
    each = {"kernels_ms": kernels_ms, "call_ms": call_ms, "host_ms": 0.01, "kernels": {}}
    return {"measured": True, "preprocess": each, "postprocess": each}


def test_the_fastest_comes_first_and_the_defaults_are_marked(variants: ModuleType) -> None:
    results = {
        "default": measured(0.2, 0.3),
        "slow": measured(0.25, 0.2),
        "fast": measured(0.15, 0.4),
        "lost": {"error": "crashed"},
    }
    rows = variants.ranking(results, "preprocess").splitlines()[1:]
    assert [row[:9].split()[-1] for row in rows] == ["fast", "default", "slow"]
    assert [row.startswith("* ") for row in rows] == [False, True, False]
    assert [row.split("  ")[-1] for row in rows] == ["-25.0 %", "+0.0 %", "+25.0 %"]
    results["fast"] = measured(None, 0.4)
    rows = variants.ranking(results, "preprocess").splitlines()[1:]
    assert [row[2:9].strip() for row in rows] == ["slow", "default", "fast"]


def test_rounds_are_combined_by_their_median(variants: ModuleType) -> None:
    combined = variants.combine([measured(0.1, 0.5), measured(0.3, 0.6), measured(0.2, 0.1)])
    assert combined["preprocess"]["kernels_ms"] == 0.2
    assert combined["preprocess"]["kernels_ms_runs"] == [0.1, 0.3, 0.2]
    assert combined["postprocess"]["call_ms"] == 0.5
    assert variants.combine([measured(0.1, 0.5), {"error": "crashed"}]) == {"error": "crashed"}
    unknown = variants.combine([measured(0.1, 0.5), measured(None, 0.5)])
    assert unknown["preprocess"]["kernels_ms"] is None
