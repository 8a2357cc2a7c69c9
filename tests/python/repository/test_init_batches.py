"""endcap init and networks that take fewer images at once than their file declares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest

from endcap.repository.options import InitOptions
from endcap.repository.plan import Plan, make_plan
from endcap.repository.rendering import render
from tests.support import family_networks as families
from tests.support import odd_networks as odd
from tests.support.init_runs import init

OPTIONS: dict[str, Any] = {"num_classes": 5, "preset": "ultralytics"}
THRESHOLDS = pytest.mark.parametrize("threshold", [0.0, 2.0], ids=["detections", "none in noise"])


def plan_of(model: Path, **options: Any) -> Plan:
    return make_plan(model, InitOptions(**OPTIONS, **options), model.parent)


def largest_batches(plan: Plan) -> set[str]:
    texts = render(plan, "models")
    return {
        line.split("#")[0].strip()
        for name in ("detect", "detector")
        for line in texts[f"{name}/config.pbtxt"].splitlines()
        if line.startswith("max_batch_size")
    }


@THRESHOLDS
@pytest.mark.parametrize("images", [2, 3, 4])
def test_an_unrolled_loop_gives_the_largest_batch(
    images: int, threshold: float, tmp_path: Path
) -> None:
    model = tmp_path / "model.onnx"
    odd.write_unrolled(model, families.end2end(), images, score_threshold=threshold)
    plan = plan_of(model)
    assert plan.network_batch == images
    assert largest_batches(plan) == {f"max_batch_size: {images}"}
    assert f"up to {images} images at a time" in next(iter(plan.summary())).reason
    assert "without suppression inside" in plan.batch_advice


@THRESHOLDS
def test_a_loop_for_one_image_gives_no_batch(threshold: float, tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    odd.write_unrolled(model, families.end2end(), 1, score_threshold=threshold)
    plan = plan_of(model)
    assert plan.network_batch == 1
    assert "one image at a time" in next(iter(plan.summary())).reason


@THRESHOLDS
def test_a_loop_over_more_images_than_are_wanted_limits_nothing(
    threshold: float, tmp_path: Path
) -> None:
    model = tmp_path / "model.onnx"
    odd.write_unrolled(model, families.end2end(), 8, score_threshold=threshold)
    plan = plan_of(model, max_batch=8)
    assert plan.network_batch == 8
    assert plan.batch_advice == ""
    assert "any number of images" in next(iter(plan.summary())).reason


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


def test_a_network_that_fails_with_large_batches_gets_single_images(tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    odd.write_for_at_most(model, families.end2end(), 6)
    plan = plan_of(model)
    assert plan.network_batch == 1
    assert "fails with 16 images" in plan.batch_reason


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
