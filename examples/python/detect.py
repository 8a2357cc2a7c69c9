"""Detections in JPEG files: the shortest program with endcap's client.

    pip install "$(ls endcap-0.1.0-*.whl)[client]"
    python examples/python/detect.py photo.jpg another.jpg --url grpc://127.0.0.1:8001

Prints a line for each detection: file, class, score, box x1 y1 x2 y2 in pixels. A file that fails
has a line with the reason on standard error, and does not affect the others.
"""

from __future__ import annotations

import argparse
import sys

from endcap import EndcapError
from endcap.client import DetectionClient, ImageResult


def show(result: ImageResult) -> None:
    """Print the result of an image."""
    if not result.ok:
        print(f"{result.image}: {result.status}: {result.error}", file=sys.stderr)
    for detection in result.detections:
        box = " ".join(f"{side:.1f}" for side in detection.box)
        print(f"{result.image}  {detection.label}  {detection.score:.3f}  {box}")


def main() -> int:
    """Send all files, at most four at once; return 1 where one failed."""
    parser = argparse.ArgumentParser(description="Detections in JPEG files.")
    parser.add_argument("files", nargs="+")
    parser.add_argument("--url", default="grpc://127.0.0.1:8001", help="or http://HOST:PORT")
    parser.add_argument("--model", default="detect")
    options = parser.parse_args()
    try:
        with DetectionClient(options.url, model=options.model, concurrency=4) as client:
            results = client.detect(options.files)
    except EndcapError as error:
        sys.exit(f"detect.py: {error}")
    for result in results:
        show(result)
    return 0 if all(result.ok for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
