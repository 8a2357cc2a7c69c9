"""fn.endcap.postprocess and fn.endcap.nms equal endcap.Postprocessor and endcap.nms."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from nvidia.dali import fn

import endcap
from tests.dali.dali_runs import build, run
from tests.support import sample_heads

COUNT = 4
DETECTIONS = ("num_detections", "boxes", "scores", "class_ids", "indices")
LAYOUTS = ("yolov8", "rtdetr", "yolov8_seg", "yolov8_pose", "yolov8_obb", "classification")
Tensors = dict[str, npt.NDArray[Any]]
GEOMETRY = [np.float32([0.5 + i / 10, 0.5, 3, 20 + i, 900, 700, 1, 0]) for i in range(COUNT)]
HEADS = [sample_heads.yolov8_head(s, anchors=60, num_classes=7) for s in range(3)]
NAN = HEADS[1].copy()
NAN[0, 5] = NAN[6, 5] = np.nan


def postprocess(
    batch: list[Tensors], others: Any = (), head: str = "yolov8", **fields: Any
) -> list[Any]:
    """The operator's outputs; `others`: geometry and status of each sample."""
    inputs = {name: [tensors[name] for tensors in batch] for name in batch[0]}
    inputs |= dict(zip(("geometry", "status"), others, strict=False))
    fields = {"num_classes": 7, **fields}
    # The family is an argument of the same name as its first tensor.
    return run(lambda **nodes: fn.endcap.postprocess(*nodes.values(), head=head, **fields), inputs)


def expect_equal(
    outputs: list[Any],
    batch: list[Tensors],
    geometry: Any = None,
    status: Any = None,
    head: str = "yolov8",
    **fields: Any,
) -> None:
    stacked = {name: np.stack([tensors[name] for tensors in batch]) for name in batch[0]}
    fields = {"num_classes": 7, "packed_masks": head.endswith("_seg"), **fields}
    result = endcap.Postprocessor(head, **fields)(stacked, geometry, status)
    own = {
        "pose": ["keypoints"],
        "obb": ["angles"],
        "seg": ["mask_size", "packed_masks"],
    }
    names = [*DETECTIONS, *own.get(head.rpartition("_")[2], [])]
    if head == "classification":
        names = ["scores", "class_ids", "probabilities"]
    assert len(outputs) == len(names)
    for output, name in zip(outputs, names, strict=True):
        rows = getattr(result, name)
        np.testing.assert_array_equal(np.stack(output).reshape(rows.shape), rows)
        assert output[0].dtype == rows.dtype


def test_semantic_segmentation_is_refused() -> None:
    batch = [{"logits": np.zeros((7, 4, 4), np.float32)}]
    with pytest.raises(ValueError, match="gives class_map, whose size DALI cannot know"):
        postprocess(batch, head="semantic")


@pytest.mark.parametrize("family", LAYOUTS)
@pytest.mark.parametrize("given", ["head", "geometry and status"])
def test_every_layout(family: str, given: str) -> None:
    sample = sample_heads.FAMILIES[family]
    batch, fields = sample.images(COUNT), {"head": family, **sample.parameters}
    if given == "head":
        outputs = postprocess(batch, **fields)
        expect_equal(outputs, batch, **fields)
    else:
        status = np.array([0, 1, 0, 2], np.int32)
        outputs = postprocess(batch, [GEOMETRY, [np.array([s]) for s in status]], **fields)
        expect_equal(outputs, batch, np.stack(GEOMETRY), status, **fields)
    if family != "classification":
        assert sum(int(n[0]) for n in outputs[0]) > 0


@pytest.mark.parametrize(
    "fields",
    [
        {"multi_label": True, "score_threshold": 0.05, "max_detections": 17},
        {"classes": [0, 2, 5], "score_thresholds": [0.5, 0.25, 0.125, 0.5, 0.5, 0.75, 0.5]},
    ],
    ids=str,
)
def test_parameters_of_every_type(fields: dict[str, Any]) -> None:
    batch = [{"head": head} for head in HEADS]
    expect_equal(postprocess(batch, **fields), batch, **fields)


def test_half_precision_and_heads_of_any_length() -> None:
    heads = [sample_heads.yolov8_head(s, anchors=50 * (s + 1), num_classes=7) for s in range(3)]
    halves = [{"head": head.astype(np.float16)} for head in heads]
    outputs = postprocess(halves)
    for i, tensors in enumerate(halves):
        expect_equal([[output[i]] for output in outputs], [tensors])


@pytest.mark.parametrize("bad", [HEADS[0][:9], NAN], ids=["rows", "nan"])
def test_a_bad_head_ends_the_pipeline_or_has_a_status(bad: Any) -> None:
    batch = [{"head": head} for head in (HEADS[0], bad, HEADS[2])]
    with pytest.raises(ValueError, match="invalid_argument: image index 1 of 3: head"):
        postprocess(batch)
    *outputs, status = postprocess(batch, output_status=True)
    assert [list(s) for s in status] == [[0], [int(endcap.Status.INVALID_ARGUMENT)], [0]]
    assert int(outputs[0][1][0]) == 0
    assert (outputs[4][1] == -1).all()
    expect_equal([[output[0], output[2]] for output in outputs], [batch[0], batch[2]])


def test_output_status_is_that_of_the_image() -> None:
    status = [np.array([s], np.int32) for s in (0, 2, 1)]
    batch = [{"h": head} for head in HEADS]
    outputs = postprocess(batch, [GEOMETRY[:3], status], output_status=True)
    assert [int(s[0]) for s in outputs[5]] == [0, 2, 1]


@pytest.mark.parametrize(
    ("inputs", "fields", "message"),
    [
        ([HEADS[0]], {"head": "rtdetr"}, 'do not fit head="rtdetr": give logits, boxes, and perh'),
        ([HEADS[0]] * 4, {}, 'inputs do not fit head="yolov8": give head, and perhaps geometry'),
        ([HEADS[0], np.zeros(7, np.float32)], {}, "geometry is not float "),
        ([HEADS[0], np.zeros(8, np.float64)], {}, "geometry is double: give float"),
        ([HEADS[0], GEOMETRY[0], np.zeros(2, np.int32)], {}, "status is not int32 "),
        ([HEADS[0].astype(np.float64)], {}, r"head is double: give float or float16.*fn\.cast"),
        ([HEADS[0][0]], {}, "invalid_argument: image index 0 of 1: head has"),
        ([HEADS[0]], {"head": "yolov9"}, "head is 'yolov9': give one of"),
        ([HEADS[0]], {"head": "yolov8_seg"}, "give mask_resolution="),
        ([HEADS[0]], {"input_size": 2**32 + 64}, r"input_size is .*4294967360"),
    ],
)
def test_what_cannot_be_used(inputs: list[Any], fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        postprocess([{f"input_{i}": array for i, array in enumerate(inputs)}], **fields)


# --- NMS ------------------------------------------------------------------------------------------


def candidates(seed: int, count: int) -> tuple[npt.NDArray[Any], ...]:
    random = np.random.default_rng(seed)
    corners = random.uniform(0, 300, (count, 2))
    boxes = np.hstack([corners, corners + random.uniform(1, 120, (count, 2))])
    scores = np.round(random.uniform(0, 1, count), 2)  # with ties
    ids = random.integers(0, 5, count)
    return boxes.astype(np.float32), scores.astype(np.float32), ids.astype(np.int32)


BATCH = [candidates(seed, count) for seed, count in enumerate([200, 1, 0, 57, 1000])]
BOXES, SCORES, IDS = (list(column) for column in zip(*BATCH, strict=True))


def suppress(*inputs: list[Any], **fields: Any) -> list[Any]:
    named = {f"input_{i}": samples for i, samples in enumerate(inputs)}
    [kept] = run(lambda **n: fn.endcap.nms(*n.values(), **fields), named)
    return kept


def test_kept_as_endcap_nms() -> None:
    kept = suppress(BOXES, SCORES, iou_threshold=0.45)
    limited = suppress(BOXES, SCORES, iou_threshold=0.45, max_detections=10)
    by_class = suppress(BOXES, SCORES, IDS, iou_threshold=0.45)
    for i, (boxes, scores, ids) in enumerate(BATCH):
        assert kept[i].dtype == np.int64
        np.testing.assert_array_equal(kept[i], endcap.nms(boxes, scores, 0.45))
        np.testing.assert_array_equal(limited[i], kept[i][:10])
        wanted = endcap.batched_nms(boxes, scores, ids, 0.45)
        np.testing.assert_array_equal(by_class[i], wanted)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ((BOXES[0][:, :3].copy(), SCORES[0]), "sample 0: give boxes as float"),
        ((BOXES[0], SCORES[0][1:]), "sample 0: give scores as float"),
        ((BOXES[0], SCORES[0], IDS[0][1:]), "sample 0: give class_ids as int32"),
        ((BOXES[0], SCORES[0] * np.float32(np.nan)), "image index 0 of 1: .*NaN|nan"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_arrays_that_cannot_be_used(inputs: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        suppress(*([sample] for sample in inputs))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"iou_threshold": 1.5}, "iou_threshold is 1.5"),
        ({"max_detections": -2}, "max_detections is -2: give how many"),
    ],
    ids=str,
)
def test_arguments_that_cannot_be_used_are_refused_at_the_build(
    fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        build(lambda boxes, scores: fn.endcap.nms(boxes, scores, **fields), ["boxes", "scores"], 1)
    assert "image index" not in str(raised.value)
