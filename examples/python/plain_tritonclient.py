"""Detections in JPEG files with NVIDIA's tritonclient alone: endcap is not needed here.

    pip install 'tritonclient[grpc]'
    python examples/python/plain_tritonclient.py photo.jpg another.jpg

The protocol is Triton's own: a file is one element of the BYTES input `encoded`, the detections
come back as tensors. Prints a line for each: file, class, score, box x1 y1 x2 y2 in pixels.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

OUTPUTS = ("num_detections", "detection_boxes", "detection_scores", "detection_classes")


def request(image: bytes) -> list[Any]:
    """Return the model's input: shape [1, 1] is a batch of one image, which is one element."""
    encoded = triton.InferInput("encoded", [1, 1], "BYTES")
    encoded.set_data_from_numpy(np.array([[image]], np.object_))
    return [encoded]


def show(name: str, response: Any) -> None:
    """Print the rows that count; those behind them are padding."""
    count = response.as_numpy("num_detections")[0, 0]
    boxes, scores, classes = (response.as_numpy(output)[0, :count] for output in OUTPUTS[1:])
    for box, score, class_id in zip(boxes, scores, classes, strict=True):
        print(f"{name}  {class_id}  {score:.3f}  " + " ".join(f"{side:.1f}" for side in box))


def main() -> int:
    """Send each file; return how many failed."""
    parser = argparse.ArgumentParser(description="Detections in JPEG files.")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--url", default="127.0.0.1:8001", help="HOST:PORT of gRPC")
    parser.add_argument("--model", default="detect")
    options = parser.parse_args()
    outputs = [triton.InferRequestedOutput(name) for name in OUTPUTS]
    failed = 0
    with triton.InferenceServerClient(options.url) as client:
        for file in options.files:
            try:
                response = client.infer(
                    options.model,
                    request(file.read_bytes()),
                    outputs=outputs,
                    request_id=file.name,
                    client_timeout=30,
                )
                show(str(file), response)
            except (InferenceServerException, OSError) as error:
                failed += 1
                print(f"{file}: {error}", file=sys.stderr)
    return failed


if __name__ == "__main__":
    sys.exit(min(main(), 1))
