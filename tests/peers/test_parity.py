"""`endcap parity` with the pipelines of libraries: right parameters, and wrong ones."""

from __future__ import annotations

import contextlib
import sys
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
def test_a_processor_of_transformers(
    images: list[Path], kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers")
    (tmp_path / "training.py").write_text(
        f"""import transformers
from PIL import Image
processor = transformers.{kind}(size={{"height": 224, "width": 224}})
def load(path):
    return processor(Image.open(path).convert("RGB"), return_tensors="pt")
"""
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "training", raising=False)
    half = {"mean": "0.5,0.5,0.5", "std": "0.5,0.5,0.5"} if kind == "ViTImageProcessor" else {}
    assert_no_cause(compare(images, "training:load", SQUARE, preset="rtdetr", **half))
