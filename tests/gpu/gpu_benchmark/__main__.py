"""python -m gpu_benchmark PART --output FILE: verifies and measures one part."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from gpu_check.machine import is_emulated
from gpu_check.records import Records

import endcap
from gpu_benchmark.gpus import Gpu, UnavailableError, open_gpu
from gpu_benchmark.inputs import FULL, TINY, Sizes, heads, pictures
from gpu_benchmark.masks import measure_masks
from gpu_benchmark.postprocess import measure_heads
from gpu_benchmark.preprocess import measure_jpegs, measure_pixels
from gpu_benchmark.server import measure_server

_PARTS = {
    "pixels": measure_pixels,
    "heads": measure_heads,
    "jpeg": measure_jpegs,
    "masks": measure_masks,
}


def main() -> int:
    """Measure one part, write its records and print its table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=[*_PARTS, "server", "profile"])
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--tiny", action="store_true", help="tiny sizes: nothing is measured")
    parser.add_argument("--server", type=Path, help="folder with bin/tritonserver and lib/")
    parser.add_argument("--server-log", type=Path, default=Path(), help="folder of its log")
    options = parser.parse_args()
    sizes = TINY if options.tiny else FULL
    records = Records(options.output, is_emulated())
    records.write()
    try:
        gpu = open_gpu(records.emulated)
    except UnavailableError as error:
        records.failed.append(f"nothing was measured: {error}")
        records.write()
        print(records.failed[-1])
        return 1
    with records.part(options.part):
        if options.part == "server":
            if options.server is None:
                parser.error("server needs --server")
            measure_server(records, sizes, options.server, options.server_log)
        elif options.part == "profile":
            run_kernels(gpu, sizes)
        else:
            _PARTS[options.part](gpu, records, sizes)
    print(records.table())
    for reason in (*records.left_out, *records.failed):
        print(f"left out: {reason}")
    return 1 if records.failed else 0


def run_kernels(gpu: Gpu, sizes: Sizes) -> None:
    """Run the kernels of pixels and heads once after a first call, for a profiler to look at."""
    images = [gpu.upload(each) for each in pictures(sizes.height, sizes.width, sizes.batch)]
    head = gpu.upload(heads(sizes.batch, sizes.anchors))
    preprocessor = endcap.Preprocessor(device="cuda", size=sizes.size)
    postprocessor = endcap.Postprocessor(device="cuda")
    for _ in range(2):
        preprocessor(images).images.to_numpy()
        postprocessor.enqueue(head).to_numpy()


if __name__ == "__main__":
    sys.exit(main())
