"""`endcap parity` with the pipelines of libraries: right parameters, and wrong ones."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from endcap.evaluation.parity.comparison import ParityReport, compare_tensors
from endcap.evaluation.parity.pipelines import load_pipeline
from tests.peers.pictures import picture

PICTURES = ["bus", "flower", "odd", "small", "exif_6"]
SQUARE = (224, 224)


@contextlib.contextmanager
def no_progress(name: str, total: int | None) -> Iterator[Callable[[], None]]:
    yield lambda: None


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("images")
    paths = [folder / f"{name}.jpg" for name in PICTURES]
    for path in paths:
        path.write_bytes(picture(path.stem))
    return paths


def compare(images: list[Path], name: str, size: tuple[int, int], **settings: str) -> ParityReport:
    parameters = {"size": f"{size[0]},{size[1]}", **settings}
    return compare_tensors(images, load_pipeline(name, size), parameters, progress=no_progress)


def assert_no_cause(report: ParityReport) -> None:
    assert report.causes == ()
    assert report.failures == {}
    assert report.before is not None
    assert report.before.mean_steps < 0.05


RIGHT: dict[str, tuple[tuple[int, int], dict[str, str]]] = {
    "ultralytics": ((640, 640), {"preset": "ultralytics"}),
    "torchvision:resnet50": (SQUARE, {"preset": "torchvision", "resize_shorter": "232"}),
    "timm:resnet50": (
        SQUARE,
        {"preset": "torchvision", "resize_shorter": "235", "interpolation": "bicubic"},
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_parameters_have_no_cause(images: list[Path], name: str) -> None:
    size, settings = RIGHT[name]
    assert_no_cause(compare(images, name, size, **settings))


@pytest.mark.parametrize("kind", ["ViTImageProcessor", "RTDetrImageProcessor"])
def test_a_processor_of_transformers(images: list[Path], kind: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    file = tmp_path / "preprocessor_config.json"
    size = {"height": 224, "width": 224}
    getattr(transformers, kind)(size=size).save_pretrained(tmp_path)
    half = {"mean": "0.5,0.5,0.5", "std": "0.5,0.5,0.5"} if kind == "ViTImageProcessor" else {}
    assert_no_cause(compare(images, str(file), SQUARE, preset="rtdetr", **half))


def test_a_config_of_timm(images: list[Path], tmp_path: Path) -> None:
    timm = pytest.importorskip("timm")
    config = timm.get_pretrained_cfg("vit_base_patch16_224").to_dict()
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"architecture": "vit", "pretrained_cfg": config}, default=str))
    report = compare(images, str(file), SQUARE, preset="torchvision")
    assert {cause.name for cause in report.causes} == {
        "normalization",
        "resize_shorter",
        "interpolation",
    }
    assert report.settings == {
        "mean": "0.5,0.5,0.5",
        "std": "0.5,0.5,0.5",
        "resize_shorter": "248",
        "interpolation": "bicubic",
    }
    assert report.after is not None
    assert report.after.mean_steps < 0.01
