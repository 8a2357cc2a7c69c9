"""The reference's other heads, activations and boxes against endcap's own postprocessing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jpegs
import numpy as np
import pytest
from numpy.typing import NDArray
from onnx_heads import write_classifier, write_heads
from sample_heads import efficient_nms_outputs, end2end_head, yolov5_head, yolov8_head
from tolerances import ACTIVATION_RTOL, ROUND_TRIP_PIXELS

import endcap
from endcap.errors import InvalidArgumentError
from endcap.evaluation.errors import EvaluationError
from endcap.evaluation.numpy_heads import best_classes, read_head
from endcap.evaluation.reference import Reference
from endcap.evaluation.reference_settings import (
    Activation,
    BoxFormat,
    HeadName,
    ReferenceSettings,
)

SIZE = (320, 416)  # height, width
CLASSES = 7
Heads = dict[str, NDArray[np.generic]]


def logits_of(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """Raw numbers that sigmoid makes these scores of."""
    clipped = np.clip(scores.astype(np.float64), 1e-6, 1 - 1e-6)
    return np.log(clipped / (1 - clipped)).astype(np.float32)


def raw_yolov8() -> Heads:
    head = yolov8_head(3, anchors=400, num_classes=CLASSES)
    head[4:] = logits_of(head[4:])
    return {"head": head}


def raw_yolov5() -> Heads:
    head = yolov5_head(3, anchors=400, num_classes=CLASSES)
    head[:, 4:] = logits_of(head[:, 4:])
    return {"head": head}


def fractions() -> Heads:
    head = yolov8_head(5, anchors=400, num_classes=CLASSES)
    head[:4] /= 640
    return {"head": head}


def corners() -> Heads:
    head = yolov8_head(5, anchors=400, num_classes=CLASSES)
    head[2:4] += head[:2]
    return {"head": head}


def ends() -> Heads:
    return {"head": end2end_head(3, rows=300, num_classes=CLASSES)}


SIGMOID = {"activation": "sigmoid"}, {"activation": Activation.sigmoid}
NORMALIZED = (
    {"box_unit": "normalized", "input_size": SIZE},
    {"box_side": SIZE},
)
XYXY = {"box_format": "xyxy"}, {"box_format": BoxFormat.xyxy}
NOTHING: tuple[dict[str, Any], dict[str, Any]] = ({}, {})


@pytest.mark.parametrize(
    ("family", "heads", "options"),
    [
        (HeadName.yolov8, raw_yolov8(), SIGMOID),
        (HeadName.yolov5, raw_yolov5(), SIGMOID),
        (HeadName.yolov8, fractions(), NORMALIZED),
        (HeadName.yolov8, corners(), XYXY),
        (HeadName.end2end, ends(), NOTHING),
        (HeadName.end2end, ends(), SIGMOID),
        (HeadName.end2end, ends(), ({"box_format": "cxcywh"}, {"box_format": BoxFormat.cxcywh})),
        (HeadName.efficient_nms, efficient_nms_outputs(12), NOTHING),
        (HeadName.efficient_nms, efficient_nms_outputs(0), NOTHING),
    ],
    ids=lambda value: value.value if isinstance(value, HeadName) else "",
)
@pytest.mark.parametrize("limits", [{}, {"max_candidates": 9}, {"max_detections": 4}])
def test_detections_are_those_of_postprocess(
    tmp_path: Path,
    family: HeadName,
    heads: Heads,
    options: tuple[dict[str, Any], dict[str, Any]],
    limits: dict[str, int],
) -> None:
    image = jpegs.photo_jpeg(300, 500)
    network = write_heads(tmp_path / "model.onnx", heads, image=[3, *SIZE])
    settings = ReferenceSettings(
        head=family, num_classes=CLASSES, score_threshold=0.3, **options[1], **limits
    )
    boxes, scores, class_ids = Reference(network, settings).detect(image)
    postprocess = endcap.Postprocessor(
        family.value, CLASSES, score_threshold=0.3, **options[0], **limits
    )
    geometry = endcap.preprocess(image, size=SIZE).geometry
    batch: Any = {name: head[None] for name, head in heads.items()}
    given = batch if family is HeadName.efficient_nms else batch["head"]
    expected = postprocess(given, geometry)[0]
    assert class_ids.tolist() == expected.class_ids.tolist()
    np.testing.assert_allclose(scores, expected.scores, rtol=ACTIVATION_RTOL)
    np.testing.assert_allclose(boxes, expected.boxes, rtol=0, atol=ROUND_TRIP_PIXELS)
    nothing = family is HeadName.efficient_nms and heads["num_detections"][0] == 0
    assert (len(boxes) > 0) != nothing


@pytest.mark.parametrize("activation", ["default", "softmax", "sigmoid", "none"])
@pytest.mark.parametrize("top_k", [1, 3, CLASSES])
def test_classes_are_those_of_postprocess(activation: str, top_k: int) -> None:
    logits = np.random.default_rng(2).normal(0, 3, CLASSES).astype(np.float32)
    logits[4] = logits[1]  # of equal scores the lower class comes first
    settings = ReferenceSettings(
        head=HeadName.classification, activation=Activation(activation), top_k=top_k
    )
    scores, class_ids = best_classes(logits, settings)
    postprocess = endcap.Postprocessor(
        "classification", CLASSES, activation=activation, top_k=top_k
    )
    expected = postprocess(logits[None])
    assert class_ids.tolist() == expected.class_ids[0].tolist()
    np.testing.assert_allclose(scores, expected.scores[0], rtol=ACTIVATION_RTOL)


def test_classes_over_the_threshold_are_those_of_postprocess() -> None:
    logits = np.random.default_rng(3).normal(0, 3, CLASSES).astype(np.float32)
    options: Any = {"activation": "sigmoid", "multi_label": True, "score_threshold": 0.6}
    settings = ReferenceSettings(
        head=HeadName.classification,
        activation=Activation.sigmoid,
        multi_label=True,
        score_threshold=0.6,
    )
    scores, class_ids = best_classes(logits, settings)
    expected = endcap.Postprocessor("classification", CLASSES, **options)(logits[None])
    (kept,) = np.nonzero(expected.class_ids[0] >= 0)
    assert 0 < len(kept) < expected.class_ids.shape[1]
    assert class_ids.tolist() == expected.class_ids[0, kept].tolist()
    np.testing.assert_allclose(scores, expected.scores[0, kept], rtol=ACTIVATION_RTOL)


def test_a_classifier_reads_the_image(tmp_path: Path) -> None:
    network = write_classifier(tmp_path / "model.onnx")
    settings = ReferenceSettings(head=HeadName.classification, activation=Activation.none)
    reference = Reference(network, settings)
    assert reference.num_classes == 3
    pixels = np.zeros((64, 96, 3), np.uint8)
    pixels[..., 1] = 255
    scores, class_ids = reference.classify(jpegs.encode(pixels))
    assert class_ids[0] == 1
    assert scores[0] > 0.9


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("activation", ["softmax", "sigmoid", "none"])
def test_logits_are_refused_where_postprocess_refuses_them(value: float, activation: str) -> None:
    logits = np.array([1.0, value, 0.5], np.float32)
    settings = ReferenceSettings(
        head=HeadName.classification, activation=Activation(activation), top_k=3
    )
    postprocess = endcap.Postprocessor("classification", 3, activation=activation, top_k=3)
    try:
        expected = postprocess(logits[None])
    except InvalidArgumentError:
        with pytest.raises(InvalidArgumentError, match="not finite"):
            best_classes(logits, settings)
        return
    scores, class_ids = best_classes(logits, settings)
    assert class_ids.tolist() == expected.class_ids[0].tolist()
    np.testing.assert_allclose(scores, expected.scores[0], rtol=ACTIVATION_RTOL)


@pytest.mark.parametrize("class_id", [-1.0, CLASSES, 1.5])
def test_a_row_of_a_class_that_there_is_not_is_refused(class_id: float) -> None:
    head = np.array([[0, 0, 9, 9, 0.9, class_id]], np.float32)
    settings = ReferenceSettings(head=HeadName.end2end, num_classes=CLASSES)
    with pytest.raises(InvalidArgumentError, match="num_classes is 7"):
        read_head(head, settings)
    with pytest.raises(InvalidArgumentError, match="num_classes is 7"):
        endcap.Postprocessor("end2end", CLASSES)(head[None])
    below = np.array([[0, 0, 9, 9, 0.0, class_id]], np.float32)
    assert len(read_head(below, settings)[0]) == 0


@pytest.mark.parametrize("count", [-1, 21])
def test_a_count_beyond_the_rows_is_refused(count: int) -> None:
    tensors = list(efficient_nms_outputs(count).values())
    with pytest.raises(InvalidArgumentError, match=f"num_detections is {count}"):
        read_head(tensors, ReferenceSettings(head=HeadName.efficient_nms))


def test_outputs_are_told_apart_by_the_names_that_the_ensemble_gives(tmp_path: Path) -> None:
    """Two of the four have the same shape, and the names are an exporter's."""
    heads = efficient_nms_outputs(6)
    heads["boxes"] = heads["boxes"] / np.float32(10)  # in the image
    names = {"num_detections": "n", "boxes": "b", "scores": "s", "classes": "c"}
    mixed = {names[name]: heads[name] for name in ("scores", "classes", "boxes", "num_detections")}
    network = write_heads(tmp_path / "model.onnx", mixed)
    settings = ReferenceSettings(head=HeadName.efficient_nms, num_classes=CLASSES)
    _, scores, class_ids = Reference(network, settings, outputs=names).detect(
        jpegs.photo_jpeg(64, 96)
    )
    assert scores.astype(np.float32).tolist() == heads["scores"][:6].tolist()
    assert class_ids.tolist() == heads["classes"][:6].tolist()
    with pytest.raises(EvaluationError, match="num_detections, boxes, scores, classes are expect"):
        Reference(network, settings)


def test_one_of_several_heads_is_the_one_that_is_served(tmp_path: Path) -> None:
    heads: Heads = {
        "auxiliary": yolov8_head(1, anchors=50, num_classes=CLASSES),
        "main": yolov8_head(2, anchors=60, num_classes=CLASSES),
    }
    heads["main"][:4] /= 10  # in the image
    network = write_heads(tmp_path / "model.onnx", heads)
    settings = ReferenceSettings(num_classes=CLASSES, score_threshold=0.5)
    reference = Reference(network, settings, outputs={"head": "main"})
    _, scores, _ = reference.detect(jpegs.photo_jpeg(64, 96))
    assert scores[0] == heads["main"][4:].max()  # type: ignore[union-attr]
    with pytest.raises(EvaluationError, match="one head of three dimensions is expected"):
        Reference(network, settings)


@pytest.mark.parametrize(
    ("family", "heads", "said"),
    [
        (HeadName.end2end, {"head": np.zeros((9, 7), np.float32)}, r"\[9, 7\], and end2end has"),
        (HeadName.end2end_pose, {"head": np.zeros((9, 6), np.float32)},
         r"\[9, 6\], and end2end_pose has \[K, 6 \+ 3 P\]"),
        (HeadName.classification, {"logits": np.zeros(5, np.float32)}, r"\[C\] with C = 7"),
        (HeadName.efficient_nms, {**efficient_nms_outputs(1), "scores": np.zeros(3, np.float32)},
         r"shapes \[1\], \[20, 4\], \[3\], \[20\], and efficient_nms has"),
    ],
)  # fmt: skip
def test_a_head_of_another_shape_is_refused(
    tmp_path: Path, family: HeadName, heads: Heads, said: str
) -> None:
    network = write_heads(tmp_path / "model.onnx", heads)
    with pytest.raises(EvaluationError, match=said):
        Reference(network, ReferenceSettings(head=family, num_classes=CLASSES))
