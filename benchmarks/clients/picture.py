"""The picture that is sent, and its tensor."""

from __future__ import annotations

from benchmarks.paths import ROOT
from benchmarks.preprocess import SIZE
from endcap import PreprocessResult, preprocess

IMAGE = ROOT / "model_repository" / "detect" / "samples" / "shapes_1920x1080.jpg"


def tensor(image: bytes) -> PreprocessResult:
    """The tensor of a file and its geometry, as the shipped `preprocess` makes them."""
    return preprocess(image, preset="ultralytics", size=SIZE)
