"""`endcap init --tile`: a repository whose network runs on tiles of an image."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from endcap.errors import InvalidArgumentError
from endcap.repository.options import decided_values
from endcap.repository.plan import Plan
from endcap.repository.writing import render
from tests.support import family_networks as families
from tests.support.cli_runs import endcap
from tests.support.family_networks import Network
from tests.support.init_runs import plan_network, written

ULTRALYTICS: dict[str, Any] = {
    "preset": "ultralytics",
    "settings": {"activation": "none", "box_format": "cxcywh"},
}


def plan_tiles(network: Network, folder: Path, **options: Any) -> Plan:
    return plan_network(network, folder, tile=640, **{"max_batch": 12, **ULTRALYTICS, **options})


@pytest.mark.parametrize(
    ("network", "merging"),
    [
        (families.yolov8(), {"merge": "nms"}),
        (families.seg(), {"merge": "nms"}),
        (families.obb(), {"merge": "nms", "merge_metric": "iou"}),
    ],
)
def test_parameters_and_tensors(network: Network, merging: dict[str, str], tmp_path: Path) -> None:
    head = {"head": "yolov8_obb"} if "merge_metric" in merging else {}
    plan = plan_tiles(network, tmp_path, **head)
    preprocess, postprocess = decided_values(plan.preprocess), decided_values(plan.postprocess)
    assert (preprocess["tile"], preprocess["max_rois"]) == ("640", "12")
    assert {name: postprocess[name] for name in postprocess if "merge" in name} == merging
    texts = render(plan, "models")
    for model in ("preprocess", "postprocess", "detect"):
        assert "\nmax_batch_size: 0" in texts[f"{model}/config.pbtxt"]
        assert "dynamic_batching" not in texts[f"{model}/config.pbtxt"]
    assert "\nmax_batch_size: 12\n" in texts["detector/config.pbtxt"]
    height, width = plan.image.size
    assert f"dims: [ -1, 3, {height}, {width} ]" in texts["preprocess/config.pbtxt"]
    assert "dims: [ -1, 8 ]" in texts["postprocess/config.pbtxt"]


def test_settings_win(tmp_path: Path) -> None:
    settings = {**ULTRALYTICS["settings"], "merge": "nmm", "max_rois": "5", "tile_overlap": "0.1"}
    plan = plan_tiles(families.yolov8(), tmp_path, settings=settings)
    assert plan.postprocess["merge"].value == "nmm"
    assert plan.preprocess["max_rois"].value == "5"
    assert plan.preprocess["tile_overlap"].value == "0.1"


def test_validate_has_no_findings(tmp_path: Path) -> None:
    options = ("--tile", "640", "--preset", "ultralytics", "--set", "activation=none")
    models = written(tmp_path, families.yolov8(), *options, "--set", "box_format=cxcywh")
    done = endcap("validate", models, "--strict")
    assert (done.exit_code, done.stdout) == (0, done.stdout), done.stdout
    assert "0 errors, 0 warnings" in done.stdout


def test_validate_compares_regions_with_the_largest_batch(tmp_path: Path) -> None:
    options = ("--tile", "640", "--max-batch", "9", "--preset", "ultralytics")
    settings = ("--set", "activation=none", "--set", "box_format=cxcywh")
    models = written(tmp_path, families.yolov8(), *options, *settings)
    config = models / "preprocess" / "config.pbtxt"
    text = config.read_text()
    assert '"9"' in text
    for most, warnings in (("9", 0), ("10", 1)):
        config.write_text(text.replace('"9"', f'"{most}"'))
        done = endcap("validate", models)
        assert f"0 errors, {warnings} warning" in done.stdout
    said = "max_rois is 10, and max_batch_size of detector, which takes the regions of an image"
    assert said in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("network", "options", "said"),
    [
        (
            families.classifier(),
            {"head": "classification"},
            "--tile is for detectors, and the head is classification; leave --tile out",
        ),
        (families.yolov8(), {"max_batch": 1}, "--tile is for detectors that take several"),
        (families.yolov8(), {"preprocess": "python"}, "--tile is for the compiled backends"),
        (families.yolov8(), {"settings": {"tile": "640"}}, "--set tile: give it with --tile"),
        (families.seg(), {"settings": {"merge": "nmm"}}, "unites plain boxes only"),
        (
            families.yolov8(),
            {"tile": None, "settings": {"merge": "nms"}},
            "for the tiles of --tile",
        ),
        (
            families.yolov8(),
            {"tile": None, "settings": {"tile_overlap": "0.3"}},
            "for the tiles of --tile",
        ),
        (families.yolov8(), {"settings": {"merge": "none"}}, "give nms or nmm"),
        (families.yolov8(), {"settings": {"max_rois": "13"}}, "give --max-batch 13, too"),
        (families.semantic(), {}, "the head is semantic; leave --tile out"),
    ],
)
def test_refusals(network: Network, options: dict[str, Any], said: str, tmp_path: Path) -> None:
    own = options.get("settings", {})
    settings = {**ULTRALYTICS["settings"], **own} if "logits" not in network.outputs else {}
    given = {"tile": 640, "max_batch": 12, "preset": "ultralytics", **options}
    with pytest.raises(InvalidArgumentError, match=said):
        plan_network(network, tmp_path, **{**given, "settings": settings})
