"""RT-DETR's queries, and the boxes of heads that have more, in the reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jpegs
import numpy as np
import pytest
from numpy.typing import NDArray
from onnx_heads import write_heads
from sample_heads import (
    end2end_pose_head,
    end2end_seg_outputs,
    pose_head,
    rtdetr_outputs,
    seg_outputs,
)
from tolerances import ACTIVATION_RTOL, ROUND_TRIP_PIXELS

import endcap
from endcap.errors import InvalidArgumentError
from endcap.evaluation.errors import EvaluationError
from endcap.evaluation.numpy_heads import read_head
from endcap.evaluation.reference import Reference
from endcap.evaluation.reference_settings import (
    Activation,
    Background,
    BoxFormat,
    HeadName,
    ReferenceSettings,
)

SIZE = (320, 416)  # height, width
CLASSES = 7
Heads = dict[str, NDArray[np.float32]]


def split(columns: int = CLASSES) -> Heads:
    return rtdetr_outputs(5, queries=150, num_classes=CLASSES, columns=columns)


def joined() -> Heads:
    parts = split()
    scores = (1 / (1 + np.exp(-parts["logits"]))).astype(np.float32)
    return {"head": np.hstack([parts["boxes"], scores])}


def in_pixels() -> Heads:
    parts = split()
    return parts | {"boxes": parts["boxes"] * np.float32([SIZE[1], SIZE[0]] * 2)}


def corners() -> Heads:
    parts = split()
    boxes = parts["boxes"].copy()
    boxes[:, 2:] += boxes[:, :2]
    return parts | {"boxes": boxes}


SOFTMAX = {"activation": "softmax"}, {"activation": Activation.softmax}
RTDETR: dict[str, tuple[Heads, dict[str, Any], dict[str, Any]]] = {
    "split": (split(), {}, {}),
    "joined": (joined(), {"joined": True}, {"joined": True}),
    "pixels": (in_pixels(), {"box_unit": "pixel"}, {"box_side": (1, 1)}),
    "corners": (corners(), {"box_format": "xyxy"}, {"box_format": BoxFormat.xyxy}),
    "best": (split(), {"multi_label": False}, {"multi_label": False}),
    "softmax": (split(), *SOFTMAX),
    "first": (
        split(CLASSES + 1),
        SOFTMAX[0] | {"background": "first"},
        SOFTMAX[1] | {"background": Background.first},
    ),
    "last": (
        split(CLASSES + 1),
        SOFTMAX[0] | {"background": "last"},
        SOFTMAX[1] | {"background": Background.last},
    ),
}


def assert_like_postprocess(
    folder: Path, heads: Heads, settings: ReferenceSettings, options: dict[str, Any]
) -> None:
    image = jpegs.photo_jpeg(300, 500)
    network = write_heads(folder / "model.onnx", heads, image=[3, *SIZE])
    reference = Reference(network, settings)
    assert reference.num_classes == CLASSES
    boxes, scores, class_ids = reference.detect(image)
    postprocess = endcap.Postprocessor(settings.head.value, CLASSES, input_size=SIZE, **options)
    batch = {name: head[None] for name, head in heads.items()}
    geometry = endcap.preprocess(image, size=SIZE).geometry
    expected = postprocess(batch["head"] if len(heads) == 1 else batch, geometry)[0]
    assert len(boxes) > 3
    assert class_ids.tolist() == expected.class_ids.tolist()
    np.testing.assert_allclose(scores, expected.scores, rtol=ACTIVATION_RTOL)
    np.testing.assert_allclose(boxes, expected.boxes, rtol=0, atol=ROUND_TRIP_PIXELS)


@pytest.mark.parametrize("name", RTDETR)
@pytest.mark.parametrize("limits", [{}, {"max_candidates": 9}, {"max_detections": 4}])
def test_queries_are_read_as_postprocess_does(
    tmp_path: Path, name: str, limits: dict[str, int]
) -> None:
    heads, options, own = RTDETR[name]
    settings = ReferenceSettings(score_threshold=0.25, **limits).with_head(HeadName.rtdetr)
    settings = ReferenceSettings(**(vars(settings) | own))
    assert_like_postprocess(
        tmp_path, heads, settings, {"score_threshold": 0.25, **options, **limits}
    )


def test_boxes_of_poses(tmp_path: Path) -> None:
    head = pose_head(3, anchors=300, num_classes=CLASSES, keypoints=5)
    settings = ReferenceSettings(
        head=HeadName.yolov8_pose, num_classes=CLASSES, score_threshold=0.3
    )
    options = {"score_threshold": 0.3, "num_keypoints": 5}
    assert_like_postprocess(tmp_path, {"head": head}, settings, options)


def test_boxes_of_masks(tmp_path: Path) -> None:
    heads = seg_outputs(3, anchors=300, num_classes=CLASSES, size=(80, 104))
    settings = ReferenceSettings(head=HeadName.yolov8_seg, num_classes=CLASSES, score_threshold=0.3)
    options = {"score_threshold": 0.3, "mask_coefficients": 8, "prototype_size": (80, 104)}
    assert_like_postprocess(tmp_path, heads, settings, options)


ROWS = {
    "end2end_seg": (
        end2end_seg_outputs(3, rows=40, num_classes=CLASSES, size=(80, 104)),
        {"mask_coefficients": 8, "prototype_size": (80, 104)},
    ),
    "end2end_pose": (
        {"head": end2end_pose_head(3, rows=40, num_classes=CLASSES, keypoints=5)},
        {"num_keypoints": 5},
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_boxes_of_rows_with_more_behind_them(tmp_path: Path, name: str) -> None:
    heads, options = ROWS[name]
    settings = ReferenceSettings(head=HeadName(name), num_classes=CLASSES, score_threshold=0.3)
    assert_like_postprocess(tmp_path, heads, settings, {"score_threshold": 0.3} | options)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("tensor", ["logits", "boxes"])
@pytest.mark.parametrize("query", [0, 1])
@pytest.mark.parametrize("activation", ["sigmoid", "softmax"])
def test_what_is_no_finite_number_is_refused_where_postprocess_does(
    value: float, tensor: str, query: int, activation: str
) -> None:
    heads = {
        "logits": np.float32([[2, 1, -3], [-3, -4, -5]]),
        "boxes": np.float32([[0.5, 0.5, 0.1, 0.1], [0.2, 0.2, 0.1, 0.1]]),
    }
    heads[tensor][query, 1] = value
    options = {"score_threshold": 0.6, "activation": activation}
    postprocess = endcap.Postprocessor("rtdetr", 3, input_size=SIZE, **options)
    settings = ReferenceSettings(
        score_threshold=0.6, activation=Activation(activation), box_side=SIZE
    ).with_head(HeadName.rtdetr)
    try:
        expected = postprocess(heads)[0]
    except InvalidArgumentError:
        with pytest.raises(InvalidArgumentError, match=r"is not finite|is NaN"):
            read_head(list(heads.values()), settings)
        return
    boxes, scores, class_ids = read_head(list(heads.values()), settings)
    assert not np.isnan(value)
    np.testing.assert_allclose(boxes, expected.boxes, rtol=0, atol=ROUND_TRIP_PIXELS)
    np.testing.assert_allclose(scores, expected.scores, rtol=ACTIVATION_RTOL)
    assert class_ids.tolist() == expected.class_ids.tolist()


def test_outputs_have_the_names_that_the_ensemble_gives(tmp_path: Path) -> None:
    parts = split()
    own = {"pred_boxes": parts["boxes"], "scores": parts["logits"]}
    network = write_heads(tmp_path / "model.onnx", own)
    settings = ReferenceSettings().with_head(HeadName.rtdetr)
    names = {"logits": "scores", "boxes": "pred_boxes"}
    assert Reference(network, settings, outputs=names).num_classes == CLASSES
    with pytest.raises(EvaluationError, match="logits, boxes are expected of head rtdetr"):
        Reference(network, settings)


@pytest.mark.parametrize(
    ("heads", "options", "said"),
    [
        (split(), {"head": HeadName.rtdetr, "num_classes": 6}, r"\[Q, 4\] with C = 6"),
        (split() | {"boxes": np.zeros((9, 4), np.float32)}, {"head": HeadName.rtdetr},
         r"shapes \[150, 7\] and \[9, 4\], and rtdetr has \[Q, C\]"),
        (joined(), {"head": HeadName.rtdetr, "joined": True, "num_classes": 6}, r"\[Q, 4 \+ C\]"),
        ({"head": pose_head(1, anchors=9, num_classes=2, keypoints=5)},
         {"head": HeadName.yolov8_pose}, "head yolov8_pose has, its shape does not tell"),
        ({"head": pose_head(1, anchors=9, num_classes=2, keypoints=5)},
         {"head": HeadName.yolov8_pose, "num_classes": 17}, r"\[4 \+ C \+ 3 P, A\] with C = 17"),
    ],
)  # fmt: skip
def test_a_head_of_another_shape_is_refused(
    tmp_path: Path, heads: Heads, options: dict[str, Any], said: str
) -> None:
    network = write_heads(tmp_path / "model.onnx", heads)
    with pytest.raises(EvaluationError, match=said) as caught:
        Reference(network, ReferenceSettings(**options))
    assert "\n" not in str(caught.value)
