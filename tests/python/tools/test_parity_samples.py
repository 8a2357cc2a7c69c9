"""Which images the search for causes takes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from endcap.preprocess import Preprocessor
from endcap.tools.parity import samples
from endcap.tools.parity.samples import choose_samples

SIZE = 64
TENSOR = np.zeros((SIZE, SIZE, 3), np.float32)


def write(folder: Path, name: str, width: int, height: int, *, orientation: int = 1) -> Path:
    exif = Image.Exif()
    exif[274] = orientation
    path = folder / f"{name}.jpg"
    Image.new("RGB", (width, height)).save(path, exif=exif)
    return path


def chosen(paths: list[Path]) -> list[str]:
    own = Preprocessor("ultralytics", size=SIZE).parameters
    found, _ = choose_samples([(path, TENSOR) for path in paths], own)
    return [sample.imitator.path.stem for sample in found]


def test_each_kind_is_taken_however_large_and_others_within_the_pixels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [
        write(tmp_path, "large", 400, 300),
        write(tmp_path, "middle", 200, 100),
        write(tmp_path, "turned", 300, 200, orientation=6),
        write(tmp_path, "small", 40, 30),
        write(tmp_path, "small_too", 50, 30),
    ]
    monkeypatch.setattr(samples, "_SEARCHED_PIXELS", 100_000)
    assert chosen(paths) == ["small", "middle", "turned", "small_too"]
    monkeypatch.setattr(samples, "_SEARCHED_PIXELS", 1)
    assert chosen(paths) == ["small", "middle", "turned"]


def test_no_more_than_six_are_taken(tmp_path: Path) -> None:
    paths = [write(tmp_path, f"image_{number}", 90 + number, 70) for number in range(9)]
    assert chosen(paths) == [f"image_{number}" for number in range(6)]
