"""endcap init and networks that take fewer images at once than their file declares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from endcap.repository.options import InitOptions
from endcap.repository.plan import Plan, make_plan
from endcap.repository.writing import render
from tests.support import family_networks as families
from tests.support import odd_networks as odd
from tests.support.init_runs import init

OPTIONS: dict[str, Any] = {"num_classes": 5, "preset": "ultralytics"}


def plan_model(model: Path, **options: Any) -> Plan:
    return make_plan(model, InitOptions(**OPTIONS, **options), model.parent)


def test_suppression_inside_gives_single_images_without_metadata(tmp_path: Path) -> None:
    """It may be for one image alone, and noise has no detections that would show it."""
    model = families.end2end().write(tmp_path / "model.onnx")
    made = onnx.load(model)
    numbers = [np.zeros((1, 1, 4), np.float32), np.zeros((1, 1, 1), np.float32)]
    made.graph.initializer.extend(
        onnx.numpy_helper.from_array(array, name)
        for name, array in zip(("all_boxes", "all_scores"), numbers, strict=True)
    )
    names = ["all_boxes", "all_scores"]
    made.graph.node.append(onnx.helper.make_node("NonMaxSuppression", names, ["kept"]))
    onnx.save(made, model)
    plan = plan_model(model)
    assert plan.network_batch == 1
    assert "suppression inside" in next(iter(plan.summary())).reason
    assert "without suppression inside" in plan.batch_advice
    assert "max_batch_size: 0" in render(plan, "models")["detector/config.pbtxt"]


@pytest.mark.parametrize(("batch", "expected"), [(1, 1), (4, 4), (32, 16)])
def test_the_metadata_limits_the_batch_of_nms_inside(
    batch: int, expected: int, tmp_path: Path
) -> None:
    """The trial run shows nothing of it: the network itself takes any batch."""
    metadata = {
        "author": "Ultralytics",
        "args": str({"nms": True, "dynamic": True, "batch": batch}),
        "names": str([*"abcde"]),
    }
    model = families.end2end(metadata=metadata).write(tmp_path / "model.onnx")
    done = init(model)
    assert done.exit_code == 0, done.stderr
    config = (tmp_path / "models" / "detect" / "config.pbtxt").read_text()
    assert f"max_batch_size: {expected} " in config
    assert ("leave out nms=True" in done.stderr) == (expected < 16)


@pytest.mark.parametrize(
    ("most", "reason"),
    [(16, "fails with 2 images at once"), (1, "the file declares output0 for one image")],
)
def test_a_network_that_takes_one_image_whatever_it_declares(
    most: int, reason: str, tmp_path: Path
) -> None:
    model = odd.for_one(families.yolov8()).write(tmp_path / "model.onnx")
    plan = make_plan(model, InitOptions(max_batch=most), tmp_path)
    texts = render(plan, "models")
    assert "max_batch_size: 0" in texts["detector/config.pbtxt"]
    assert "dims: [ 1, 3, 64, 64 ]" in texts["detector/config.pbtxt"]
    assert "max_batch_size: 1" in texts["detect/config.pbtxt"]
    assert reason in next(iter(plan.summary())).reason


def test_outputs_declared_for_one_image_become_dynamic(tmp_path: Path) -> None:
    model = odd.declared_for_one(families.yolov8()).write(tmp_path / "model.onnx")
    with_mean = onnx.load(model)
    mean = onnx.helper.make_tensor_value_info("mean", onnx.TensorProto.FLOAT, [])
    with_mean.graph.output.append(mean)
    with_mean.graph.node.append(
        onnx.helper.make_node("ReduceMean", ["images"], ["mean"], keepdims=0)
    )
    onnx.save(with_mean, model)
    plan = make_plan(model, InitOptions(head="yolov8"), tmp_path)
    session = onnxruntime.InferenceSession(plan.network.file)
    assert [output.name for output in session.get_outputs()] == ["output0"]
    assert not isinstance(session.get_outputs()[0].shape[0], int)
    assert plan.network_batch == 16
    edits = {row.value: row.reason for row in plan.summary() if row.name == "graph edit"}
    assert edits == {
        "output0": "gets a dynamic batch dimension",
        "mean": "is removed, as it has no dynamic batch dimension",
    }


def test_advice_for_a_fixed_batch_of_nms_inside(tmp_path: Path) -> None:
    metadata = {"author": "Ultralytics", "args": "{'nms': True, 'batch': 4}"}
    model = families.end2end(batch=4, metadata=metadata).write(tmp_path / "model.onnx")
    done = init(model)
    assert done.exit_code == 2
    assert "leave out nms=True; endcap suppresses itself" in done.stderr
