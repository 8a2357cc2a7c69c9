"""Preprocessing into shared memory, and postprocessing of the head in it.

    pip install "$(ls endcap-0.1.0-*.whl)[client]"
    endcap serve model_repository --client-shared-memory
    python examples/python/shared_memory.py photo.jpg another.jpg --url grpc://127.0.0.1:8001

With a server on the same machine only names and shapes are sent over the connection. Use it for
networks of your own, and where the server's CPUs are the bottleneck: it calls `detector` between
endcap's preprocessing and postprocessing.

Prints a line for each detection: file, class id, score, box x1 y1 x2 y2 in pixels.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

import endcap
from endcap.client import SharedMemoryPool

TENSOR, HEAD = (1, 3, 640, 640), (1, 10, 8400)
ROOM = 4 * (int(np.prod(TENSOR)) + int(np.prod(HEAD))) + 128  # bytes; each begins aligned

PREPROCESS = endcap.Preprocessor("ultralytics", size=640)
POSTPROCESS = endcap.Postprocessor("yolov8", num_classes=6, score_threshold=0.4)


def detect(pool: SharedMemoryPool, image: bytes) -> Any:
    """Return the detections of one image. Raises RequestError and endcap's errors of images."""
    with pool.acquire() as lease:
        tensor, images = lease.empty("images", TENSOR, np.float32)
        made = PREPROCESS(image, out=tensor)
        head = lease.output("head", HEAD, np.float32)
        result = pool.infer(lease, "detector", [images], [head])
        detections: Any = POSTPROCESS(lease.read("head", result), made.geometry)
        return detections[0]


def show(file: Path, detections: Any) -> None:
    """Print the detections of one image."""
    for box, score, class_id in zip(
        detections.boxes, detections.scores, detections.class_ids, strict=True
    ):
        print(f"{file}  {class_id}  {score:.3f}  " + " ".join(f"{side:.1f}" for side in box))


def process(pool: SharedMemoryPool, file: Path) -> bool:
    """Print the detections of a file, or the error; return whether it succeeded."""
    try:
        show(file, detect(pool, file.read_bytes()))
    except (endcap.EndcapError, OSError) as error:
        print(f"{file}: {error}", file=sys.stderr)
        return False
    return True


def main() -> int:
    """Return 1 where a file failed, or there is no server."""
    parser = argparse.ArgumentParser(description="Detections by tensors in shared memory.")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--url", default="grpc://127.0.0.1:8001", help="or http://HOST:PORT")
    options = parser.parse_args()
    failed = False
    try:
        with SharedMemoryPool(options.url, regions=2, region_bytes=ROOM) as pool:
            for file in options.files:
                failed |= not process(pool, file)
    except endcap.EndcapError as error:
        sys.exit(f"shared_memory.py: {error}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
