"""What the reference takes from a repository or a preset, and what it cannot do."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from endcap.errors import InvalidArgumentError, UnsupportedError
from endcap.evaluation.reference_settings import (
    Activation,
    Background,
    BoxFormat,
    Color,
    Fit,
    HeadName,
    ReferenceSettings,
)
from endcap.evaluation.served_config import read_settings, with_preset

SHIPPED = Path(__file__).resolve().parents[3] / "model_repository"


def edited(folder: Path, name: str, *parameters: str) -> Path:
    """The shipped configurations, with more parameters in one model."""
    for model in ("detect", "preprocess", "detector", "postprocess"):
        (folder / model).mkdir(parents=True)
        text = (SHIPPED / model / "config.pbtxt").read_text(encoding="utf-8")
        if model == name:
            for each in parameters:
                key, value = each.split("=")
                text += f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n'
        (folder / model / "config.pbtxt").write_text(text, encoding="utf-8")
    return folder


def test_the_shipped_repository_is_the_default_with_its_own_classes() -> None:
    read = read_settings(SHIPPED, "detect")
    assert read == ReferenceSettings(size=(640, 640), num_classes=6, score_threshold=0.4)


def test_a_preset_changes_the_images_alone() -> None:
    served = read_settings(SHIPPED, "detect")
    changed = dataclasses.replace(
        served, fit=Fit.stretch, color=Color.bgr, scale=1.0, apply_exif=False, antialias=True
    )
    assert with_preset(changed, "ultralytics") == served


def test_a_preset_that_there_is_not_is_named() -> None:
    with pytest.raises(InvalidArgumentError, match="nonsense"):
        with_preset(ReferenceSettings(), "nonsense")


def test_parameters_are_read_under_the_preset(tmp_path: Path) -> None:
    changes = ("size=320,416", "fit=stretch", "color=bgr", "mean=0.5", "exif=ignore", "upscale=0")
    read = read_settings(edited(tmp_path, "preprocess", *changes), "detect")
    assert read == dataclasses.replace(
        read_settings(SHIPPED, "detect"),
        size=(320, 416),
        fit=Fit.stretch,
        color=Color.bgr,
        mean=(0.5, 0.5, 0.5),
        apply_exif=False,
        upscale=False,
    )
    assert read_settings(edited(tmp_path / "b", "preprocess", "threads=2"), "detect").upscale


def test_postprocess_parameters_are_read(tmp_path: Path) -> None:
    changes = ("iou_threshold=0.5", "max_detections=50", "multi_label=true", "class_agnostic=1")
    changes += ("max_candidates=100", "score_threshold=0.25")
    read = read_settings(edited(tmp_path, "postprocess", *changes), "detect")
    assert (read.iou_threshold, read.max_detections) == (0.5, 50)
    assert (read.multi_label, read.class_agnostic) == (True, True)
    assert (read.max_candidates, read.score_threshold) == (100, 0.25)


@pytest.mark.parametrize(
    ("model", "change", "said"),
    [
        (
            "preprocess",
            "antialias=true quantize=none",
            "quantize is none and antialias true in the",
        ),
        ("preprocess", "interpolation=nearest", "knows only bilinear; .*--predictions"),
        ("postprocess", "head=ssd", "head is ssd in the steps of detect, and the reference reads"),
        ("postprocess", "head=yolov8_obb", "head is yolov8_obb in .* reads only yolov8, .*--pred"),
    ],
)
def test_what_the_reference_cannot_do_is_named(
    tmp_path: Path, model: str, change: str, said: str
) -> None:
    with pytest.raises(UnsupportedError, match=said):
        read_settings(edited(tmp_path, model, *change.split()), "detect")


def test_a_preset_is_one_at_the_size_that_is_set() -> None:
    cropped = with_preset(ReferenceSettings(size=(224, 192)), "torchvision")
    assert (cropped.fit, cropped.resize_shorter, cropped.size) == (Fit.center_crop, 256, (224, 192))
    assert (cropped.antialias, cropped.apply_exif) == (True, False)
    with pytest.raises(InvalidArgumentError, match="resize_shorter, which is 256"):
        with_preset(ReferenceSettings(size=(640, 640)), "torchvision")


def test_tensors_of_other_kinds_are_read(tmp_path: Path) -> None:
    assert not read_settings(
        edited(tmp_path / "a", "preprocess", "quantize=none"), "detect"
    ).quantized
    changes = ("color=gray", "layout=nhwc", "dtype=uint8", "antialias=true")
    read = read_settings(edited(tmp_path / "b", "preprocess", *changes), "detect")
    assert (read.color, read.channels, read.channels_last) == (Color.gray, 1, True)
    assert (read.scale, read.antialias) == (1.0, True)


def test_heads_of_other_families_are_read(tmp_path: Path) -> None:
    changes = ("box_format=xyxy", "box_unit=normalized", "input_size=320,416", "activation=sigmoid")
    read = read_settings(edited(tmp_path / "a", "postprocess", *changes), "detect")
    assert (read.box_format, read.box_side) == (BoxFormat.xyxy, (320, 416))
    assert (read.activation, read.top_k) == (Activation.sigmoid, None)
    changes = ("head=classification", "top_k=2")
    read = read_settings(edited(tmp_path / "b", "postprocess", *changes), "detect")
    assert (read.head, read.top_k, read.box_side) == (HeadName.classification, 2, None)


def test_queries_are_read(tmp_path: Path) -> None:
    read = read_settings(edited(tmp_path / "a", "postprocess", "head=rtdetr"), "detect")
    assert (read.head, read.box_side, read.multi_label) == (HeadName.rtdetr, (640, 640), True)
    assert (read.joined, read.has_background) == (False, False)
    changes = ("head=rtdetr", "joined=true", "background=last", "box_unit=pixel")
    read = read_settings(edited(tmp_path / "b", "postprocess", *changes), "detect")
    assert (read.joined, read.background, read.box_side) == (True, Background.last, (1, 1))


def test_an_ensemble_of_other_steps_is_refused(tmp_path: Path) -> None:
    repository = edited(tmp_path, "")
    config = repository / "preprocess" / "config.pbtxt"
    config.write_text('backend: "python"')
    with pytest.raises(UnsupportedError, match="has 0 steps in backend endcap_preprocess"):
        read_settings(repository, "detect")
