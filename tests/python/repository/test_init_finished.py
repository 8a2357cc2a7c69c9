"""Recognition by `endcap init` of detections that are finished inside the network."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from endcap.repository.errors import RepositoryError
from endcap.repository.options import InitOptions, decided_values
from endcap.repository.plan import make_plan
from endcap.repository.writing import render
from tests.support import family_networks as families
from tests.support import finished_networks as finished
from tests.support.documented_heads import flat
from tests.support.family_networks import Network, Output
from tests.support.finished_networks import Finished
from tests.support.init_runs import init, plan_network


# SSDLite has the same mean for all channels.
@pytest.mark.parametrize(
    ("mean", "text"), [((0.4, 0.5, 0.6), "0.4, 0.5, 0.6"), ((0.5,) * 3, "0.5")]
)
def test_normalisation_inside_the_network_is_not_repeated(
    mean: tuple[float, ...], text: str, tmp_path: Path
) -> None:
    plan = plan_network(Finished(mean=mean), tmp_path)
    chosen = decided_values(plan.preprocess)
    assert chosen["preset"] == "ssd"
    assert (chosen["mean"], chosen["std"]) == ("0,0,0", "1,1,1")
    assert text in plan.preprocess["mean"].reason
    assert "fit" not in chosen  # a softmax without RoiAlign: SSD, which stretches


def test_without_normalisation_the_recipe_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(RepositoryError, match="--preset"):
        plan_network(Finished(normalizes=False), tmp_path)


@pytest.mark.parametrize("has_batch", [False, True])
def test_the_edited_network_gives_the_same_rows_with_a_batch(
    has_batch: bool, tmp_path: Path
) -> None:
    plan = plan_network(Finished(has_batch=has_batch, least=3), tmp_path)
    onnx.checker.check_model(str(plan.network.file), full_check=True)
    session = onnxruntime.InferenceSession(plan.network.file)
    assert [each.shape for each in session.get_inputs()] == [[1, 3, 64, 64]]
    bright = np.full((1, 3, 64, 64), 0.6, np.float32)
    given = dict(zip(["1", "2", "3"], session.run(["1", "2", "3"], {"image": bright}), strict=True))
    expected = Finished(least=3).expected(bright[0])
    assert 3 < len(expected["boxes"]) < finished.ROWS
    np.testing.assert_array_equal(given["1"][0], expected["boxes"])
    np.testing.assert_allclose(given["2"][0], expected["scores"], rtol=1e-6)
    np.testing.assert_array_equal(given["3"][0], expected["classes"])


def test_configs_leave_the_number_of_rows_open(tmp_path: Path) -> None:
    texts = render(plan_network(Finished(), tmp_path), "models")
    network, postprocess = (texts[f"{each}/config.pbtxt"] for each in ("detector", "postprocess"))
    assert "max_batch_size: 0" in network
    assert "dims: [ 1, -1, 4 ]" in network
    assert "finds objects in one image at a time" in network
    assert "dims: [ -1, 4 ]" in postprocess
    assert "dims: [ 1, 4 ] zero_data" in postprocess  # of the warm-up, which needs numbers
    assert "TYPE_INT64" in postprocess


def test_edits_of_the_graph_are_listed(tmp_path: Path) -> None:
    rows = [row for row in plan_network(Finished(), tmp_path).summary() if row.name == "graph edit"]
    assert [row.value for row in rows] == ["image", "1", "2", "3"]
    assert {row.reason for row in rows} == {"gets a batch dimension"}
    network = flat([5, 4, 0, 1, 2, 3], count=True)
    model = network.write(tmp_path / "model.onnx")
    plan = make_plan(model, InitOptions(num_classes=5, preset="ultralytics"), tmp_path)
    (row,) = (row for row in plan.summary() if row.name == "graph edit")
    assert row.reason == "gets a batch dimension, has the columns 2, 3, 4, 5, 1, 0"


def test_advice_to_leave_out_ultralytics_nms_for_batches(tmp_path: Path) -> None:
    metadata = {"author": "Ultralytics", "args": "{'nms': True}", "names": str([*"abcde"])}
    for known, has_nms in ((metadata, True), ({**metadata, "args": "{}"}, False)):
        model = families.end2end(batch=1, metadata=known).write(tmp_path / "model.onnx")
        done = init(model, output=tmp_path / f"models_{has_nms}")
        assert done.exit_code == 0, done.stderr
        assert "takes one image at a time" in done.stderr
        assert ("leave out nms=True" in done.stderr) == has_nms
        assert ("dynamic batch" in done.stderr) != has_nms


@pytest.mark.parametrize("has_batch", [False, True])
def test_class_ids_beside_rows_become_their_last_column(has_batch: bool, tmp_path: Path) -> None:
    """As MMDeploy has them."""
    (output,) = families.end2end().outputs.values()
    dets = Output(np.ascontiguousarray(output.base[:, :5]), batch=has_batch)
    labels = Output(output.base[:, 5], dtype="int64", batch=has_batch)
    network = Network({"dets": dets, "labels": labels}, batch="batch" if has_batch else 1)
    model = network.write(tmp_path / "model.onnx")
    plan = make_plan(model, InitOptions(num_classes=5, preset="ultralytics"), tmp_path)
    assert plan.head.family == "end2end"
    assert [*plan.head.inputs] == ["head"]
    count = 2 if has_batch else 1
    images = np.zeros((count, 3, 64, 64), np.float32)
    onnx.checker.check_model(str(plan.network.file), full_check=True)
    session = onnxruntime.InferenceSession(plan.network.file)
    given = session.run(["dets"], {"images": images})[0]
    np.testing.assert_array_equal(given, np.stack([output.base] * count))


@pytest.mark.parametrize("has_batch", [False, True])
def test_scores_of_boxes_without_classes_are_no_classifiers(
    has_batch: bool, tmp_path: Path
) -> None:
    given = families.efficient_nms().outputs
    boxes, scores = (replace(given[name], batch=has_batch) for name in ("det_boxes", "det_scores"))
    batch = "batch" if has_batch else 1
    path = Network({"1": boxes, "2": scores}, batch=batch).write(tmp_path / "model.onnx")
    done = init(path)
    assert done.exit_code == 2
    assert done.stderr.count("--head") == done.stderr.count("--head none") == 1
    assert "suppression inside, as by `yolo export" in done.stderr


def test_known_inputs_beside_the_image_become_constants(tmp_path: Path) -> None:
    metadata = {"author": "Ultralytics", "task": "detect", "names": "['a', 'b', 'c']"}
    network = families.yolov8(size=(64, 96), batch=1, metadata=metadata)
    model = onnx.load(network.write(tmp_path / "plain.onnx"))
    for name, element in (("orig_target_sizes", 7), ("scale_factor", 1), ("im_shape", 1)):
        value = onnx.helper.make_tensor_value_info(name, element, [1, 2])
        model.graph.input.append(value)
        made = onnx.helper.make_tensor_value_info(f"{name}_seen", element, [None, 2])
        model.graph.output.append(made)
        model.graph.node.append(onnx.helper.make_node("Identity", [name], [f"{name}_seen"]))
    onnx.save(model, str(tmp_path / "model.onnx"))
    plan = make_plan(tmp_path / "model.onnx", InitOptions(head="yolov8"), tmp_path)
    session = onnxruntime.InferenceSession(plan.network.file)
    assert [each.name for each in session.get_inputs()] == ["images"]
    seen = ["orig_target_sizes_seen", "scale_factor_seen", "im_shape_seen"]
    given = session.run(seen, {"images": np.zeros((1, 3, 64, 96), np.float32)})
    assert [each.tolist() for each in given] == [[[96, 64]], [[1, 1]], [[64, 96]]]


def test_rows_of_a_head_that_needs_all_of_them_are_refused(tmp_path: Path) -> None:
    network = Finished(names=("boxes", "scores", "classes"), least=3, more=True)
    path = network.write(tmp_path / "model.onnx")
    model = onnx.load(path)
    kept = [each for each in model.graph.output if each.name in ("boxes", "masks")]
    del model.graph.output[:]
    model.graph.output.extend(kept)
    onnx.save(model, str(path))
    done = init(path)
    assert done.exit_code == 2
    assert "export" in done.stderr


def test_a_network_may_be_edited_with_weights_beside_it(tmp_path: Path) -> None:
    network = replace(Finished(), least=2)
    model = onnx.load(network.write(tmp_path / "model.onnx"))
    onnx.save(
        model,
        str(tmp_path / "model.onnx"),
        save_as_external_data=True,
        location="data.bin",
        size_threshold=100,
    )
    done = init(tmp_path / "model.onnx", "--num-classes", 3)
    assert done.exit_code == 0, done.stderr
    served = tmp_path / "models" / "detector" / "1" / "model.onnx"
    session = onnxruntime.InferenceSession(served)
    assert [each.shape for each in session.get_inputs()] == [[1, 3, 64, 64]]
