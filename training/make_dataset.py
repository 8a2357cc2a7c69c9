"""Writes scenes that no training has seen as JPEG files with COCO annotations.

    python -m training.make_dataset --count 400 --output /tmp/shapes

The folder then holds `scene_0000.jpg` and so on, 200 to 4000 pixels on the long side, and
`annotations.json`. Category ids are class ids + 1, since COCO counts from 1. Scene k of a seed is
the same whatever `--count` is.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from .scenes import Scene, make_grid, make_scene
from .shapes import CLASS_NAMES

# Seeds of these scenes are [EVALUATION_STREAM, seed, index]: apart from training's and samples'.
EVALUATION_STREAM = 3
ANNOTATIONS = "annotations.json"


def main() -> None:
    """Run the command line."""
    options = _parse_options()
    options.output.mkdir(parents=True, exist_ok=True)
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for index in range(options.count):
        seed = [EVALUATION_STREAM, options.seed, index]
        scene = make_scene(seed) if options.grid == 1 else make_grid(seed, options.grid)
        name = f"scene_{index:04}.jpg"
        (options.output / name).write_bytes(scene.jpeg)
        height, width = scene.image.shape[:2]
        images.append({"id": index + 1, "file_name": name, "width": width, "height": height})
        annotations += _annotate(scene, image_id=index + 1, first_id=len(annotations) + 1)
        print(f"\rscenes {index + 1}/{options.count}", end="", flush=True)
    categories = [{"id": number, "name": name} for number, name in enumerate(CLASS_NAMES, start=1)]
    dataset = {"images": images, "annotations": annotations, "categories": categories}
    path = options.output / ANNOTATIONS
    path.write_text(json.dumps(dataset, indent=1) + "\n", encoding="utf-8")
    print(f"\n{path}: {len(annotations)} objects in {len(images)} images")


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Writes scenes that no training has seen as JPEG files with COCO annotations.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--count", type=_at_least_one, default=400, help="number of scenes")
    parser.add_argument("--seed", type=int, default=0, help="seed of the scenes, 0 or above")
    parser.add_argument(
        "--grid", type=_at_least_one, default=1, help="grid x grid scenes in each picture"
    )
    parser.add_argument("--output", type=Path, required=True, help="folder for the files")
    return parser.parse_args()


def _at_least_one(text: str) -> int:
    """Return a whole number of at least 1; argparse turns the ValueError into its message."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not possible; allowed: 1 or more")
    return value


def _annotate(scene: Scene, *, image_id: int, first_id: int) -> list[dict[str, Any]]:
    """COCO annotations of a scene's objects, `bbox` as left, top, width, height in pixels."""
    rows = []
    for offset, (box, class_id) in enumerate(zip(scene.boxes, scene.class_ids, strict=True)):
        left, top, right, bottom = (float(side) for side in box)
        bbox = [round(value, 2) for value in (left, top, right - left, bottom - top)]
        rows.append(
            {
                "id": first_id + offset,
                "image_id": image_id,
                "category_id": int(class_id) + 1,
                "bbox": bbox,
                "area": round(bbox[2] * bbox[3], 2),
                "iscrowd": 0,
            }
        )
    return rows


if __name__ == "__main__":
    main()
