"""python -m gpu_benchmark OUTPUT.json [--server FOLDER]: measures, writes, prints the table."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import endcap
from benchmarks import machine
from gpu_benchmark.masks import measure_masks
from gpu_benchmark.postprocess import measure_heads
from gpu_benchmark.preprocess import measure_jpegs, measure_pixels
from gpu_benchmark.rows import Results, table
from gpu_benchmark.timing import ask_gpu


def gpu_facts() -> dict[str, object]:
    """The GPU, its driver, and the CUDA of the code."""
    state = endcap.cuda_state()
    return {
        "gpus": [device.name for device in state.devices],
        "driver": ask_gpu("driver_version,clocks.max.sm"),
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
    measured = (measure_pixels, measure_heads, measure_jpegs, measure_masks)
    parts = [partial(part, torch) for part in measured]
    if options.server is not None:
        from gpu_benchmark.server import measure_server

        parts.append(partial(measure_server, options.server))
    write(options.output, results, complete=False)
    for part in parts:
        with results.part(part.func.__name__):
            part(results)
        results.sm_clock_mhz[part.func.__name__] = ask_gpu("clocks.sm")
        write(options.output, results, complete=False)
    described = write(options.output, results, complete=True)
    print(f"{described['gpus']}, driver {described['driver']}, commit {described['commit']}")
    print(table(results))
    return 1 if results.failed else 0


def write(output: Path, results: Results, complete: bool) -> dict[str, Any]:
    """Writes what there is so far; returns the description of the machine.

    complete: whether all parts have had their turn. What run.sh noted in the file stays.
    """
    described = {**machine.describe(), **gpu_facts()}
    if os.environ.get("ENDCAP_COMMIT"):
        described["commit"] = os.environ["ENDCAP_COMMIT"]
    noted = json.loads(output.read_text()) if output.exists() else {}
    written = {
        "complete": complete,
        "machine": described,
        "sm_clock_mhz": results.sm_clock_mhz,
        "rows": [asdict(row) for row in results.rows],
        "left_out": results.left_out,
        "failed": results.failed,
        "checks": noted.get("checks", {}),
    }
    output.write_text(json.dumps(written, indent=1) + "\n")
    return described


if __name__ == "__main__":
    sys.exit(main())
