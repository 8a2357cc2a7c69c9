"""What is asked of the server: pairs of models, and the image that both get."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.server import repository, verify

_DETECT_IMAGE = repository.SHIPPED / "detect" / "samples" / "shapes_1920x1080.jpg"
_TENSOR_BYTES = 3 * 640 * 640 * 4
_DETECTIONS_BYTES = 300 * 4 * 4


@dataclass(frozen=True)
class Task:
    """Two models that answer the same, and the image they get."""

    name: str
    ours: str
    theirs: str
    image: Path
    output_bytes: int
    verify: Callable[[Any, str, str, bytes], str]


def tasks(images: Sequence[Path]) -> list[Task]:
    """Preprocessing of each image, and the whole ensemble on a picture with objects in it."""
    found = [
        Task(
            f"preprocess, {image.stem.replace('_', ' ')}",
            "preprocess",
            "preprocess_opencv",
            image,
            _TENSOR_BYTES,
            verify.tensors,
        )
        for image in images
    ]
    detect = Task(
        "detect, 1920x1080 with shapes",
        "detect",
        "detect_opencv",
        _DETECT_IMAGE,
        _DETECTIONS_BYTES,
        verify.detections,
    )
    return [*found, detect]
