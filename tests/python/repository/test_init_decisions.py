"""Decisions of `endcap init` about a network, and their reasons."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import endcap
from endcap.errors import InvalidArgumentError
from endcap.repository.metadata import read_metadata
from endcap.repository.options import InitOptions, decided_values
from endcap.repository.plan import make_plan
from tests.support import family_networks as families
from tests.support import odd_networks as odd
from tests.support.family_networks import Network, Output
from tests.support.init_runs import plan_network, write_shapes

ULTRALYTICS = {"author": "Ultralytics", "stride": "32", "task": "detect"}
CLASSIFIES = {"author": "Ultralytics", "task": "classify", "imgsz": "[64, 64]"}


def grid_network(size: tuple[int, int], strides: tuple[int, ...], anchors: int) -> Network:
    """A head of the given grids: yolov8 with one anchor in each cell, yolov5 with three."""
    centers = np.array(
        [
            ((x + 0.5) * stride, (y + 0.5) * stride, 8, 8)
            for stride in strides
            for y in range(-(-size[0] // stride))
            for x in range(-(-size[1] // stride))
            for _ in range(anchors)
        ],
        np.float32,
    )
    scores = np.full((len(centers), 4 if anchors > 1 else 3), 0.1, np.float32)
    base = np.hstack([centers, scores])
    return Network({"out": Output(base if anchors > 1 else base.T)}, size=size)


@pytest.mark.parametrize(
    ("size", "strides", "anchors", "family"),
    [
        ((128, 320), (8, 16, 32), 1, "yolov8"),
        ((50, 70), (8, 16, 32, 64), 1, "yolov8"),
        ((64, 64), (4, 8, 16, 32), 1, "yolov8"),
        ((480, 640), (8, 16, 32), 3, "yolov5"),
    ],
)
def test_grids_determine_the_family(
    size: tuple[int, int], strides: tuple[int, ...], anchors: int, family: str, tmp_path: Path
) -> None:
    plan = plan_network(grid_network(size, strides, anchors), tmp_path)
    assert plan.head.family == family
    assert plan.head.num_classes == 3
    assert ", ".join(map(str, strides)) in plan.head.reason
    assert plan.preprocess["size"].value == f"{size[0]},{size[1]}"
    assert plan.served["head"].dims == plan.head.inputs["head"].dims


def test_ultralytics_classifiers_bring_their_own_recipe(tmp_path: Path) -> None:
    plan = plan_network(replace(families.classifier(), metadata=CLASSIFIES), tmp_path)
    recipe = endcap.Preprocessor(**decided_values(plan.preprocess)).parameters  # type: ignore[arg-type]
    assert recipe["fit"] == "center_crop"
    assert (recipe["size"], recipe["resize_shorter"]) == ("64,64", "64")
    assert (recipe["mean"], recipe["std"], recipe["exif"]) == ("0,0,0", "1,1,1", "apply")


def test_a_crop_keeps_the_presets_proportion(tmp_path: Path) -> None:
    network = replace(families.classifier(), size=(384, 384))
    plan = plan_network(network, tmp_path, head="classification", preset="torchvision")
    assert plan.preprocess["resize_shorter"].value == "439"
    assert "224/256" in plan.preprocess["resize_shorter"].reason


def test_gray_networks_get_gray_images(tmp_path: Path) -> None:
    shape = {"logits": ["n", 4]}
    model = write_shapes(tmp_path / "gray.onnx", shape, inputs={"x": ["n", 1, 28, 28]})
    settings = {"mean": "1", "std": "1", "activation": "none"}
    options = InitOptions(head="classification", preset="inception", settings=settings)
    plan = make_plan(model, options, tmp_path)
    assert plan.preprocess["color"].value == "gray"
    assert plan.image.dims == (1, 28, 28)


def test_a_size_in_the_metadata_fills_an_open_one(tmp_path: Path) -> None:
    network = replace(
        families.yolov8(size=("height", "width")), metadata={**ULTRALYTICS, "imgsz": "[64, 64]"}
    )
    plan = plan_network(network, tmp_path)
    assert plan.image.size == (64, 64)
    assert "imgsz" in plan.image.size_reason


def test_what_is_given_wins(tmp_path: Path) -> None:
    settings = {"score_threshold": "0.5", "upscale": "false", "multi_label": "true"}
    plan = plan_network(families.yolov8(), tmp_path, preset="rtdetr", settings=settings)
    assert plan.preprocess["preset"].value == "rtdetr"
    assert plan.preprocess["upscale"].value == "false"
    assert plan.postprocess["score_threshold"].value == "0.5"
    assert plan.postprocess["multi_label"].value == "true"


def test_metadata_that_names_other_classes_is_not_used(tmp_path: Path) -> None:
    names = {**ULTRALYTICS, "names": "['a', 'b']"}
    plan = plan_network(replace(families.yolov5(), metadata=names), tmp_path, head="yolov5")
    assert plan.classes.names is None
    assert "names 2" in plan.classes.reason


@pytest.mark.parametrize(
    "names",
    ["['a\\nb', 'c', 'd']", "['', 'c', 'd']", "['\\ud800', 'c', 'd']"],
    ids=["two lines", "empty", "surrogate"],
)
def test_a_name_that_no_file_can_hold_costs_that_name_alone(names: str, tmp_path: Path) -> None:
    network = replace(families.yolov8(), metadata={**ULTRALYTICS, "names": names})
    plan = plan_network(network, tmp_path)
    assert plan.classes.names == ("class 0", "c", "d")
    assert "--labels FILE names them all" in plan.classes.reason


def test_an_output_of_another_type_is_cast(tmp_path: Path) -> None:
    network = families.efficient_nms(ids="int64")
    plan = plan_network(network, tmp_path, num_classes=6, preset="ultralytics")
    assert [str(each) for each in plan.served.values()][::3] == [
        "num_dets INT32 [1]",
        "det_classes INT64 [20]",
    ]
    session = onnxruntime.InferenceSession(plan.network.file)
    (count,) = session.run(["num_dets"], {"images": np.zeros((2, 3, 64, 64), np.float32)})
    assert (count.dtype, count.tolist()) == (np.int32, [[7], [7]])


def test_a_number_of_classes_that_is_given_wins_over_names(tmp_path: Path) -> None:
    names = {**ULTRALYTICS, "names": "['a', 'b']"}
    plan = plan_network(replace(families.end2end(), metadata=names), tmp_path, num_classes=5)
    assert plan.postprocess["num_classes"].value == "5"
    assert plan.classes.names is None


def test_boxes_that_are_no_corners(tmp_path: Path) -> None:
    network = families.end2end()
    (output,) = network.outputs.values()
    base = output.base.copy()
    base[:, 2:4] = 5
    centred = Network({"output0": replace(output, base=base)})
    plan = plan_network(centred, tmp_path, num_classes=5, preset="ultralytics")
    assert plan.postprocess["box_format"].value == "cxcywh"


def test_operators_of_tensorrt_are_not_run(tmp_path: Path) -> None:
    model = odd.write_plugin(tmp_path / "model.onnx")
    options = InitOptions(runtime="tensorrt", num_classes=6, preset="ultralytics")
    plan = make_plan(model, options, tmp_path)
    assert plan.head.family == "efficient_nms"
    assert [spec.dims for spec in plan.served.values()] == [(1,), (20, 4), (20,), (20,)]


def test_weights_listed_as_inputs_are_not_inputs(tmp_path: Path) -> None:
    """As in files of IR version 3."""
    path = families.yolov8().write(tmp_path / "model.onnx")
    model = onnx.load(str(path))
    for weights in model.graph.initializer:
        shape = list(weights.dims)
        listed = onnx.helper.make_tensor_value_info(weights.name, weights.data_type, shape)
        model.graph.input.append(listed)
    model.ir_version = 3
    onnx.save(model, str(path))
    assert make_plan(path, InitOptions(), tmp_path).image.name == "images"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("{0: 'a', 1: 'b, c'}", ("a", "b, c")),
        ("{1: 'b', 0: 'a'}", ("a", "b")),
        ("{'0': 'a', '1': 'b'}", ("a", "b")),
        ("['a', 'b']", ("a", "b")),
        ("{1: 'a', 2: 'b'}", None),
        ("{}", None),
        ("names", None),
        ("__import__('os').getcwd()", None),
        ("{[1]: 2}", None),
        ("(" * 500, None),
        (f"['a', 0x{'f' * 6000}]", None),  # more digits than Python prints
        ("", None),
    ],
)
def test_names_in_metadata(text: str, names: tuple[str, ...] | None) -> None:
    assert read_metadata({"names": text}).names == names


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("640", (640, 640)),
        ("[640, 480]", (640, 480)),
        ("(640, 480)", (640, 480)),
        *((text, None) for text in ("[640]", "[6, 6, 3]", "0", "'640'", "x", "0x" + "f" * 6000)),
    ],
)
def test_sizes_in_metadata(text: str, size: tuple[int, int] | None) -> None:
    assert read_metadata({"imgsz": text}).size == size


def test_a_classifier_has_a_threshold_only_with_several_labels(tmp_path: Path) -> None:
    chosen = {"head": "classification", "preset": "torchvision"}
    plain = plan_network(families.classifier(), tmp_path, **chosen)
    assert "score_threshold" not in plain.postprocess
    settings = {"multi_label": "true", "activation": "sigmoid"}
    several = plan_network(families.classifier(), tmp_path, **chosen, settings=settings)
    assert several.postprocess["score_threshold"].value == "0.25"
    with pytest.raises(InvalidArgumentError, match="score_threshold changes nothing"):
        plan_network(families.classifier(), tmp_path, **chosen, settings={"score_threshold": "0.5"})
