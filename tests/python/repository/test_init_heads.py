"""Recognition of heads by `endcap init`: a table of networks and what is decided about each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import endcap
from endcap.repository.errors import RepositoryError
from endcap.repository.finished_forms import read_detections
from endcap.repository.head_evidence import Hints, are_fractions, score_activation
from endcap.repository.metadata import read_metadata
from endcap.repository.network_tensors import NetworkOutput
from endcap.repository.options import HEAD_PARAMETERS, InitOptions, decided_values
from endcap.repository.writing import render
from tests.support import family_networks as families
from tests.support import odd_networks as odd
from tests.support.documented_heads import HEADS, DocumentedHead
from tests.support.family_networks import Network, Output
from tests.support.finished_networks import Finished
from tests.support.init_runs import init, plan_network


@dataclass(frozen=True)
class Case:
    """A network, options, and the decisions, as texts of NAME=VALUE, with - for nothing.

    Attributes:
        options: Those of init; others are parameters, as of --set.
        expected: Parameters of preprocess and postprocess.
        inputs: The network's outputs by postprocess' inputs.
    """

    network: Network | Finished
    options: str
    family: str
    expected: str = ""
    inputs: str = ""


def values(text: str) -> dict[str, Any]:
    pairs = (each.partition("=")[::2] for each in text.split())
    return {name: None if value == "-" else value for name, value in pairs}


def init_options(text: str) -> dict[str, Any]:
    given = values(text)
    options = {name: given.pop(name) for name in [*given] if hasattr(InitOptions(), name)}
    if "num_classes" in options:
        options["num_classes"] = int(options["num_classes"])
    return {**options, "settings": given}


def task(name: str, **more: object) -> dict[str, str]:
    metadata = {"author": "Ultralytics", "stride": "32", "task": name}
    return metadata | {key: str(value) for key, value in more.items()}


def suppressed(
    columns: int, metadata: Mapping[str, str] | None = None, *, masks: bool = False
) -> Network:
    """Rows [30, 6 + columns] of an end2end head, and prototypes of masks where wanted."""
    more = np.linspace(-1, 1, 30 * columns, dtype=np.float32).reshape(30, -1)
    (output,) = families.end2end().outputs.values()
    outputs = {"output0": Output(np.hstack([output.base, more]))}
    if masks:
        outputs["output1"] = families.seg().outputs["output1"]
    return Network(outputs, metadata=metadata or {})


def renamed(network: Network, *names: str) -> Network:
    return Network(dict(zip(names, network.outputs.values(), strict=True)))


def with_outputs(network: Network, **changed: Output) -> Network:
    return Network({**network.outputs, **changed})


def corners_as_centres() -> Network:
    network = families.decoded()
    corners = network.outputs["boxes"].base
    sizes = corners[:, 2:] - corners[:, :2]
    return with_outputs(network, boxes=Output(np.hstack([corners[:, :2] + sizes / 2, sizes])))


def few_cells() -> Network:
    """YOLOv3-tiny has the strides 16 and 32."""
    (output,) = families.yolov8().outputs.values()
    few = replace(output, base=output.base[:, -20:], change=np.zeros((7, 20), np.float32))
    return Network({"output0": few}, metadata={"names": str([*"abc"]), **task("detect")})


def finished_rows(ids: str, *, padded: bool = False, count: bool = False) -> Network:
    given = dict(families.efficient_nms(ids=ids).outputs)
    if not count:
        del given["num_dets"]
    if padded:  # KerasCV fills up boxes and scores with -1, too
        for name, output in given.items():
            base = output.base.copy()
            base[12:] = -1
            given[name] = replace(output, base=base, change=0.0)
    return Network(given)


def logits_of_yolov8() -> Network:
    boxes, scores = families.grid_rows(7, classes=3)
    head = np.hstack([boxes / 64, scores * 20 - 10])
    return Network({"out": Output(np.ascontiguousarray(head.T))})


END2END = {"author": "Ultralytics", "stride": "32", "end2end": "True", "names": str([*"abcde"])}
NMS = {**END2END, "end2end": "", "args": "{'batch': 1, 'nms': True}"}

CLASSES = "head=classification preset=torchvision"
FIVE = "preset=ultralytics num_classes=5"
SIX = "preset=ultralytics num_classes=6"
SSD3 = "preset=ssd num_classes=3"
MASKS = "mask_coefficients=32 prototype_size=16,16 input_size=64,64"
POSE = "num_keypoints=5 keypoint_values=2"
XYXY = "box_format=xyxy box_unit=pixel"
DECODED = "anchors=none background=none activation=none"
TORCHVISION = "num_classes=3 background=first"
RFDETR = "multi_label=- activation=sigmoid box_unit=normalized"
YOLO = "preset=ultralytics"

CASES = {
    # Grids.
    "yolov8": Case(families.yolov8(), "", "yolov8", f"{YOLO} num_classes=3"),
    "yolov8, logits and fractions": Case(
        logits_of_yolov8(), "", "yolov8", "activation=sigmoid box_unit=normalized input_size=64,64"
    ),
    "yolov8, transposed": Case(
        odd.named(odd.transposed(families.yolov8(classes=4)), 4), "", "yolov8", "num_classes=4"
    ),
    "yolov8 of other strides": Case(few_cells(), "", "yolov8", "num_classes=3 box_format=cxcywh"),
    "yolov5": Case(families.yolov5(), "", "yolov5", f"{YOLO} num_classes=4"),
    "yolov5 by the names, one anchor in a cell": Case(
        odd.named(odd.transposed(families.yolov8(classes=4)), 3), "", "yolov5", "num_classes=3"
    ),
    "yolox": Case(families.yolox(), "", "yolox", "color=bgr scale=1 pad_align=top_left"),
    "masks": Case(
        families.seg(), "", "yolov8_seg", f"{YOLO} {MASKS}", "head=output0 protos=output1"
    ),
    "keypoints by the metadata": Case(
        families.pose(values=2, metadata=task("pose", kpt_shape=[5, 2])),
        "",
        "yolov8_pose",
        f"num_classes=2 input_size=- {POSE}",
    ),
    "keypoints by the user": Case(
        families.pose(values=2), POSE, "yolov8_pose", f"num_classes=2 {POSE}"
    ),
    "angles": Case(
        families.obb(),
        "head=yolov8_obb",
        "yolov8_obb",
        "num_classes=3 rotated_nms=probiou_fast box_format=cxcywh",
    ),
    # Suppression inside.
    "rows": Case(families.end2end(), FIVE, "end2end", XYXY),
    "rows with masks": Case(
        suppressed(32, {**END2END, "task": "segment"}, masks=True),
        "",
        "end2end_seg",
        f"{FIVE} {XYXY} {MASKS}",
    ),
    "rows with keypoints": Case(
        suppressed(15, {**NMS, "task": "pose", "kpt_shape": "[5, 3]"}),
        "",
        "end2end_pose",
        f"{XYXY} num_keypoints=5 keypoint_values=3",
    ),
    "rows with angles": Case(
        suppressed(1, {**NMS, "task": "obb"}),
        "",
        "end2end_obb",
        "box_format=- rotated_nms=- box_unit=pixel",
    ),
    "rows with keypoints, no metadata": Case(
        suppressed(10), f"{FIVE} {POSE}", "end2end_pose", POSE
    ),
    "rows of named columns": Case(
        Network({"out": Output(np.zeros((0, 7)), batch=False)}, batch=1),
        f"{FIVE} columns=image,box,class,score",
        "end2end",
    ),
    "EfficientNMS": Case(finished_rows("int32", count=True), SIX, "efficient_nms"),
    "boxes, scores, classes": Case(
        finished_rows("int64"),
        SIX,
        "detections",
        XYXY,
        "boxes=det_boxes scores=det_scores classes=det_classes",
    ),
    "classes as real numbers": Case(
        renamed(finished_rows("float32"), "a", "b", "c"),
        SIX,
        "detections",
        XYXY,
        "boxes=a scores=b classes=c",
    ),
    "classes of -1 as padding": Case(finished_rows("int64", padded=True), SIX, "detections", XYXY),
    "torchvision": Case(
        Finished(),
        "",
        "detections",
        f"{TORCHVISION} {XYXY} preset=ssd",
        "boxes=1 scores=2 classes=3",
    ),
    "torchvision, a batch of one": Case(
        Finished(has_batch=True, least=1), "", "detections", f"{TORCHVISION} {XYXY}"
    ),
    "torchvision in another order": Case(
        Finished(order=("scores", "classes", "boxes"), least=5),
        "",
        "detections",
        f"{TORCHVISION} {XYXY}",
        "boxes=3 scores=1 classes=2",
    ),
    "torchvision, a sigmoid": Case(
        Finished(softmax=False),
        "",
        "detections",
        "num_classes=3 background=none fit=letterbox pad_align=top_left",
    ),
    "torchvision, every id named": Case(
        Finished(metadata={"names": str([*"0abc"])}),
        "",
        "detections",
        "num_classes=4 background=none",
    ),
    # Queries.
    "RT-DETR": Case(
        families.rtdetr(),
        "num_classes=4 preset=rtdetr",
        "rtdetr",
        "num_classes=4 activation=sigmoid multi_label=- background=none box_unit=normalized",
    ),
    "queries of other names": Case(
        renamed(families.rtdetr(classes=5), "241", "242"),
        "num_classes=5 preset=rtdetr",
        "rtdetr",
        "background=none box_unit=normalized",
        "boxes=242",
    ),
    "queries in one output": Case(
        families.joined(), "", "rtdetr", "joined=true num_classes=4 activation=none preset=rtdetr"
    ),
    "queries in one output, logits": Case(
        families.joined(raw=True), "", "rtdetr", "activation=sigmoid input_size=64,64"
    ),
    "DETR": Case(
        families.detr(),
        "num_classes=4 preset=torchvision fit=stretch",
        "rtdetr",
        "background=last activation=softmax multi_label=false",
    ),
    "RF-DETR, fine-tuned": Case(
        families.rfdetr(columns=4),
        "num_classes=3",
        "rtdetr",
        f"num_classes=3 background=last {RFDETR}",
    ),
    "RF-DETR for COCO": Case(
        families.rfdetr(columns=91), "", "rtdetr", "num_classes=91 background=none"
    ),
    "RF-DETR of other names": Case(
        renamed(families.rfdetr(), "241", "242"),
        "num_classes=4 preset=rfdetr",
        "rtdetr",
        f"num_classes=4 background=last {RFDETR}",
    ),
    "RF-DETR-Seg": Case(
        families.rfdetr(masks=(18, 16)),
        "num_classes=4",
        "rtdetr_seg",
        f"background=last prototype_size=18,16 input_size=64,64 {RFDETR}",
        "logits=labels boxes=dets masks=masks",
    ),
    # Anchors.
    "SSD": Case(
        families.ssd(),
        SSD3,
        "ssd",
        f"{TORCHVISION} activation=softmax anchors=input variances=0.1,0.1,0.2,0.2 {XYXY}",
    ),
    "SSD with anchors described": Case(
        families.ssd(anchors=False),
        f"{SSD3} anchors=grid anchor_grid=8:16x16,24x12;16:32x32",
        "ssd",
        "anchors=grid anchor_grid=8:16x16,24x12;16:32x32 input_size=64,64 background=first",
    ),
    "RetinaNet": Case(
        families.ssd(),
        "preset=ssd background=none",
        "ssd",
        "num_classes=4 variances=1,1,1,1 activation=sigmoid",
    ),
    "decoded boxes": Case(
        families.decoded(), "preset=ssd", "ssd", f"num_classes=3 variances=- {DECODED} {XYXY}"
    ),
    "decoded boxes, centres": Case(
        corners_as_centres(), "preset=ssd", "ssd", f"{DECODED} box_format=cxcywh"
    ),
    "decoded boxes next to their anchors": Case(
        with_outputs(families.decoded(), priors=Output(families.ssd().outputs["anchors"].base)),
        "preset=ssd",
        "ssd",
        DECODED,
        "boxes=boxes scores=scores",
    ),
    "both the other way round": Case(odd.transposed(families.decoded()), YOLO, "ssd", DECODED),
    "YOLOv4": Case(
        families.yolov4(),
        "",
        "ssd",
        f"{YOLO} fit=stretch multi_label=false {DECODED} box_format=xyxy box_unit=normalized",
    ),
    # Classes.
    "one logit": Case(
        Network({"logit": Output(np.float32(0.3))}),
        CLASSES,
        "classification",
        "num_classes=1 activation=sigmoid top_k=1",
    ),
    "logits": Case(
        families.classifier(), CLASSES, "classification", "activation=softmax score_threshold=-"
    ),
    "probabilities": Case(
        families.classifier(softmax=True), "preset=torchvision", "classification", "activation=none"
    ),
    "probabilities and the best class": Case(
        Network(
            {
                "probabilities": Output(np.eye(5, dtype=np.float32)[-1]),
                "score": Output(np.float32(1)),
                "label": Output(np.float32(4), dtype="int64"),
            }
        ),
        CLASSES,
        "classification",
    ),
    # The class of each pixel.
    "logits of pixels": Case(
        families.semantic(),
        "preset=ultralytics",
        "semantic",
        "num_classes=5 input_size=64,64 class_map=- score_threshold=- max_detections=-",
        "logits=logits",
    ),
    "logits of pixels, of the image's size, by their number": Case(
        Network({"masks": Output(np.zeros((3, 64, 64), np.float32))}),
        "num_classes=3 preset=torchvision fit=stretch mask_resolution=input ignore_label=0",
        "semantic",
        "mask_resolution=input ignore_label=0",
        "logits=masks",
    ),
    "class ids of pixels, by Ultralytics": Case(
        families.semantic(
            name="output0",
            ids="uint8",
            metadata={"task": "semantic", "names": "{0: 'a', 1: 'b', 2: 'c', 3: 'd', 4: 'e'}"},
        ),
        "preset=ultralytics",
        "semantic",
        "num_classes=5 class_map=true",
        "class_map=output0",
    ),
    "class ids of pixels, int64 with a channel": Case(
        Network({"ids": Output(np.zeros((1, 64, 64), np.float32), dtype="int64")}),
        "num_classes=4 preset=ultralytics",
        "semantic",
        "class_map=true",
    ),
    "logits next to features": Case(
        with_outputs(families.classifier(), features=Output(np.zeros(32, np.float32))),
        "num_classes=7 preset=torchvision",
        "classification",
        "",
        "logits=logits",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_decided_about_a_network(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    plan = plan_network(case.network, tmp_path, **init_options(case.options))
    assert plan.head.family == case.family
    chosen = decided_values({**plan.preprocess, **plan.postprocess})
    expected = values(case.expected)
    assert {key: chosen.get(key) for key in expected} == expected
    inputs = values(case.inputs)
    assert {part: plan.head.inputs[part].name for part in inputs} == inputs
    onnx.checker.check_model(str(plan.network.file))


def test_families_are_those_that_postprocess_reads() -> None:
    (row,) = (row for row in endcap.Postprocessor(threads=1).describe() if row.name == "head")
    assert row.allowed == f"one of {', '.join(HEAD_PARAMETERS)}"


def rows(class_ids: list[int]) -> tuple[NetworkOutput, ...]:
    """Detections of a fixed number, in batches."""
    count = len(class_ids)
    boxes = np.tile([1.0, 2.0, 30.0, 40.0], (count, 1))
    arrays = {"boxes": boxes, "scores": np.full(count, 0.5), "labels": np.array(class_ids, float)}
    types = {"labels": "INT64"}
    return tuple(
        NetworkOutput(
            name=name,
            data_type=types.get(name, "FP32"),
            has_batch=True,
            is_dynamic=(True, *[False] * array.ndim),
            values=array,
        )
        for name, array in arrays.items()
    )


@pytest.mark.parametrize(
    ("ids", "columns", "settings", "expected"),
    [
        ([1, 2, 1], ("Softmax", 4), {}, (None, None, "background=none (with 0)")),
        ([1, 2, 1], ("Softmax", 4), {"background": "first"}, (3, "first", "")),
        ([1, 2, 1], None, {}, (None, None, "")),
    ],
)
def test_classes_of_finished_detections(
    ids: list[int],
    columns: tuple[str, int] | None,
    settings: dict[str, str],
    expected: tuple[int | None, str | None, str],
) -> None:
    hints = Hints(
        (64, 64),
        read_metadata({}),
        options=InitOptions(settings=settings),
        score_columns=columns,
    )
    (head,) = read_detections(rows(ids), hints)
    background = head.parameters.get("background")
    assert (head.num_classes, background and background.value) == expected[:2]
    assert expected[2] in head.missing
    assert bool(head.missing) == bool(expected[2])


def test_scores_may_exceed_1_by_rounding() -> None:
    rounded = np.array([[0.0, 1.0000001], [-1e-8, 0.5]], np.float32)
    assert are_fractions(rounded)
    decision = score_activation(rounded)
    assert decision is not None
    assert decision.value == "none"
    assert not are_fractions(rounded + np.float32(0.01))


def test_masks_are_declared_by_their_resolution(tmp_path: Path) -> None:
    results = [str(spec) for spec in plan_network(families.seg(), tmp_path).results]
    assert results[-1] == "detection_rle STRING [300]"
    assert not any("detection_masks" in spec for spec in results)
    plan = plan_network(families.seg(), tmp_path, settings={"mask_resolution": "input"})
    assert "detection_masks UINT8 [300, 64, 8]" in map(str, plan.results)
    assert 'key: "detection_masks"' in render(plan, "models")["detect/config.pbtxt"]


def test_a_description_of_other_anchors_is_refused(tmp_path: Path) -> None:
    settings = {"anchors": "grid", "anchor_grid": "8:16x16"}
    network = families.ssd(anchors=False)
    with pytest.raises(endcap.InvalidArgumentError, match="144"):
        plan_network(network, tmp_path, num_classes=3, preset="ssd", settings=settings)


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
    plan = plan_network(network, tmp_path, num_classes=classes, preset="ultralytics")
    assert plan.head.reason.endswith(f"; {', '.join(more)} not read")


def test_masks_next_to_detections_are_said_not_to_be_read(tmp_path: Path) -> None:
    assert "masks not read" in plan_network(Finished(more=True), tmp_path).head.reason


def test_other_outputs_are_left_unread_where_the_user_names_the_head(tmp_path: Path) -> None:
    network = with_more(families.yolov8(), embeddings=(84, 9))
    with pytest.raises(RepositoryError, match=r"but embeddings .* would not be read"):
        plan_network(network, tmp_path)
    plan = plan_network(network, tmp_path, head="yolov8")
    assert plan.head.reason.endswith("; embeddings not read")


@pytest.mark.parametrize("head", HEADS, ids=lambda head: f"{head.network}, {head.exporter}")
def test_a_head_of_the_page_of_exports_is_recognised(head: DocumentedHead, tmp_path: Path) -> None:
    done = init(head.write(tmp_path / "model.onnx"), *head.options)
    assert done.exit_code == 0, done.stderr
    assert (
        f'string_value: "{head.family}"'
        in (tmp_path / "models" / "postprocess" / "config.pbtxt").read_text()
    )


@pytest.mark.parametrize(
    "head", [head for head in HEADS if head.options], ids=lambda head: head.exporter
)
def test_all_that_is_missing_is_asked_for_at_once(head: DocumentedHead, tmp_path: Path) -> None:
    """Save for --set, which changes a preset."""
    done = init(head.write(tmp_path / "model.onnx"))
    assert done.exit_code == 2
    for option, value in zip(head.options[::2], head.options[1::2], strict=True):
        if option != "--set":
            assert option in done.stderr
        if option == "--preset":
            assert value in done.stderr.split("--preset")[1]
