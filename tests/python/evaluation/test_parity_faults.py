"""Faults of a training pipeline, each named by `endcap parity`, alone and in pairs."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from endcap.evaluation.parity.comparison import ParityReport, compare_tensors
from endcap.evaluation.parity.pipelines import TrainingPipeline
from tests.support.training_faults import FAULTS, SIZE, Training, crop, pairs, write_images

_SEED, _PAIRS = 33, 20


@contextlib.contextmanager
def no_progress(name: str, total: int | None) -> Iterator[Callable[[], None]]:
    yield lambda: None


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_images(tmp_path_factory.mktemp("images"))


def compare(images: list[Path], training: Callable[[Path], Any], **settings: str) -> ParityReport:
    parameters = {"size": f"{SIZE[0]},{SIZE[1]}", **settings}
    pipeline = TrainingPipeline("training", training)
    return compare_tensors(images, pipeline, parameters, progress=no_progress)


def test_a_correct_pipeline_has_no_fault(images: list[Path]) -> None:
    report = compare(images, Training())
    assert report.causes == ()
    assert report.before is not None
    assert report.before.equal_share > 0.999
    assert report.ok


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named(images: list[Path], name: str) -> None:
    fault = FAULTS[name]
    report = compare(images, fault.on(Training()))
    assert {cause.name for cause in report.causes} == fault.causes
    (cause,) = report.causes
    assert cause.training != cause.endcap
    assert report.unexplained_steps is not None
    if name != "nearest":  # of which OpenCV and Pillow have their own
        assert report.before is None or report.before.mean_steps > 0.05
        assert report.unexplained_steps < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("pair", random.Random(_SEED).sample(pairs(), _PAIRS), ids=" and ".join)
def test_two_faults_are_named(images: list[Path], pair: tuple[str, str]) -> None:
    first, second = (FAULTS[name] for name in pair)
    report = compare(images, second.on(first.on(Training())))
    assert {cause.name for cause in report.causes} == first.causes | second.causes
    assert report.unexplained_steps is not None
    assert report.unexplained_steps < 0.1


# --- crops ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("shorter", [128, 146, 200, 301])
def test_a_crop_is_told_from_other_fits(images: list[Path], shorter: int) -> None:
    def training(path: Path) -> Any:
        return crop(path, size=128, shorter=shorter)

    report = compare(images, training, size="128", antialias="true", exif="ignore")
    assert {cause.name for cause in report.causes} == {"fit"}
    assert report.settings == {"fit": "center_crop", "resize_shorter": str(shorter)}
    assert report.after is not None
    assert report.after.mean_steps < 0.01


def test_another_short_side_is_named(images: list[Path]) -> None:
    def training(path: Path) -> Any:
        return crop(path, size=128, shorter=128)

    report = compare(images, training, preset="torchvision", size="128", mean="0", std="1")
    assert report.settings == {"resize_shorter": "128"}
    assert not any("EXIF" in note for note in report.notes), "one is turned, though it is ignored"


def test_a_tensor_larger_than_the_crop(images: list[Path]) -> None:
    """The preset's short side of 256 is no possible one for it."""

    def training(path: Path) -> Any:
        return crop(path, size=320, shorter=340)

    report = compare(images[:2], training, size="320", antialias="true", exif="ignore")
    assert report.settings == {"fit": "center_crop", "resize_shorter": "340"}


# --- what is no known fault -----------------------------------------------------------------------


def noisy(path: Path) -> Any:
    tensor = Training()(path)
    return tensor + np.random.default_rng(1).normal(0, 0.02, tensor.shape).astype(np.float32)


def negative(path: Path) -> Any:
    return 1 - Training()(path)


def turned_hue(path: Path) -> Any:
    picture = np.rint(Training()(path).transpose(1, 2, 0) * 255).astype(np.uint8)
    hsv = np.asarray(Image.fromarray(picture).convert("HSV"))
    return hsv.transpose(2, 0, 1).astype(np.float32) / 255


def bright(path: Path) -> Any:
    return np.sqrt(Training()(path))


def normalised_by_itself(path: Path) -> Any:
    tensor = Training(fit="stretch")(path)
    return (tensor - tensor.mean()) / tensor.std()


@pytest.mark.parametrize("training", [noisy, negative, turned_hue, bright, normalised_by_itself])
def test_what_is_not_known_is_not_guessed(images: list[Path], training: Any) -> None:
    report = compare(images, training)
    assert not report.ok
    assert report.causes == ()
    assert report.settings == {}
    assert report.unexplained_steps == report.before.mean_steps > 1


def test_another_size_and_nothing_that_explains_the_pixels(images: list[Path]) -> None:
    def training(path: Path) -> Any:
        return np.random.default_rng(2).uniform(0, 1, (3, 320, 320)).astype(np.float32)

    report = compare(images[:1], training, preset="torchvision", size="224")
    assert report.settings == {"size": "320,320"}
    assert (report.before, report.after, report.unexplained_steps) == (None, None, None)


def test_a_fault_without_a_parameter_is_left_over(images: list[Path]) -> None:
    report = compare(images, Training(sides="truncate", bgr=True))
    assert report.settings == {"color": "bgr"}
    assert report.unexplained_steps is not None
    assert report.unexplained_steps > 0.05


# --- images that show little ----------------------------------------------------------------------


def test_flat_and_tiny_images_are_no_fault(tmp_path: Path) -> None:
    paths = [tmp_path / "flat.jpg", tmp_path / "tiny.png"]
    Image.new("RGB", (200, 100), (90, 120, 40)).save(paths[0])
    Image.new("RGB", (1, 1), (9, 9, 9)).save(paths[1])
    report = compare(paths, Training())
    assert report.ok
    assert report.unexplained_steps == pytest.approx(0.0, abs=1e-3)


def test_what_images_do_not_show_is_listed(tmp_path: Path) -> None:
    path = tmp_path / "gray.png"
    picture = np.random.default_rng(2).integers(0, 256, (SIZE[0], SIZE[1]), np.uint8)
    Image.fromarray(picture).save(path)
    report = compare([path], Training(bgr=True))
    assert report.ok
    notes = " ".join(report.notes)
    for part in ("EXIF", "no image is smaller", "no image is resized"):
        assert part in notes


def test_transparent_images_are_laid_on_white(tmp_path: Path) -> None:
    paths = write_images(tmp_path)
    for path in paths[:2]:
        with Image.open(path) as picture:
            clear = picture.convert("RGBA")
        clear.putalpha(120)
        clear.save(path.with_suffix(".png"))
    pngs = [path.with_suffix(".png") for path in paths[:2]]
    report = compare([*pngs, *paths[2:]], Training(bgr=True), alpha="white")
    assert report.settings == {"alpha": "drop", "color": "bgr"}
