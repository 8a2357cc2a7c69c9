"""Compare builds of the GPU code: python -m gpu_benchmark.variants FOLDER OUTPUT.json

FOLDER holds NAME/libendcap_cuda.so, as scripts/cuda_variants.py writes them; `default` has the
compiled defaults. Each library runs in processes of its own, so that one that crashes loses its own
rows alone. Tensors and detections are compared with the CPU's, every bit, before anything is timed.
Where there is no torch, or the GPU is emulated, small batches are verified and nothing is measured.
Exits with 1 when a library fails.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from textwrap import shorten
from typing import Any

import numpy as np

import endcap
from gpu_benchmark.inputs import FULL, TINY, heads, pictures
from gpu_benchmark.timing import enqueue_ms, kernel_times, stream_ms

LIBRARY = "libendcap_cuda.so"
DEFAULT = "default"
WORKS = ("preprocess", "postprocess")
_FIELDS = ("num_detections", "boxes", "scores", "class_ids", "indices", "status")
_SECONDS_PER_PROCESS = 120


def usable_torch() -> Any:
    """torch where it can measure on this GPU, else None."""
    if "emulation" in endcap.cuda_state().devices[0].name:
        return None
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


def measure(torch: Any, run: Callable[[], object]) -> dict[str, Any]:
    """Returns milliseconds of a call: its kernels, one of many enqueued, and the host's part."""
    try:
        kernels = kernel_times(torch, run)
    except RuntimeError:  # the profiler sees none
        kernels = {}
    total = sum(count * mean for count, mean in kernels.values()) / 1e3
    return {
        "kernels_ms": total or None,
        "call_ms": stream_ms(torch, run).ms,
        "host_ms": enqueue_ms(torch, run).ms,
        "kernels": kernels,
    }


def run_one() -> dict[str, Any]:
    """Verifies and measures the library of this process.

    Raises:
        AssertionError: A result differs from the CPU's.
        RuntimeError: The library or its GPU cannot be used.
    """
    state = endcap.cuda_state()
    if not state.available or state.library_path != os.environ["ENDCAP_CUDA_LIBRARY"]:
        raise RuntimeError(state.reason or f"{state.library_path} is used instead")
    torch = usable_torch()
    sizes = FULL if torch else TINY
    images = pictures(sizes.height, sizes.width, sizes.batch)
    head = heads(sizes.batch, sizes.anchors)
    preprocessor = endcap.Preprocessor(device="cuda", size=sizes.size)
    tensors = endcap.Preprocessor(size=sizes.size)(images).images
    np.testing.assert_array_equal(preprocessor(images).images.to_numpy(), tensors)
    postprocessor = endcap.Postprocessor(device="cuda")
    expected: Any = endcap.Postprocessor()(head)
    enqueued: Any = postprocessor(head)
    actual = enqueued.to_numpy()
    if not expected.num_detections.all():
        raise AssertionError("an image has no detections: nothing is verified")
    for field in _FIELDS:
        np.testing.assert_array_equal(getattr(actual, field), getattr(expected, field), field)
    if torch is None:
        return {"measured": False}
    on_gpu = torch.from_numpy(np.stack(images)).cuda()
    batch = torch.from_numpy(head).cuda()
    return {
        "measured": True,
        "preprocess": measure(torch, lambda: preprocessor(on_gpu)),
        "postprocess": measure(torch, lambda: postprocessor.enqueue(batch)),
    }


def run_process(library: Path) -> dict[str, Any]:
    """Returns what `run_one` returns in a process with this library, or {"error": ...}."""
    environment = {**os.environ, "ENDCAP_CUDA_LIBRARY": str(library.resolve())}
    command = [sys.executable, "-m", "gpu_benchmark.variants", "--one"]
    try:
        done = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS_PER_PROCESS,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"no result within {_SECONDS_PER_PROCESS} s"}
    if done.returncode == 0:
        return dict(json.loads(done.stdout.splitlines()[-1]))
    last = (done.stderr.strip() or "no message").splitlines()
    return {"error": f"exit status {done.returncode}: {last[-1]}"}


def combine(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the medians of a library's runs, or the first error."""
    for run in runs:
        if "error" in run or not run["measured"]:
            return run
    combined: dict[str, Any] = {"measured": True}
    for work in WORKS:
        combined[work] = {"kernels": runs[0][work]["kernels"]}
        for figure in ("kernels_ms", "call_ms", "host_ms"):
            values = [run[work][figure] for run in runs]
            combined[work][figure] = None if None in values else median(values)
            combined[work][f"{figure}_runs"] = values
    return combined


def ranking(results: dict[str, dict[str, Any]], work: str) -> str:
    """Returns a table of what was measured, the fastest first, the defaults marked by *."""
    measured = {name: each[work] for name, each in results.items() if each.get("measured")}
    if not measured:
        return f"{work}: not measured"
    by = "call_ms" if any(m["kernels_ms"] is None for m in measured.values()) else "kernels_ms"
    base = measured.get(DEFAULT, {}).get(by)
    lines = [f"{work:32}  {'kernels ms':>10}  {'call ms':>8}  {'host ms':>8}  against default"]
    for name, each in sorted(measured.items(), key=lambda item: item[1][by]):
        kernels = "-" if each["kernels_ms"] is None else f"{each['kernels_ms']:.4f}"
        change = f"{100 * (each[by] / base - 1):+.1f} %" if base else "-"
        marked = f"* {name}" if name == DEFAULT else f"  {name}"
        times = f"{kernels:>10}  {each['call_ms']:8.4f}  {each['host_ms']:8.4f}"
        lines.append(f"{marked:32}  {times}  {change}")
    return "\n".join(lines)


def main() -> int:
    """Run every library of a folder and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("output", type=Path, nargs="?")
    parser.add_argument("--rounds", type=int, default=2, help="processes of each library")
    parser.add_argument("--one", action="store_true", help="this process: used by the others")
    options = parser.parse_args()
    if options.one:
        try:
            print(json.dumps(run_one()))
        except Exception as error:  # whatever it is, it is the result of this library
            print(json.dumps({"error": shorten(f"{type(error).__name__}: {error}", 300)}))
        return 0
    if options.output is None:
        parser.error("FOLDER and OUTPUT.json are needed")
    libraries = sorted(options.folder.glob(f"*/{LIBRARY}"))
    libraries.sort(key=lambda library: library.parent.name != DEFAULT)
    if not libraries:
        parser.error(f"{options.folder} holds no NAME/{LIBRARY}; see scripts/cuda_variants.py")
    record = options.folder / "variants.json"
    built = json.loads(record.read_text())["variants"] if record.is_file() else {}
    runs: dict[str, list[dict[str, Any]]] = {}
    results: dict[str, dict[str, Any]] = {}
    for number in range(options.rounds):
        for library in libraries:
            name = library.parent.name
            if "error" in results.get(name, {}):
                continue
            runs.setdefault(name, []).append(run_process(library))
            constants = built.get(name, {}).get("constants")
            results[name] = {"constants": constants, **combine(runs[name])}
            options.output.write_text(json.dumps({"variants": results}, indent=1) + "\n")
            told = results[name].get("error", "verified")
            print(f"round {number + 1}, {name}: {told}", flush=True)
    for work in WORKS:
        print(ranking(results, work))
    return 1 if any("error" in each for each in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
