"""Decisions of `endcap init` by the configuration files beside a network."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import family_networks as families
import pytest
from family_networks import Network
from init_runs import plan_of

import endcap
from endcap.repository.errors import RepositoryError
from endcap.repository.options import decided_values
from endcap.repository.plan import Plan

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
    return plan_of(network, folder, **options)


SEVEN = ["tench", "goldfish", "shark, great white", "ray", "cock", "hen", "ostrich"]


def test_a_classifier_of_transformers_needs_no_options(tmp_path: Path) -> None:
    plan = plan_beside(tmp_path, families.classifier(), classifier(SEVEN), VIT)
    assert plan.head.family == "classification"
    assert plan.classes.names == tuple(SEVEN)
    assert "config.json" in plan.classes.reason
    chosen = decided_values(plan.preprocess)
    assert chosen["interpolation"] == "bicubic"
    assert (chosen["mean"], chosen["std"]) == ("0.5,0.5,0.5", "0.25,0.5,0.5")
    assert chosen["preset"] == "rtdetr"  # which stretches as Pillow does
    assert "preprocessor_config.json" in plan.preprocess["preset"].reason


def test_a_name_that_is_no_text_costs_that_name_alone(tmp_path: Path) -> None:
    names = [*SEVEN[:2], 7, *SEVEN[3:]]
    plan = plan_beside(tmp_path, families.classifier(), classifier(names), VIT)
    assert plan.classes.names == (*SEVEN[:2], "class 2", *SEVEN[3:])


def test_names_that_are_numbers_only_count_the_classes(tmp_path: Path) -> None:
    names = [f"LABEL_{number}" for number in range(7)]
    plan = plan_beside(tmp_path, families.classifier(), classifier(names), VIT)
    assert plan.head.family == "classification"
    assert plan.classes.names is None


@pytest.mark.parametrize(
    ("processor", "expected"),
    [
        ({"size": {"shortest_edge": 64}, "crop_pct": 0.875}, ("center_crop", "73")),
        ({"size": {"shortest_edge": 384}, "crop_pct": 0.875}, ("stretch", "256")),
        (
            {"size": {"shortest_edge": 72}, "do_center_crop": True, "crop_size": 64},
            ("center_crop", "72"),
        ),
        (
            {
                "size": {"shortest_edge": 256},
                "do_center_crop": True,
                "crop_size": {"height": 224, "width": 224},
            },
            ("center_crop", "73"),
        ),
    ],
    ids=["ConvNeXt", "ConvNeXt, large", "crop", "crop at another size"],
)
def test_how_a_processor_fits_images(
    processor: dict[str, Any], expected: tuple[str, str], tmp_path: Path
) -> None:
    plan = plan_beside(tmp_path, families.classifier(), classifier(SEVEN), {**VIT, **processor})
    chosen = endcap_parameters(plan)
    assert (chosen["fit"], chosen["resize_shorter"]) == expected


def endcap_parameters(plan: Plan) -> dict[str, str]:
    """All parameters of preprocess, the preset's included."""

    options: dict[str, Any] = decided_values(plan.preprocess)
    return {name: str(value) for name, value in endcap.Preprocessor(**options).parameters.items()}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"do_normalize": False}, ("0,0,0", "1,1,1")),
        ({"rescale_offset": True, "rescale_factor": 1 / 127.5}, ("1.5,1.5,1.5", "0.25,0.5,0.5")),
        ({"include_top": True}, ("0.5,0.5,0.5", "0.0625,0.25,0.25")),
    ],
)
def test_statistics_of_a_processor(
    change: dict[str, Any], expected: tuple[str, str], tmp_path: Path
) -> None:
    plan = plan_beside(tmp_path, families.classifier(), classifier(SEVEN), {**VIT, **change})
    chosen = endcap_parameters(plan)
    assert (chosen["mean"], chosen["std"]) == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"resample": 1}, "resample is 1"),
        ({"size": {"shortest_edge": 64}}, "without a crop"),
        ({"do_resize": False}, "do_resize is false"),
        ({"image_std": [0, 0, 0]}, "mean and std"),
        ({"rescale_factor": "small"}, "rescale_factor"),
        ({"rescale_factor": 10**400}, "int too large"),
        ({"size": 64, "crop_pct": 5e-324}, "cannot convert float infinity"),
        ({"resample": "x" * 10_000}, "resample is 'x{200,300}, so nothing"),
    ],
)
def test_a_processor_that_cannot_be_followed_is_quoted(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(RepositoryError, match=message) as caught:
        plan_beside(tmp_path, families.classifier(), classifier(SEVEN), {**VIT, **change})
    assert "--preset" in str(caught.value)


def test_a_preset_that_is_given_wins(tmp_path: Path) -> None:
    network, config = families.classifier(), classifier(SEVEN)
    plan = plan_beside(tmp_path, network, config, VIT, preset="torchvision")
    assert plan.preprocess["preset"].is_given
    assert "mean" not in plan.preprocess


def test_a_classifier_of_timm_needs_no_options(tmp_path: Path) -> None:
    config = {"architecture": "resnet18", "num_classes": 7, "pretrained_cfg": TIMM}
    plan = plan_beside(tmp_path, families.classifier(), config)
    assert plan.head.family == "classification"
    chosen = endcap_parameters(plan)
    assert (chosen["fit"], chosen["resize_shorter"]) == ("center_crop", "73")
    assert (chosen["interpolation"], chosen["antialias"]) == ("bicubic", "true")


def test_names_of_timm(tmp_path: Path) -> None:
    config = {"architecture": "x", "label_names": SEVEN, "pretrained_cfg": TIMM}
    plan = plan_beside(tmp_path, families.classifier(), config)
    assert plan.classes.names == tuple(SEVEN)


@pytest.mark.parametrize("change", [{"crop_mode": "border"}, {"interpolation": "lanczos"}])
def test_a_recipe_of_timm_that_cannot_be_followed_is_quoted(
    change: dict[str, Any], tmp_path: Path
) -> None:
    config = {"num_classes": 7, "pretrained_cfg": {**TIMM, **change}}
    with pytest.raises(RepositoryError, match=next(iter(change))):
        plan_beside(tmp_path, families.classifier(), config)


def test_detr_needs_no_options(tmp_path: Path) -> None:
    config = {"architectures": ["DetrForObjectDetection"], **ids(["N/A", "a", "b", "c"])}
    size = {"shortest_edge": 800, "longest_edge": 1333}
    processor = {**VIT, "size": size, "format": "coco_detection"}
    plan = plan_beside(tmp_path, families.detr(), config, processor)
    chosen = decided_values(plan.postprocess)
    assert (plan.head.family, chosen["num_classes"]) == ("rtdetr", "4")
    assert (chosen["background"], chosen["activation"]) == ("last", "softmax")
    assert plan.classes.names == ("N/A", "a", "b", "c")
    assert endcap_parameters(plan)["fit"] == "stretch"


def test_rtdetr_needs_no_options(tmp_path: Path) -> None:
    config = {"architectures": ["RTDetrForObjectDetection"], **ids([*"abcd"])}
    plan = plan_beside(tmp_path, families.rtdetr(), config, {**VIT, "do_normalize": False})
    chosen = decided_values(plan.postprocess)
    assert (plan.head.family, chosen["background"]) == ("rtdetr", "none")
    assert plan.preprocess["preset"].value == "rtdetr"


def ids(names: list[str]) -> dict[str, Any]:
    return {"id2label": {str(number): name for number, name in enumerate(names)}}


def test_files_above_a_folder_called_onnx(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(classifier(SEVEN)))
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(VIT))
    for name, error in (("onnx", None), ("other", RepositoryError)):
        folder = tmp_path / name
        folder.mkdir()
        if error is None:
            assert plan_of(families.classifier(), folder).classes.names == tuple(SEVEN)
        else:
            with pytest.raises(error):
                plan_of(families.classifier(), folder)


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        "[" * 100_000,
        '{"id2label": {"0": 3}}',
        '{"id2label": {"1": "a"}}',
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


def test_another_networks_names_are_not_taken(tmp_path: Path) -> None:
    plan = plan_beside(
        tmp_path, families.yolov8(), classifier([*"ab"]), VIT, head="yolov8", preset="ultralytics"
    )
    assert plan.classes.names is None


def test_ultralytics_metadata_wins(tmp_path: Path) -> None:
    metadata = {"author": "Ultralytics", "stride": "32", "task": "detect"}
    metadata["names"] = "['a', 'b', 'c']"
    plan = plan_beside(tmp_path, families.yolov8(metadata=metadata), classifier([*"xyz"]), VIT)
    assert plan.classes.names == ("a", "b", "c")
    assert plan.preprocess["preset"].value == "ultralytics"


def test_heads_with_a_recipe_of_their_own_keep_it(tmp_path: Path) -> None:
    """Processors of detectors keep the aspect ratio; for YOLO's grids it is known how."""
    plan = plan_beside(tmp_path, families.yolov8(), ids([*"abc"]), VIT)
    assert plan.classes.names == ("a", "b", "c")
    assert plan.preprocess["preset"].value == "ultralytics"


def test_squashed_images_of_timm(tmp_path: Path) -> None:
    recipe = {**TIMM, "crop_mode": "squash", "crop_pct": 1.0}
    config = {"num_classes": 7, "pretrained_cfg": recipe}
    chosen = endcap_parameters(plan_beside(tmp_path, families.classifier(), config))
    assert (chosen["fit"], chosen["mean"]) == ("stretch", "0.485,0.456,0.406")


# --- a file that is given ---


def test_a_given_processor_wins_over_what_lies_beside_the_network(tmp_path: Path) -> None:
    given = tmp_path / "elsewhere" / "my_processor.json"
    given.parent.mkdir()
    given.write_text(json.dumps({**VIT, "resample": 2, "image_std": [1, 1, 1]}))
    plan = plan_beside(
        tmp_path, families.classifier(), classifier(SEVEN), VIT, preprocess_from=given
    )
    chosen = endcap_parameters(plan)
    assert (chosen["interpolation"], chosen["std"]) == ("bilinear", "1,1,1")
    assert plan.preprocess["preset"].reason.startswith("as my_processor.json says")
    assert plan.classes.names == tuple(SEVEN)


def test_a_given_processor_wins_over_the_exporters_metadata(tmp_path: Path) -> None:
    given = tmp_path / "processor.json"
    given.write_text(json.dumps({**VIT, "do_flip_channel_order": True}))
    plan = plan_of(families.yolov8(classes=7), tmp_path, preprocess_from=given)
    assert endcap_parameters(plan)["color"] == "bgr"


@pytest.mark.parametrize("content", [{"pretrained_cfg": TIMM}, TIMM], ids=["config", "bare"])
def test_a_given_config_of_timm(content: dict[str, Any], tmp_path: Path) -> None:
    given = tmp_path / "timm.json"
    given.write_text(json.dumps(content))
    plan = plan_beside(tmp_path, families.classifier(), classifier(SEVEN), preprocess_from=given)
    chosen = endcap_parameters(plan)
    assert (chosen["interpolation"], chosen["resize_shorter"]) == ("bicubic", "73")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "is no file; give an existing one"),
        ("no JSON", "does not say how images are prepared"),
        ("{}", "does not say how images are prepared"),
        (json.dumps({**VIT, "resample": 1}), "preprocess cannot follow .*resample is 1"),
        (json.dumps({**VIT, "size": {"shortest_edge": 64}}), "leaves each image a size of its own"),
    ],
)
def test_a_given_file_that_cannot_be_followed(
    content: str | None, message: str, tmp_path: Path
) -> None:
    given = tmp_path / "given.json"
    if content is not None:
        given.write_text(content)
    with pytest.raises(RepositoryError, match=message):
        plan_beside(tmp_path, families.classifier(), classifier(SEVEN), preprocess_from=given)


def test_a_given_file_and_a_preset_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(endcap.InvalidArgumentError, match="give one of them"):
        plan_beside(
            *(tmp_path, families.classifier(), classifier(SEVEN)),
            preprocess_from=tmp_path / "x.json",
            preset="torchvision",
        )
