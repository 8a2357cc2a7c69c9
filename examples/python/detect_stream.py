"""Detections in the frames of a video, in the order of the frames.

    pip install "$(ls endcap-0.1.0-*.whl)[client]"
    ffmpeg -i video.mp4 -f mjpeg - | python examples/python/detect_stream.py
    cat photo.jpg another.jpg | python examples/python/detect_stream.py

Reads concatenated JPEGs from standard input, sends a few of them at once, and prints a JSON object
per line: image, status, detections. A decoupled model has several
lines for a frame, the last one with "final": true. With --sequence ID the frames
are a sequence of a stateful model. A truncated frame has a line with its status.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from typing import BinaryIO

from endcap import EndcapError
from endcap.client import DetectionClient

# Behind an end of image and before a start; within data, ff has 00 or a restart marker behind it.
BETWEEN_FRAMES = re.compile(rb"(?<=\xff\xd9)|(?=\xff\xd8\xff)")


def frames(stream: BinaryIO, piece_bytes: int = 1 << 16) -> Iterator[bytes]:
    """Yield the JPEGs of an unbuffered stream as they come, cut ones too; none has a thumbnail."""
    data = b""
    while piece := stream.read(piece_bytes):
        *whole, data = BETWEEN_FRAMES.split(data + piece)
        yield from filter(None, whole)
    if data:
        yield data


def main() -> int:
    """Return 1 where a frame failed."""
    parser = argparse.ArgumentParser(description="Detections in JPEGs on standard input.")
    parser.add_argument("--url", default="grpc://127.0.0.1:8001")
    parser.add_argument("--model", default="detect")
    parser.add_argument("--sequence", type=int, help="the id of a sequence, above 0")
    options = parser.parse_args()
    failed = False
    try:
        with (
            # Unbuffered: the client's thread reads, and may wait within a read when Ctrl-C comes.
            open(0, "rb", buffering=0, closefd=False) as pictures,
            DetectionClient(options.url, model=options.model) as client,
        ):
            for result in client.detect_stream(frames(pictures), sequence=options.sequence):
                failed |= not result.ok
                line = {"final": result.final, **result.to_dict()}
                print(json.dumps(line), flush=True)
    except EndcapError as error:
        sys.exit(f"detect_stream.py: {error}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
