"""Recognition by `endcap init` of heads with masks, keypoints, angles, queries and anchors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import family_networks as families
import numpy as np
import odd_networks as odd
import onnx
import onnxruntime
import pytest
from cli_runs import endcap as run
from family_networks import Network, Output
from google.protobuf import text_format
from init_runs import plan_of, written
from tritonclient.grpc import model_config_pb2

import endcap
from endcap.repository.errors import RepositoryError
from endcap.repository.head_evidence import are_fractions, score_activation
from endcap.repository.options import InitOptions, decided_values
from endcap.repository.plan import Plan, make_plan
from endcap.repository.rendering import render


def task(name: str, **more: object) -> dict[str, str]:
    metadata = {"author": "Ultralytics", "stride": "32", "task": name}
    return metadata | {key: str(value) for key, value in more.items()}


def assert_head(plan: Plan, family: str, expected: Mapping[str, str]) -> None:
    assert plan.head.family == family
    chosen = decided_values(plan.postprocess)
    assert {name: chosen.get(name) for name in expected} == expected
    assert [spec.name for spec in plan.served] == [each.name for each in plan.head.inputs.values()]


MASKS = {"mask_coefficients": "32", "prototype_size": "16,16", "input_size": "64,64"}


@pytest.mark.parametrize("metadata", [{}, task("segment")])
def test_masks(metadata: dict[str, str], tmp_path: Path) -> None:
    plan = plan_of(families.seg(metadata=metadata), tmp_path)
    assert_head(plan, "yolov8_seg", {"num_classes": "3", "activation": "none", **MASKS})
    assert plan.preprocess["preset"].value == "ultralytics"
    assert [*plan.head.inputs] == ["head", "protos"]
    results = [str(spec) for spec in plan.results]
    assert "mask_size INT32 [2]" in results
    assert results[-1] == "detection_rle STRING [300]"
    assert not any("detection_masks" in spec for spec in results)


def test_masks_of_another_resolution_are_declared(tmp_path: Path) -> None:
    plan = plan_of(families.seg(), tmp_path, settings={"mask_resolution": "input"})
    assert "detection_masks UINT8 [300, 64, 8]" in map(str, plan.results)
    assert 'key: "detection_masks"' in render(plan, "models")["detect/config.pbtxt"]


def test_names_determine_where_mask_coefficients_begin(tmp_path: Path) -> None:
    metadata = task("segment", names="['a', 'b', 'c']")
    plan = plan_of(families.seg(metadata=metadata), tmp_path)
    assert plan.classes.names == ("a", "b", "c")


@pytest.mark.parametrize("kept", [2, 3])
def test_keypoints_by_the_metadata(kept: int, tmp_path: Path) -> None:
    network = families.pose(values=kept, metadata=task("pose", kpt_shape=[5, kept]))
    plan = plan_of(network, tmp_path)
    expected = {"num_classes": "2", "num_keypoints": "5", "keypoint_values": str(kept)}
    assert_head(plan, "yolov8_pose", expected)
    assert "detection_keypoints FP32 [300, 5, 3]" in map(str, plan.results)
    assert "input_size" not in plan.postprocess


@pytest.mark.parametrize("head", [None, "yolov8_pose"])
def test_keypoints_by_the_user(head: str | None, tmp_path: Path) -> None:
    settings = {"num_keypoints": "5", "keypoint_values": "2"}
    plan = plan_of(families.pose(values=2), tmp_path, head=head, settings=settings)
    assert_head(plan, "yolov8_pose", {"num_classes": "2", **settings})
    assert plan.postprocess["num_keypoints"].is_given


@pytest.mark.parametrize(
    ("metadata", "head"), [(task("obb"), None), ({}, "yolov8_obb"), ({}, None)]
)
def test_angles(metadata: dict[str, str], head: str | None, tmp_path: Path) -> None:
    plan = plan_of(families.obb(metadata=metadata), tmp_path, head=head)
    expected = {"num_classes": "3", "rotated_nms": "probiou_fast", "box_format": "cxcywh"}
    assert_head(plan, "yolov8_obb", expected)
    assert "detection_angles FP32 [300]" in map(str, plan.results)


def test_given_rotated_nms_replaces_ultralytics(tmp_path: Path) -> None:
    plan = plan_of(families.obb(), tmp_path, settings={"rotated_nms": "polygon"})
    assert plan.postprocess["rotated_nms"].value == "polygon"


END2END = {"author": "Ultralytics", "stride": "32", "end2end": "True"}
NMS = {"author": "Ultralytics", "stride": "32", "args": "{'batch': 1, 'nms': True}"}


def suppressed(more: np.ndarray, metadata: Mapping[str, str], *, masks: bool = False) -> Network:
    """Rows [30, 6 + more] of an end2end head, and prototypes of masks where wanted."""
    (output,) = families.end2end().outputs.values()
    outputs = {"output0": Output(np.hstack([output.base, more.astype(np.float32)]))}
    if masks:
        outputs["output1"] = families.seg().outputs["output1"]
    return Network(outputs, metadata=metadata)


@pytest.mark.parametrize("metadata", [END2END, NMS])
@pytest.mark.parametrize("task_name", ["segment", "pose", "obb"])
def test_suppression_inside_with_more(
    metadata: dict[str, str], task_name: str, tmp_path: Path
) -> None:
    count = {"segment": 32, "pose": 15, "obb": 1}[task_name]
    more = np.linspace(-1, 1, 30 * count).reshape(30, -1)
    known = {**metadata, "task": task_name, "kpt_shape": "[5, 3]", "names": str([*"abcde"])}
    network = suppressed(more, known, masks=task_name == "segment")
    plan = plan_of(network, tmp_path)
    family = {"segment": "end2end_seg", "pose": "end2end_pose", "obb": "end2end_obb"}[task_name]
    expected = {
        "segment": {"box_format": "xyxy", **MASKS},
        "pose": {"box_format": "xyxy", "num_keypoints": "5", "keypoint_values": "3"},
        "obb": {"box_format": None, "rotated_nms": None},
    }[task_name]
    assert_head(plan, family, {"num_classes": "5", "box_unit": "pixel", **expected})
    assert plan.preprocess["preset"].value == "ultralytics"


@pytest.mark.parametrize(
    ("family", "more", "settings"),
    [
        ("end2end_seg", 32, {}),
        ("end2end_obb", 1, {}),
        ("end2end_pose", 15, {"num_keypoints": "5"}),
        ("end2end_pose", 10, {"num_keypoints": "5", "keypoint_values": "2"}),
    ],
)
def test_suppression_inside_without_metadata(
    family: str, more: int, settings: dict[str, str], tmp_path: Path
) -> None:
    columns = np.linspace(-1, 1, 30 * more).reshape(30, -1)
    network = suppressed(columns, {}, masks=family == "end2end_seg")
    plan = plan_of(network, tmp_path, num_classes=5, preset="ultralytics", settings=settings)
    assert_head(plan, family, settings)


def test_nms_of_ultralytics_for_one_image_is_not_given_two(tmp_path: Path) -> None:
    """Its exporter unrolls a loop over the batch that it was exported for."""
    path = suppressed(np.zeros((30, 1)), {**NMS, "task": "obb"}).write(tmp_path / "model.onnx")
    model = onnx.load(path)
    (output,) = model.graph.output
    for node in model.graph.node:
        node.output[:] = ["all" if name == "output0" else name for name in node.output]
    # The second image and those behind it get zeros.
    constants = {"zero": np.array([0]), "one": np.array([1]), "end": np.array([2**31])}
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(array, name) for name, array in constants.items()
    )
    make = onnx.helper.make_node
    model.graph.node.extend(
        [
            make("Slice", ["all", "zero", "one", "zero"], ["first_one"]),
            make("Sub", ["all", "all"], ["zeros"]),
            make("Slice", ["zeros", "one", "end", "zero"], ["rest"]),
            make("Concat", ["first_one", "rest"], [output.name], axis=0),
        ]
    )
    onnx.save(model, str(path))
    plan = make_plan(path, InitOptions(num_classes=5), tmp_path)
    assert plan.head.family == "end2end_obb"
    assert plan.network_batch == 1


def test_a_head_with_a_row_for_each_anchor_is_transposed(tmp_path: Path) -> None:
    network = odd.named(odd.transposed(families.yolov8(classes=4)), 4)
    plan = plan_of(network, tmp_path)
    assert_head(plan, "yolov8", {"num_classes": "4"})
    assert "transposed" in plan.head.reason
    session = onnxruntime.InferenceSession(plan.network.file)
    (given,) = session.run(None, {"images": np.zeros((2, 3, 64, 64), np.float32)})
    (output,) = families.yolov8(classes=4).outputs.values()
    np.testing.assert_array_equal(given, np.stack([output.base] * 2))


@pytest.mark.parametrize("boxes_too", [False, True])
def test_pairs_with_columns_are_transposed(boxes_too: bool, tmp_path: Path) -> None:
    """As PP-YOLOE has its scores, without NMS."""
    network = families.decoded()
    transposed_outputs = odd.transposed(network).outputs
    outputs = {"boxes": (transposed_outputs if boxes_too else network.outputs)["boxes"]}
    outputs["scores"] = transposed_outputs["scores"]
    plan = plan_of(Network(outputs), tmp_path, preset="rtdetr")
    assert_head(plan, "ssd", {"anchors": "none", "num_classes": "3", "background": "none"})
    session = onnxruntime.InferenceSession(plan.network.file)
    given = session.run(["boxes", "scores"], {"images": np.zeros((1, 3, 64, 64), np.float32)})
    for name, array in zip(["boxes", "scores"], given, strict=True):
        np.testing.assert_array_equal(array[0], network.outputs[name].base)


def test_scores_after_a_sigmoid_have_none_for_no_object(tmp_path: Path) -> None:
    plan = plan_of(families.decoded(), tmp_path, preset="ssd")
    assert_head(plan, "ssd", {"num_classes": "3", "background": "none", "activation": "none"})
    assert "do not add up to 1" in plan.postprocess["background"].reason


@pytest.mark.parametrize("classes", [4, 5])  # four scores have the shape of boxes
def test_queries_are_known_by_their_boxes_whatever_their_names(
    classes: int, tmp_path: Path
) -> None:
    network = families.rtdetr(classes=classes)
    renamed = Network(dict(zip(["241", "242"], network.outputs.values(), strict=True)))
    plan = plan_of(renamed, tmp_path, num_classes=classes, preset="rtdetr")
    assert plan.head.inputs["boxes"].name == "242"
    assert_head(plan, "rtdetr", {"background": "none", "box_unit": "normalized"})


def test_ultralytics_metadata_is_trusted_where_no_usual_grids_fit(tmp_path: Path) -> None:
    """YOLOv3-tiny has the strides 16 and 32."""
    (output,) = families.yolov8().outputs.values()
    few = replace(output, base=output.base[:, -20:], change=np.zeros((7, 20), np.float32))
    names = {"names": str(["a", "b", "c"]), **task("detect")}
    plan = plan_of(Network({"output0": few}, metadata=names), tmp_path)
    assert_head(plan, "yolov8", {"num_classes": "3", "box_format": "cxcywh"})


def test_yolox_brings_its_recipe(tmp_path: Path) -> None:
    chosen = decided_values(plan_of(families.yolox(), tmp_path).preprocess)
    expected = {"color": "bgr", "scale": "1", "pad_align": "top_left"}
    assert {name: chosen.get(name) for name in expected} == expected


@pytest.mark.parametrize(("raw", "activation"), [(False, "none"), (True, "sigmoid")])
def test_queries_in_one_output(raw: bool, activation: str, tmp_path: Path) -> None:
    plan = plan_of(families.joined(raw=raw), tmp_path)
    expected = {
        "joined": "true",
        "num_classes": "4",
        "activation": activation,
        "box_unit": "normalized",
        "input_size": "64,64",
    }
    assert_head(plan, "rtdetr", expected)
    assert plan.preprocess["preset"].value == "rtdetr"
    text = render(plan, "models")["postprocess/config.pbtxt"]
    for name in expected:  # also where it is what other families have by default
        assert f'key: "{name}"' in text


def test_as_many_scores_as_classes_are_rtdetrs(tmp_path: Path) -> None:
    plan = plan_of(families.rtdetr(), tmp_path, num_classes=4, preset="rtdetr")
    expected = {"num_classes": "4", "background": "none", "activation": "sigmoid"}
    assert_head(plan, "rtdetr", expected)
    assert plan.served[0].dims == (60, 4)
    assert "multi_label" not in plan.postprocess


@pytest.mark.parametrize("source", ["number", "names", "background"])
def test_one_score_more_than_classes_is_detrs(source: str, tmp_path: Path) -> None:
    network, options = families.detr(), {"number": {"num_classes": 4}}.get(source, {})
    if source == "names":
        network = replace(network, metadata={"names": "['a', 'b', 'c', 'd']"})
    settings = {"fit": "stretch"} | ({"background": "last"} if source == "background" else {})
    plan = plan_of(network, tmp_path, preset="torchvision", settings=settings, **options)
    expected = {"background": "last", "activation": "softmax", "multi_label": "false"}
    assert_head(plan, "rtdetr", {"num_classes": "4", **expected})


RFDETR = {"multi_label": None, "activation": "sigmoid", "box_unit": "normalized"}


@pytest.mark.parametrize(("columns", "classes"), [(5, 5), (5, 4), (4, 3), (91, None)])
def test_rfdetr_is_known_by_its_outputs(columns: int, classes: int | None, tmp_path: Path) -> None:
    plan = plan_of(families.rfdetr(columns=columns), tmp_path, num_classes=classes)
    background = "none" if classes in (None, columns) else "last"
    known = {"num_classes": str(classes or columns), "background": background}
    assert_head(plan, "rtdetr", known | RFDETR)
    assert plan.preprocess["preset"].value == "rfdetr"
    assumed = "assumed: 91 scores" in plan.postprocess["background"].reason
    assert assumed == (classes is None)


def test_rfdetr_of_other_names_has_no_softmax(tmp_path: Path) -> None:
    """A box leaves the image, which those of DETR never do."""
    boxes, scores = families.rfdetr().outputs.values()
    renamed = Network({"241": boxes, "242": scores})
    plan = plan_of(renamed, tmp_path, num_classes=4, preset="rfdetr")
    assert_head(plan, "rtdetr", {"num_classes": "4", "background": "last"} | RFDETR)


@pytest.mark.parametrize("name", ["masks", "pred_masks"])
def test_masks_of_queries(name: str, tmp_path: Path) -> None:
    boxes, scores, masks = families.rfdetr(masks=(18, 16)).outputs.values()
    named = {"dets": boxes, "labels": scores}
    if name == "pred_masks":
        named = {"logits": scores, "pred_boxes": boxes}
    network = Network({**named, name: masks})
    plan = plan_of(network, tmp_path, num_classes=4, preset="rfdetr")
    expected = {"background": "last", "prototype_size": "18,16", "input_size": "64,64"}
    assert_head(plan, "rtdetr_seg", expected | RFDETR)
    assert [*plan.head.inputs] == ["logits", "boxes", "masks"]
    assert [str(spec) for spec in plan.results][-1] == "detection_rle STRING [300]"
    plan = plan_of(network, tmp_path, num_classes=4, preset="rfdetr", head="rtdetr")
    assert [*plan.head.inputs] == ["logits", "boxes"]


def test_scores_that_add_up_to_1_have_one_for_no_object(tmp_path: Path) -> None:
    network = families.detr()
    logits = replace(network.outputs["logits"], base=np.full((60, 5), 0.2, np.float32), change=0.0)
    fixed = Network({**network.outputs, "logits": logits})
    plan = plan_of(fixed, tmp_path, preset="rtdetr")
    assert_head(plan, "rtdetr", {"num_classes": "4", "background": "last", "activation": "none"})


def test_anchors_that_are_an_output(tmp_path: Path) -> None:
    plan = plan_of(families.ssd(), tmp_path, num_classes=3, preset="ssd")
    expected = {
        "num_classes": "3",
        "background": "first",
        "activation": "softmax",
        "anchors": "input",
        "variances": "0.1,0.1,0.2,0.2",
        "box_format": "xyxy",
        "box_unit": "pixel",
    }
    assert_head(plan, "ssd", expected)
    assert {part: each.name for part, each in plan.head.inputs.items()} == {
        "boxes": "boxes",
        "scores": "scores",
        "anchors": "anchors",
    }


def test_anchors_are_known_from_offsets_by_their_numbers(tmp_path: Path) -> None:
    network = families.ssd(classes=4)
    renamed = dict(zip(["b", "s", "a"], network.outputs.values(), strict=True))
    plan = plan_of(Network(renamed), tmp_path, num_classes=4, preset="ssd")
    assert {part: each.name for part, each in plan.head.inputs.items()} == {
        "boxes": "b",
        "scores": "s",
        "anchors": "a",
    }


def test_anchors_that_are_described(tmp_path: Path) -> None:
    settings = {"anchors": "grid", "anchor_grid": families.ANCHOR_GRID}
    plan = plan_of(
        families.ssd(anchors=False), tmp_path, num_classes=3, preset="ssd", settings=settings
    )
    assert_head(plan, "ssd", {**settings, "input_size": "64,64", "background": "first"})


def test_a_description_of_other_anchors_is_refused(tmp_path: Path) -> None:
    settings = {"anchors": "grid", "anchor_grid": "8:16x16"}
    network = families.ssd(anchors=False)
    with pytest.raises(endcap.InvalidArgumentError, match="144"):
        plan_of(network, tmp_path, num_classes=3, preset="ssd", settings=settings)


@pytest.mark.parametrize("background", ["first", "last"])
def test_noise_shows_which_score_is_for_no_object(background: str, tmp_path: Path) -> None:
    network = families.ssd()
    scores = network.outputs["scores"]
    if background == "last":
        scores = replace(scores, base=np.roll(scores.base, -1, axis=1), change=0.0)
    outputs = {**network.outputs, "scores": scores}
    plan = plan_of(Network(outputs), tmp_path, num_classes=3, preset="ssd")
    assert plan.postprocess["background"].value == background
    assert "boxes of noise" in plan.postprocess["background"].reason


@pytest.mark.parametrize(("scale", "unit"), [(1, "pixel"), (64, "normalized")])
def test_boxes_that_are_decoded(scale: int, unit: str, tmp_path: Path) -> None:
    network = families.decoded()
    boxes = Output(network.outputs["boxes"].base / np.float32(scale))
    plan = plan_of(
        Network({**network.outputs, "boxes": boxes}), tmp_path, num_classes=3, preset="ssd"
    )
    expected = {"anchors": "none", "background": "none", "activation": "none"}
    assert_head(plan, "ssd", {**expected, "box_format": "xyxy", "box_unit": unit})
    assert "variances" not in plan.postprocess


def test_anchors_of_boxes_that_are_decoded_are_left_out(tmp_path: Path) -> None:
    network = families.decoded()
    outputs = {"priors": Output(families.ssd().outputs["anchors"].base), **network.outputs}
    plan = plan_of(Network(outputs), tmp_path, num_classes=3, preset="ssd")
    assert_head(plan, "ssd", {"anchors": "none"})
    assert [each.name for each in plan.head.inputs.values()] == ["boxes", "scores"]


def test_boxes_may_be_called_by_their_anchors(tmp_path: Path) -> None:
    network = families.decoded()
    renamed = dict(zip(["anchor_boxes", "scores"], network.outputs.values(), strict=True))
    plan = plan_of(Network(renamed), tmp_path, num_classes=3, preset="ssd")
    assert_head(plan, "ssd", {"anchors": "none"})


def test_retinanets_offsets_are_multiplied_by_1(tmp_path: Path) -> None:
    network = families.ssd()
    settings = {"background": "none"}
    plan = plan_of(network, tmp_path, preset="ssd", settings=settings)
    expected = {"num_classes": "4", "variances": "1,1,1,1", "activation": "sigmoid"}
    assert_head(plan, "ssd", expected)


def test_centres_and_sizes_that_are_decoded(tmp_path: Path) -> None:
    network = families.decoded()
    corners = network.outputs["boxes"].base
    sizes = corners[:, 2:] - corners[:, :2]
    boxes = Output(np.hstack([corners[:, :2] + sizes / 2, sizes]))
    plan = plan_of(
        Network({**network.outputs, "boxes": boxes}), tmp_path, num_classes=3, preset="ssd"
    )
    assert_head(plan, "ssd", {"anchors": "none", "box_format": "cxcywh"})


def test_a_family_that_is_named_is_taken(tmp_path: Path) -> None:
    network = families.rtdetr(classes=5)
    renamed = Network(dict(zip(["s", "b"], network.outputs.values(), strict=True)))
    plan = plan_of(renamed, tmp_path, head="rtdetr", num_classes=5, preset="rtdetr")
    assert_head(plan, "rtdetr", {"background": "none", "box_unit": "normalized"})


def test_validate_knows_the_masks(tmp_path: Path) -> None:
    models = written(tmp_path, families.seg())
    assert run("validate", models, "--strict").exit_code == 0
    config = models / "postprocess/config.pbtxt"
    before, masks = config.read_text().split('name: "detection_rle"')
    masks = masks.replace("dims: [ 300 ]", "dims: [ 100 ]", 1)
    config.write_text(f'{before}name: "detection_rle"{masks}')
    done = run("validate", models)
    assert done.exit_code == 1
    assert "detection_rle is declared as STRING [100]" in " ".join(done.stdout.split())


@pytest.mark.parametrize("family", ["yolov8_seg", "yolov8_pose", "yolov8_obb"])
def test_written_stages_leave_the_device_to_triton(family: str, tmp_path: Path) -> None:
    networks = {
        "yolov8_seg": families.seg,
        "yolov8_pose": families.pose,
        "yolov8_obb": families.obb,
    }
    options = ["--set", "num_keypoints=5"] if family == "yolov8_pose" else []
    folder = written(tmp_path, networks[family](), *options)
    text = (folder / "postprocess/config.pbtxt").read_text()
    assert not text_format.Parse(text, model_config_pb2.ModelConfig()).instance_group


def test_scores_may_exceed_1_by_rounding() -> None:
    rounded = np.array([[0.0, 1.0000001], [-1e-8, 0.5]], np.float32)
    assert are_fractions(rounded)
    decision = score_activation(rounded)
    assert decision is not None
    assert decision.value == "none"
    assert not are_fractions(rounded + np.float32(0.01))


def test_yolov4s_boxes_lose_a_dimension(tmp_path: Path) -> None:
    network = families.yolov4()
    plan = plan_of(network, tmp_path)
    expected = {
        "num_classes": "3",
        "background": "none",
        "activation": "none",
        "anchors": "none",
        "box_format": "xyxy",
        "box_unit": "normalized",
        "multi_label": "false",
    }
    assert_head(plan, "ssd", expected)
    assert decided_values(plan.preprocess) == {
        "preset": "ultralytics",
        "size": "64,64",
        "fit": "stretch",
    }
    session = onnxruntime.InferenceSession(plan.network.file)
    (boxes,) = session.run(["boxes"], {"images": np.zeros((2, 3, 64, 64), np.float32)})
    np.testing.assert_array_equal(boxes, np.stack([network.outputs["boxes"].base[:, 0]] * 2))


def with_more(network: Network, **more: tuple[int, ...]) -> Network:
    """The same network with outputs of zeros in addition."""
    added = {name: Output(np.zeros(shape, np.float32)) for name, shape in more.items()}
    return replace(network, outputs={**network.outputs, **added})


@pytest.mark.parametrize(
    ("network", "classes", "more"),
    [
        (families.yolov8(), 3, {"p3": (67, 8, 8), "p4": (67, 4, 4), "p5": (67, 2, 2)}),
        (families.yolov5(), 4, {"p3": (3, 8, 8, 9), "p4": (3, 4, 4, 9), "p5": (3, 2, 2, 9)}),
        (families.rtdetr(), 4, {"last_hidden_state": (60, 32)}),
        (families.classifier(), 7, {"features": (32,)}),
    ],
    ids=["yolov8", "yolov5", "rtdetr", "classifier"],
)
def test_optional_outputs_are_said_not_to_be_read(
    network: Network, classes: int, more: dict[str, tuple[int, ...]], tmp_path: Path
) -> None:
    network = with_more(network, **more)
    plan = plan_of(network, tmp_path, num_classes=classes, preset="ultralytics")
    assert plan.head.reason.endswith(f"; {', '.join(more)} not read")


def test_other_outputs_are_left_unread_where_the_user_names_the_head(tmp_path: Path) -> None:
    network = with_more(families.yolov8(), embeddings=(84, 9))
    with pytest.raises(RepositoryError, match=r"but embeddings .* would not be read"):
        plan_of(network, tmp_path)
    plan = plan_of(network, tmp_path, head="yolov8")
    assert plan.head.reason.endswith("; embeddings not read")


def test_one_logit_takes_a_sigmoid(tmp_path: Path) -> None:
    network = Network({"logit": Output(np.float32(0.3))})
    plan = plan_of(network, tmp_path, head="classification", preset="torchvision")
    assert_head(plan, "classification", {"num_classes": "1", "activation": "sigmoid", "top_k": "1"})
    assert [str(spec) for spec in plan.served] == ["logit FP32 [1]"]
