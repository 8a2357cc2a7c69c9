"""Writes the model repository of one pipeline."""

from __future__ import annotations

import shutil
from pathlib import Path

from benchmarks.pipelines import recorded_head
from benchmarks.pipelines.pipelines import Network, Pipeline
from benchmarks.server.repository import OPENCV_MODELS, SHIPPED, write_models

IMAGE = SHIPPED / "detect" / "samples" / "shapes_1920x1080.jpg"
_OWN_MODELS = Path(__file__).resolve().parent / "models"
_FILE = Path("1") / "model.onnx"
_DETECTORS = ("detector", "detector_python")


class ModelMissingError(Exception):
    """A pipeline asks for a model that no folder has; the message names it."""


def write_networks(folder: Path) -> dict[Network, Path]:
    """Make what the comparisons take for a detector: ONNX files with the same tensors."""
    folder.mkdir(parents=True, exist_ok=True)
    sample, recorded = folder / "sample.onnx", folder / "recorded.onnx"
    shutil.copyfile(SHIPPED / "detector" / _FILE, sample)
    recorded_head.write(sample, IMAGE, recorded)
    return {"sample detector": sample, "recorded head": recorded}


def write(folder: Path, pipeline: Pipeline, network: Path) -> None:
    """Replace `folder` by the models that a pipeline needs, its detectors running `network`.

    Raises ModelMissingError.
    """
    write_models(folder, [_source(name) for name in pipeline.models])
    for name in set(_DETECTORS).intersection(pipeline.models):
        shutil.copyfile(network, folder / name / _FILE)


def _source(name: str) -> Path:
    for parent in (SHIPPED, OPENCV_MODELS, _OWN_MODELS):
        if (parent / name / "config.pbtxt").exists():
            return parent / name
    raise ModelMissingError(f"there is no model {name} in {SHIPPED.name}")
