"""A tensor that stays on the GPU from preprocessing to the server, and a head that does so back.

    pip install "$(ls endcap-0.1.0-*.whl)[client,cuda]"
    python examples/python/cuda_shared_memory.py photo.jpg another.jpg --url grpc://127.0.0.1:8001

Needs a GPU that this process and the server on the same machine both see. It is shared_memory.py
with `kind="cuda"`: the tensor is copied once, on the GPU, and boxes are read out of the head there.
Without a GPU it prints that and ends with 1.

Prints a line for each detection: file, class id, score, box x1 y1 x2 y2 in pixels.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

import endcap
from endcap.client import RequestError, SharedMemoryPool

TENSOR, HEAD = (1, 3, 640, 640), (1, 10, 8400)
ROOM = 4 * (int(np.prod(TENSOR)) + int(np.prod(HEAD))) + 128  # bytes; each begins aligned


class Detector:
    """`detector` on the server, and its two ends on a GPU here."""

    def __init__(self, pool: SharedMemoryPool) -> None:
        self._pool = pool
        self._preprocess = endcap.Preprocessor("ultralytics", size=640, device="cuda")
        self._postprocess = endcap.Postprocessor(
            "yolov8", num_classes=6, score_threshold=0.4, device="cuda"
        )

    def __call__(self, image: bytes) -> Any:
        """Return the detections of one image. Raises RequestError and endcap's errors."""
        made = self._preprocess(image)
        with self._pool.acquire() as lease:
            images = lease.put("images", made.images)
            head = lease.output("head", HEAD, np.float32)
            result = self._pool.infer(lease, "detector", [images], [head])
            found: Any = self._postprocess(lease.read("head", result), made.geometry)
            return found[0]  # on the host


def show(file: Path, found: Any) -> None:
    """Print the detections of one image."""
    for box, score, class_id in zip(found.boxes, found.scores, found.class_ids, strict=True):
        print(f"{file}  {class_id}  {score:.3f}  " + " ".join(f"{side:.1f}" for side in box))


def main() -> int:
    """Return 1 where a file failed, or there is no GPU."""
    parser = argparse.ArgumentParser(description="Detections by tensors that stay on the GPU.")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--url", default="grpc://127.0.0.1:8001", help="or http://HOST:PORT")
    options = parser.parse_args()
    try:
        with SharedMemoryPool(options.url, regions=2, region_bytes=ROOM, kind="cuda") as pool:
            detect = Detector(pool)
            for file in options.files:
                show(file, detect(file.read_bytes()))
    except (RequestError, endcap.EndcapError, OSError) as error:
        print(f"cuda_shared_memory.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
