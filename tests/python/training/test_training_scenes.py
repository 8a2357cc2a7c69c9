"""The scenes that the sample detector is trained and measured with."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[3]
COUNT = 4
DECIMALS = 0.01  # of a pixel, to which boxes are written


def make_dataset(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "training.make_dataset", "--output", folder, *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scenes")
    run = make_dataset(folder, "--count", str(COUNT))
    assert run.returncode == 0, run.stderr
    return folder


@pytest.fixture(scope="module")
def annotations(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "annotations.json").read_text()))


def test_every_image_is_a_jpeg_of_the_size_annotated(
    folder: Path, annotations: dict[str, Any]
) -> None:
    assert len(annotations["images"]) == COUNT
    for row in annotations["images"]:
        with Image.open(folder / row["file_name"]) as image:
            assert image.format == "JPEG"
            assert image.size == (row["width"], row["height"])
        assert 200 <= max(image.size) <= 4000


def test_boxes_lie_in_their_images_and_have_a_category(annotations: dict[str, Any]) -> None:
    size = {row["id"]: (row["width"], row["height"]) for row in annotations["images"]}
    labels = (ROOT / "model_repository/detector/labels.txt").read_text().split()
    assert [row["name"] for row in annotations["categories"]] == labels
    categories = {row["id"] for row in annotations["categories"]}
    assert len(annotations["annotations"]) > COUNT
    for row in annotations["annotations"]:
        x, y, width, height = row["bbox"]
        image_width, image_height = size[row["image_id"]]
        assert min(x, y) >= 0
        assert min(width, height) > 0
        assert x + width <= image_width + DECIMALS
        assert y + height <= image_height + DECIMALS
        assert row["category_id"] in categories


def test_a_seed_gives_the_same_files_whatever_the_count(folder: Path, tmp_path: Path) -> None:
    assert make_dataset(tmp_path, "--count", "1").returncode == 0
    first = "scene_0000.jpg"
    assert (tmp_path / first).read_bytes() == (folder / first).read_bytes()
    assert make_dataset(tmp_path, "--count", "1", "--seed", "1").returncode == 0
    assert (tmp_path / first).read_bytes() != (folder / first).read_bytes()


def test_scenes_differ(folder: Path) -> None:
    tiny = []
    for path in sorted(folder.glob("*.jpg")):
        with Image.open(path) as image:
            tiny.append(np.asarray(image.convert("RGB").resize((8, 8)), np.int16))
    assert all(np.abs(one - tiny[0]).mean() > 5 for one in tiny[1:])


def test_a_count_that_is_not_possible_is_refused(tmp_path: Path) -> None:
    run = make_dataset(tmp_path / "none", "--count", "0")
    assert run.returncode == 2
    assert "0 is not possible; allowed: 1 or more" in run.stderr
