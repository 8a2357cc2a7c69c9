"""Writes the sample pictures of the demo: unseen scenes as JPEG files of several kinds.

python -m training.make_samples --output model_repository/detect/samples \
    --truth tests/data/sample_objects.json
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from .photograph import JpegKind
from .scenes import make_scene
from .shapes import CLASS_NAMES

# Seeds of samples are [SAMPLE_STREAM, seed]: apart from training's and evaluation's.
SAMPLE_STREAM = 4
ORIENTATION_TAG = 0x0112
# EXIF orientation 6: a viewer turns the stored picture a quarter clockwise.
ROTATED_90 = 6


@dataclass(frozen=True)
class Sample:
    """One sample file; `height` and `width` are those after EXIF orientation."""

    name: str
    seed: int
    height: int
    width: int
    quality: int = 85
    grayscale: bool = False
    progressive: bool = False
    rotated: bool = False


# Seeds whose scenes hold five objects or more, of several classes.
SAMPLES = (
    Sample("shapes_512x600.jpg", 5, 600, 512),
    Sample("shapes_640x427.jpg", 16, 427, 640, quality=92),
    Sample("shapes_1000x872.jpg", 25, 872, 1000),
    Sample("shapes_1920x1080.jpg", 33, 1080, 1920, quality=75),
    Sample("shapes_1411x1411_progressive.jpg", 47, 1411, 1411, quality=75, progressive=True),
    Sample("shapes_800x600_gray.jpg", 56, 600, 800, grayscale=True),
    Sample("shapes_600x800_exif6.jpg", 63, 800, 600, rotated=True),
    Sample("shapes_320x240.jpg", 71, 240, 320),
    Sample("shapes_4000x3000.jpg", 85, 3000, 4000, quality=75),
)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Writes the sample pictures of the demo.")
    parser.add_argument("--output", type=Path, required=True, help="folder for the JPEG files")
    parser.add_argument("--truth", type=Path, help="JSON file for what is in the pictures")
    options = parser.parse_args()
    truth = {}
    options.output.mkdir(parents=True, exist_ok=True)
    for sample in SAMPLES:
        scene = make_scene(
            [SAMPLE_STREAM, sample.seed],
            size=(sample.height, sample.width),
            grayscale=sample.grayscale,
            kind=JpegKind(quality=95),
        )
        path = options.output / sample.name
        truth[sample.name] = [
            {"label": CLASS_NAMES[class_id], "box": [round(float(side), 1) for side in box]}
            for class_id, box in zip(scene.class_ids, scene.boxes, strict=True)
        ]
        _write(path, scene.image, sample)
        labels = ", ".join(CLASS_NAMES[class_id] for class_id in scene.class_ids)
        print(f"{path}: {path.stat().st_size} bytes: {labels}")
    if options.truth is not None:
        options.truth.write_text(json.dumps(truth, indent=1) + "\n", encoding="utf-8")


def _write(path: Path, image: npt.NDArray[np.uint8], sample: Sample) -> None:
    picture = Image.fromarray(image)
    if sample.grayscale:
        picture = picture.convert("L")
    if sample.rotated:
        picture = picture.transpose(Image.Transpose.ROTATE_90)
    exif = Image.Exif()
    if sample.rotated:
        exif[ORIENTATION_TAG] = ROTATED_90
    picture.save(
        path,
        quality=sample.quality,
        progressive=sample.progressive,
        exif=exif if sample.rotated else b"",
    )


if __name__ == "__main__":
    main()
