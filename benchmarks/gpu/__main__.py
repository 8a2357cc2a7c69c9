"""Times preprocessing, postprocessing and both together on a GPU: python -m benchmarks.gpu.

Results are compared with the CPU's before they are timed. Exits with 1 where they differ.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

import endcap
from benchmarks.gpu.inputs import TINY, Sizes, encode_jpeg, make_heads, make_images
from benchmarks.gpu.peers import PEERS
from benchmarks.gpu.timing import Clock, is_emulated, measure, open_clock
from endcap import _core

ROOT = Path(__file__).resolve().parents[2]
RESULT = ROOT / "benchmarks" / "results" / "gpu.json"
PACKAGES = ("endcap", "numpy", "torch", "torchvision", "nvidia-dali-cuda130", "cvcuda-cu13")
# nvJPEG's inverse DCT rounds differently: NVJPEG_STEPS in tests/support/tolerances.py.
NVJPEG_DIFFERENCE = 6.01 / 255
# Peers weight pixels otherwise than OpenCV does; on average tensors of the same images are close.
PEER_DIFFERENCE = 2 / 255
FIELDS = ("num_detections", "boxes", "scores", "class_ids", "indices")


class Benchmark:
    """The works, their rows and the reasons for rows that are missing."""

    def __init__(self, clock: Clock, sizes: Sizes, *, emulated: bool) -> None:
        self.rows: list[dict[str, Any]] = []
        self.left_out: list[str] = []
        self._clock, self._sizes = clock, sizes
        self._peers = [] if emulated else list(self._open_peers())

    def run(self) -> None:
        """Verify and time every work."""
        sizes = self._sizes
        images = make_images(sizes)
        files = {id(image): encode_jpeg(image) for image in images}
        heads = make_heads(sizes)
        self._time_pixels(images)
        self._time_files([files[id(image)] for image in images], heads)
        self._time_heads(heads)

    def _time_pixels(self, images: list[Any]) -> None:
        sizes = self._sizes
        work = f"{sizes.batch} x {sizes.width}x{sizes.height} pixels to tensor"
        expected = endcap.Preprocessor(size=sizes.size)(images).images
        preprocessor = endcap.Preprocessor(size=sizes.size, device="cuda")
        batch = upload(np.stack(images))
        np.testing.assert_array_equal(preprocessor(batch).images.to_numpy(), expected)
        self._time(work, "endcap", partial(preprocessor, batch))
        for peer in self._peers:
            if hasattr(peer, "upload_images"):
                with self._leaving_out(work, peer):
                    on_gpu = peer.upload_images(images)
                    assert_near(peer.to_host(peer.preprocess(on_gpu)), expected)
                    self._time(work, peer.name, partial(peer.preprocess, on_gpu))

    def _time_files(self, files: list[bytes], heads: Any) -> None:
        """Time files to tensors, and files to detections with heads that lie on the GPU."""
        sizes = self._sizes
        work = f"{sizes.batch} x {sizes.width}x{sizes.height} JPEG to tensor"
        both = f"{sizes.batch} x {sizes.width}x{sizes.height} JPEG to detections, without network"
        expected = endcap.Preprocessor(size=sizes.size)(files).images
        postprocessor = endcap.Postprocessor(device="cuda")
        on_gpu = upload(heads)
        differences = {"hybrid": 0.0, "nvjpeg": NVJPEG_DIFFERENCE}
        for decoder, difference in differences.items():
            options: dict[str, Any] = {"size": sizes.size, "jpeg_decoder": decoder}
            if decoder == "nvjpeg":
                options["decode"] = "fast"
                if not endcap.nvjpeg_state().available:
                    self.left_out.append(endcap.nvjpeg_state().reason)
                    continue
            preprocessor = endcap.Preprocessor(**options, device="cuda")
            result = preprocessor(files)
            if set(result.decoders) != {decoder}:
                raise AssertionError(f"decoded by {set(result.decoders)}, expected {decoder}")
            np.testing.assert_allclose(result.images.to_numpy(), expected, rtol=0, atol=difference)
            decode = partial(preprocessor, files)
            enqueue = partial(postprocessor.enqueue, on_gpu, upload(result.geometry))
            self._time(work, f"endcap, {decoder}", decode)
            self._time(both, f"endcap, {decoder}", decode, enqueue)
        for peer in self._peers:
            if hasattr(peer, "decode"):
                with self._leaving_out(work, peer):
                    assert_near(peer.to_host(peer.decode(files)), expected)
                    self._time(work, peer.name, partial(peer.decode, files))
            if hasattr(peer, "decode") and hasattr(peer, "postprocess"):
                with self._leaving_out(both, peer):
                    theirs = peer.upload_heads(heads)
                    calls = partial(peer.decode, files), partial(peer.postprocess, theirs)
                    self._time(both, peer.name, *calls)

    def _time_heads(self, heads: Any) -> None:
        work = f"{len(heads)} heads {list(heads.shape[1:])} to detections"
        expected: Any = endcap.Postprocessor()(heads)
        if not expected.num_detections.all():
            raise AssertionError("an image has no detections: nothing was verified")
        postprocessor = endcap.Postprocessor(device="cuda")
        on_gpu = upload(heads)
        actual: Any = postprocessor.enqueue(on_gpu).to_numpy()
        for field in FIELDS:
            np.testing.assert_array_equal(getattr(actual, field), getattr(expected, field), field)
        self._time(work, "endcap", partial(postprocessor.enqueue, on_gpu))
        for peer in self._peers:
            if hasattr(peer, "postprocess"):
                with self._leaving_out(work, peer):
                    theirs = peer.upload_heads(heads)
                    self._time(work, peer.name, partial(peer.postprocess, theirs))

    def _time(self, work: str, by: str, *calls: Callable[[], object]) -> None:
        taken = measure(self._clock, lambda: [call() for call in calls], tiny=self._sizes is TINY)
        row = {
            "work": work,
            "by": by,
            "ms": round(taken.ms, 4),
            "spread": round(taken.spread, 3),
            "images_per_second": round(self._sizes.batch / taken.ms * 1e3),
        }
        self.rows.append(row)
        print(f"{work:58} {by:16} {taken.ms:9.3f} ms  {row['images_per_second']:>8} images/s")

    def _open_peers(self) -> Iterator[Any]:
        for peer in PEERS:
            try:
                yield peer(self._sizes)
            except (ImportError, OSError, RuntimeError, endcap.EndcapError) as error:
                self.left_out.append(f"{peer.name}: {error}")

    @contextmanager
    def _leaving_out(self, work: str, peer: Any) -> Iterator[None]:
        """Leave a peer's row out where the peer fails: it is not endcap that is at fault."""
        try:
            yield
        except (ImportError, RuntimeError, AssertionError, TypeError, ValueError) as error:
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
            self.left_out.append(f"{work}, {peer.name}: {reason}")


def upload(array: Any) -> endcap.CudaArray:
    """Return a copy in GPU memory."""
    return endcap.CudaArray(_core.CudaTensor.upload(np.ascontiguousarray(array), 0, 0, None))


def assert_near(actual: Any, expected: Any) -> None:
    """Check that a peer did the same work: other interpolation, not other images."""
    difference = float(np.abs(actual - expected).mean())
    if not difference <= PEER_DIFFERENCE:
        raise AssertionError(f"its tensors differ from endcap's by {difference:.3f} on average")


def describe(device: endcap.CudaDevice) -> dict[str, Any]:
    """Return what the figures belong to, ready for JSON."""
    state = endcap.cuda_state()
    git = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"]
    commit = os.environ.get("ENDCAP_COMMIT", "")
    if not commit:
        commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": commit or "unknown",
        "gpu": device.name,
        "emulated": is_emulated(device),
        "cuda": {"driver": state.driver_version, "built with": state.runtime_version},
        "cpus": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def main() -> int:
    """Run the benchmark and write its result."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument(
        "--output",
        type=Path,
        help=f"JSON file, by default {RESULT.relative_to(ROOT)} without --tiny",
    )
    parser.add_argument(
        "--tiny", action="store_true", help="tiny sizes, for a trial or the emulated GPU"
    )
    options = parser.parse_args()
    output = options.output or (None if options.tiny else RESULT)
    state = endcap.cuda_state()
    if not state.available:
        print(f"No CUDA device was found: {state.reason}", file=sys.stderr)
        return 2
    device = state.devices[0]
    emulated = is_emulated(device)
    if emulated and not options.tiny:
        parser.error("an emulated GPU measures nothing: add --tiny to try the program on it")
    benchmark = Benchmark(open_clock(device), TINY if options.tiny else Sizes(), emulated=emulated)
    try:
        benchmark.run()
    except AssertionError as error:
        print(f"The GPU's results are not the CPU's: {error}", file=sys.stderr)
        return 1
    for reason in benchmark.left_out:
        print(f"left out: {reason}")
    if output is not None:
        result = {**describe(device), "rows": benchmark.rows, "left_out": benchmark.left_out}
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
