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
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from textwrap import shorten
from typing import Any

import numpy as np

import endcap

LIBRARY = "libendcap_cuda.so"
DEFAULT = "default"
WORKS = ("preprocess", "postprocess")
_FIELDS = ("num_detections", "boxes", "scores", "class_ids", "indices", "status")
_SECONDS_PER_PROCESS = 120
_WARM_UP_SECONDS = 0.3
_CALLS = 20


def make_pictures(count: int, height: int, width: int) -> list[Any]:
    """Noise, uint8 [height, width, 3]; at most 8 are different."""
    random = np.random.default_rng(5)
    shape = (min(count, 8), height, width, 3)
    different = random.integers(0, 256, shape, np.uint8)
    return [different[number % len(different)] for number in range(count)]


def make_heads(count: int, anchors: int, objects: int) -> Any:
    """Heads [count, 84, anchors], float32: few scores are high, in groups of overlapping boxes."""
    random = np.random.default_rng(7)
    heads = np.empty((count, 84, anchors), np.float32)
    for head in heads:
        head[:2] = random.uniform(0, 640, (2, anchors))
        head[2:4] = random.uniform(8, 200, (2, anchors))
        head[4:] = random.uniform(0, 0.02, (80, anchors))
        for first in random.choice(anchors - 20, objects, replace=False):
            around = slice(first, first + 20)
            head[:4, around] = head[:4, [first]] + random.normal(0, 3, (4, 20))
            head[4 + random.integers(80), around] = random.uniform(0.2, 0.95, 20)
    return heads


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
    """Returns milliseconds of a call: its kernels by torch's profiler, and one of many enqueued."""
    end = time.perf_counter() + _WARM_UP_SECONDS
    while time.perf_counter() < end:
        run()
        torch.cuda.synchronize()
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    start = time.perf_counter()
    for _ in range(_CALLS):
        run()
    host = time.perf_counter() - start
    last.record()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(_CALLS):
            run()
        torch.cuda.synchronize()
    kernels = {
        event.key: event.device_time_total / 1e3 / _CALLS
        for event in profile.key_averages()
        if event.device_time_total > 0 and not event.key.lower().startswith(("mem", "cuda"))
    }
    return {
        "kernels_ms": sum(kernels.values()) or None,
        "call_ms": first.elapsed_time(last) / _CALLS,
        "host_ms": 1e3 * host / _CALLS,
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
    pictures = make_pictures(64, 1080, 1920) if torch else make_pictures(3, 90, 160)
    heads = make_heads(64, 8400, 40) if torch else make_heads(2, 300, 3)
    preprocessor = endcap.Preprocessor(device="cuda", size=None if torch else 96)
    tensors = endcap.Preprocessor(size=None if torch else 96)(pictures).images
    np.testing.assert_array_equal(preprocessor(pictures).images.to_numpy(), tensors)
    postprocessor = endcap.Postprocessor(device="cuda")
    expected = endcap.Postprocessor()(heads)
    actual = postprocessor(heads).to_numpy()
    if not expected.num_detections.all():
        raise AssertionError("an image has no detections: nothing is verified")
    for field in _FIELDS:
        np.testing.assert_array_equal(getattr(actual, field), getattr(expected, field), field)
    if torch is None:
        return {"measured": False}
    on_gpu = [torch.from_numpy(picture).cuda() for picture in pictures]
    batch = torch.from_numpy(heads).cuda()
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
