"""python -m gpu_benchmark OUTPUT.json [--server FOLDER]: measures, writes, prints the table."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import traceback
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import endcap
from benchmarks import machine
from gpu_benchmark.postprocess import measure_heads
from gpu_benchmark.preprocess import measure_jpegs, measure_pixels
from gpu_benchmark.rows import Results, table


def gpu_facts() -> dict[str, object]:
    """The GPU, its driver, and the CUDA of the code."""
    state = endcap.cuda_state()
    asked = ["nvidia-smi", "--query-gpu=driver_version,clocks.max.sm", "--format=csv,noheader"]
    try:
        told = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        told = ""
    return {
        "gpus": [device.name for device in state.devices],
        "driver": (told or "unknown").splitlines()[0],
        "cuda_of_driver": state.driver_version,
        "cuda_of_code": state.runtime_version,
        "architectures": state.architectures,
    }


def measuring_torch() -> Any:
    """torch, which takes the time; RuntimeError where it or a GPU is missing."""
    state = endcap.cuda_state()
    if not state.available:
        raise RuntimeError(state.reason)
    try:
        import torch
    except ImportError as error:
        raise RuntimeError("torch is not installed") from error
    if not torch.cuda.is_available():
        raise RuntimeError("torch finds no GPU")
    return torch


def main() -> int:
    """Measures what can be measured here."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--server", type=Path, help="folder with bin/tritonserver and lib/")
    options = parser.parse_args()
    try:
        torch = measuring_torch()
    except RuntimeError as error:
        print(f"nothing was measured: {error}")
        return 1 if os.environ.get("ENDCAP_REQUIRE_CUDA") == "1" else 0
    results = Results()
    parts = [partial(part, torch) for part in (measure_pixels, measure_heads, measure_jpegs)]
    if options.server is not None:
        from gpu_benchmark.server import measure_server

        parts.append(partial(measure_server, options.server))
    failed = False
    for part in parts:
        # One that fails must not cost the others their rows.
        try:
            part(results)
        except Exception:
            failed = True
            traceback.print_exc()
            results.left_out.append(f"{part.func.__name__} failed: {sys.exc_info()[1]!r}")
        write(options.output, results)
    described = write(options.output, results)
    print(f"{described['gpus']}, driver {described['driver']}, commit {described['commit']}")
    print(table(results))
    return 1 if failed else 0


def write(output: Path, results: Results) -> dict[str, Any]:
    """Writes what there is so far; returns the description of the machine."""
    described = {**machine.describe(), **gpu_facts()}
    if os.environ.get("ENDCAP_COMMIT"):
        described["commit"] = os.environ["ENDCAP_COMMIT"]
    written = {
        "machine": described,
        "rows": [asdict(row) for row in results.rows],
        "left_out": results.left_out,
    }
    output.write_text(json.dumps(written, indent=1) + "\n")
    return described


if __name__ == "__main__":
    sys.exit(main())
