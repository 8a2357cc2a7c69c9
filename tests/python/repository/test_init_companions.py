"""Decisions of `endcap init` by the configuration files beside a network."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import endcap
from endcap.repository.errors import RepositoryError
from endcap.repository.options import decided_values
from endcap.repository.plan import Plan
from tests.support import family_networks as families
from tests.support.family_networks import Network
from tests.support.init_runs import plan_network

VIT = {
    "image_processor_type": "ViTImageProcessor",
    "do_resize": True,
    "do_rescale": True,
    "do_normalize": True,
    "size": {"height": 64, "width": 64},
    "resample": 3,
    "rescale_factor": 1 / 255,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.25, 0.5, 0.5],
}
TIMM = {
    "interpolation": "bicubic",
    "crop_pct": 0.875,
    "crop_mode": "center",
    "mean": [0.485, 0.456, 0.406],
    "std": [0.229, 0.224, 0.225],
}


def classifier(names: Sequence[object]) -> dict[str, Any]:
    return {
        "architectures": ["ViTForImageClassification"],
        "id2label": {str(number): name for number, name in enumerate(names)},
    }


def plan_beside(
    folder: Path,
    network: Network,
    config: object = None,
    processor: object = None,
    **options: object,
) -> Plan:
    for name, content in (("config.json", config), ("preprocessor_config.json", processor)):
        if content is not None:
            text = content if isinstance(content, str) else json.dumps(content)
            (folder / name).write_text(text)
    return plan_network(network, folder, **options)


SEVEN = ["tench", "goldfish", "shark, great white", "ray", "cock", "hen", "ostrich"]
NUMBERS = [f"LABEL_{number}" for number in range(7)]


def ids(names: Sequence[object], architecture: str = "") -> dict[str, Any]:
    named = {str(number): name for number, name in enumerate(names)}
    return {"architectures": [architecture] if architecture else [], "id2label": named}


def timm(**changes: object) -> dict[str, Any]:
    return {"architecture": "x", "num_classes": 7, "pretrained_cfg": {**TIMM, **changes}}


ULTRALYTICS = {"author": "Ultralytics", "stride": "32", "task": "detect", "names": str([*"abc"])}
YOLO = families.yolov8(metadata=ULTRALYTICS)
DETR_SIZE = {"size": {"shortest_edge": 800, "longest_edge": 1333}, "format": "coco_detection"}
CROP = {"size": {"shortest_edge": 72}, "do_center_crop": True, "crop_size": 64}
CROP_224 = {
    "size": {"shortest_edge": 256},
    "do_center_crop": True,
    "crop_size": {"height": 224, "width": 224},
}
CONVNEXT = {"size": {"shortest_edge": 64}, "crop_pct": 0.875}
VIT_VALUES = "preset=rtdetr fit=stretch interpolation=bicubic mean=0.5,0.5,0.5 std=0.25,0.5,0.5"
TIMM_VALUES = "fit=center_crop resize_shorter=73 interpolation=bicubic antialias=true"
# The network, config.json, changes of VIT or no preprocessor_config.json, the names of the classes,
# and parameters of preprocess.
BESIDE: dict[str, tuple[Network, Any, Any, Sequence[str] | None, str]] = {
    "ViT": (families.classifier(), classifier(SEVEN), {}, SEVEN, VIT_VALUES),
    "a name that is no text": (
        families.classifier(),
        classifier([*SEVEN[:2], 7, *SEVEN[3:]]),
        {},
        [*SEVEN[:2], "class 2", *SEVEN[3:]],
        "",
    ),
    "numbers for names": (families.classifier(), classifier(NUMBERS), {}, None, VIT_VALUES),
    "ConvNeXt": (
        families.classifier(),
        classifier(SEVEN),
        CONVNEXT,
        SEVEN,
        "fit=center_crop resize_shorter=73",
    ),
    "crop": (
        families.classifier(),
        classifier(SEVEN),
        CROP,
        SEVEN,
        "fit=center_crop resize_shorter=72",
    ),
    "crop at another size": (
        families.classifier(),
        classifier(SEVEN),
        CROP_224,
        SEVEN,
        "resize_shorter=73",
    ),
    "EfficientNet": (
        families.classifier(),
        classifier(SEVEN),
        {"include_top": True},
        SEVEN,
        "mean=0.5,0.5,0.5 std=0.0625,0.25,0.25",
    ),
    "timm": (families.classifier(), timm(), None, None, TIMM_VALUES),
    "timm, squashed": (
        families.classifier(),
        timm(crop_mode="squash", crop_pct=1.0),
        None,
        None,
        "fit=stretch mean=0.485,0.456,0.406",
    ),
    "DETR": (
        families.detr(),
        ids(["N/A", "a", "b", "c"], "DetrForObjectDetection"),
        DETR_SIZE,
        ["N/A", "a", "b", "c"],
        "fit=stretch",
    ),
    "Ultralytics' metadata wins": (YOLO, classifier([*"xyz"]), {}, [*"abc"], "preset=ultralytics"),
    "a recipe of the head": (families.yolov8(), ids([*"abc"]), {}, [*"abc"], "preset=ultralytics"),
}


@pytest.mark.parametrize("name", BESIDE)
def test_files_next_to_a_network_say_what_it_lacks(name: str, tmp_path: Path) -> None:
    network, config, processor, names, expected = BESIDE[name]
    plan = plan_beside(
        tmp_path, network, config, None if processor is None else {**VIT, **processor}
    )
    assert plan.classes.names == (None if names is None else tuple(names))
    chosen = {**endcap_parameters(plan), "preset": plan.preprocess["preset"].value}
    wanted = dict(each.split("=") for each in expected.split())
    assert {key: chosen[key] for key in wanted} == wanted


def endcap_parameters(plan: Plan) -> dict[str, str]:
    """All parameters of preprocess, the preset's included."""
    options: dict[str, Any] = decided_values(plan.preprocess)
    return {name: str(value) for name, value in endcap.Preprocessor(**options).parameters.items()}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"resample": 1}, "resample is 1"),
        ({"size": {"shortest_edge": 64}}, "without a crop"),
        ({"do_resize": False}, "do_resize is false"),
        ({"rescale_factor": 10**400}, "int too large"),
        ({"image_mean": None}, "cannot be followed"),
        ({"resample": "x" * 10_000}, "resample is 'x{200,300}; choose"),
    ],
)
def test_a_processor_that_cannot_be_followed_is_quoted(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(RepositoryError, match=message) as caught:
        plan_beside(tmp_path, families.classifier(), classifier(SEVEN), {**VIT, **change})
    assert "--preset" in str(caught.value)


@pytest.mark.parametrize("change", [{"crop_mode": "border"}, {"interpolation": "lanczos"}])
def test_a_recipe_of_timm_that_cannot_be_followed_is_quoted(
    change: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(RepositoryError, match=next(iter(change))):
        plan_beside(tmp_path, families.classifier(), timm(**change))


def test_a_preset_that_is_given_wins(tmp_path: Path) -> None:
    network, config = families.classifier(), classifier(SEVEN)
    plan = plan_beside(tmp_path, network, config, VIT, preset="torchvision")
    assert plan.preprocess["preset"].is_given
    assert "mean" not in plan.preprocess


def test_files_above_a_folder_called_onnx(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(classifier(SEVEN)))
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(VIT))
    for name, error in (("onnx", None), ("other", RepositoryError)):
        folder = tmp_path / name
        folder.mkdir()
        if error is None:
            assert plan_network(families.classifier(), folder).classes.names == tuple(SEVEN)
        else:
            with pytest.raises(error):
                plan_network(families.classifier(), folder)


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[" * 100_000,
        '{"id2label": [], "architectures": 7, "pretrained_cfg": [1]}',
        '{"num_classes": -1, "pretrained_cfg": {"mean": "none"}}',
    ],
)
def test_files_in_another_form_say_nothing(content: str, tmp_path: Path) -> None:
    plan = plan_beside(
        tmp_path,
        families.classifier(),
        content,
        content,
        head="classification",
        preset="torchvision",
    )
    assert plan.classes.names is None


def test_a_class_without_a_text_has_its_number(tmp_path: Path) -> None:
    for names, expected in (
        (["tench", None, *SEVEN[2:]], ("tench", "class 1", *SEVEN[2:])),
        ([None] * 7, None),
    ):
        config = classifier(names)
        plan = plan_beside(tmp_path, families.classifier(), config, VIT, head="classification")
        assert plan.classes.names == expected
