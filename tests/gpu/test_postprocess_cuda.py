"""Postprocessing on a GPU: the CPU's detections, bit for bit, wherever heads lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from both_devices import GEOMETRY, assert_same, both
from cuda_inputs import HOLDERS, ByDlpack, on_gpu
from sample_heads import (
    FAMILIES,
    obb_head,
    pose_head,
    rtdetr_outputs,
    ssd_outputs,
    yolov5_head,
    yolov8_head,
)

import endcap


def batch_of(images: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {name: np.stack([image[name] for image in images]) for name in images[0]}


GEOMETRIES = np.array([[0.5, 0.6, 3, 2, 900, 1000, 1, 0], [1, 1, 0, 0, 640, 640, 1, 1]], np.float32)


HEADS: dict[str, Any] = {
    "yolov8": np.stack([yolov8_head(seed, anchors=70, num_classes=3) for seed in (1, 2)]),
    "yolov8_pose": np.stack(
        [pose_head(seed, anchors=70, num_classes=3, keypoints=17) for seed in (1, 2)]
    ),
    "yolov8_obb": np.stack([obb_head(seed, anchors=70, num_classes=3) for seed in (1, 2)]),
    "rtdetr": batch_of([rtdetr_outputs(seed, queries=30, num_classes=3) for seed in (1, 2)]),
    "ssd": batch_of([ssd_outputs(seed, anchors=50, columns=4) for seed in (1, 2)]),
    "classification": np.random.default_rng(1).normal(size=(2, 3)).astype(np.float32),
}
HEAD = HEADS["yolov8"]


def make(family: str = "yolov8", **more: Any) -> endcap.Postprocessor:
    return endcap.Postprocessor(family, num_classes=3, **more)


def held(head: Any, hold: Any) -> Any:
    if isinstance(head, dict):
        return {name: hold(values) for name, values in head.items()}
    return hold(head)


def heads(count: int, anchors: int = 700, num_classes: int = 5, levels: int = 0) -> np.ndarray:
    return np.stack(
        [
            yolov8_head(seed, anchors=anchors, num_classes=num_classes, levels=levels)
            for seed in range(count)
        ]
    )


@pytest.mark.parametrize("levels", [0, 4], ids=["", "ties"])
@pytest.mark.parametrize("multi_label", [False, True], ids=["", "multi_label"])
@pytest.mark.parametrize("class_agnostic", [False, True], ids=["", "class_agnostic"])
def test_yolov8(levels: int, multi_label: bool, class_agnostic: bool) -> None:
    detections = both(
        heads(3, levels=levels),
        np.repeat(GEOMETRY, 3, axis=0),
        num_classes=5,
        multi_label=multi_label,
        class_agnostic=class_agnostic,
        iou_threshold=0.5,
    )
    assert (detections.num_detections > 5).all()


@pytest.mark.parametrize("anchors", [1, 33, 1025, 8400])
def test_yolov8_of_any_length(anchors: int) -> None:
    both(heads(2, anchors=anchors, num_classes=3), num_classes=3)


def test_float16() -> None:
    both(heads(2).astype(np.float16), num_classes=5)


@pytest.mark.parametrize("max_candidates", [1, 10, 200])
def test_the_best_candidates_are_taken(max_candidates: int) -> None:
    detections = both(
        heads(2, levels=3), num_classes=5, max_candidates=max_candidates, score_threshold=0.01
    )
    assert detections.truncated is not None
    assert detections.truncated.all()


def test_few_rows_and_none() -> None:
    both(heads(2), num_classes=5, max_detections=3)
    none = both(heads(2), num_classes=5, score_threshold=1.0)
    assert (none.num_detections == 0).all()


def test_yolov5() -> None:
    head = np.stack([yolov5_head(seed, anchors=300, num_classes=4) for seed in range(2)])
    both(head, np.repeat(GEOMETRY, 2, axis=0), head="yolov5", num_classes=4)
    both(head, head="yolov5", num_classes=4, multi_label=True, activation="sigmoid")


@pytest.mark.parametrize("values", [2, 3])
def test_pose(values: int) -> None:
    head = np.stack(
        [
            pose_head(seed, anchors=1500, num_classes=2, keypoints=17, values=values)
            for seed in range(3)
        ]
    )
    fields: dict[str, Any] = {"num_classes": 2, "keypoint_values": values, "max_detections": 40}
    detections = both(head, np.repeat(GEOMETRY, 3, axis=0), head="yolov8_pose", **fields)
    assert detections.keypoints is not None
    assert (detections.num_detections == 40).all()
    both(head.astype(np.float16), head="yolov8_pose", **fields)


@pytest.mark.parametrize(
    ("anchors", "method"),
    [(33, "polygon"), (1025, "probiou_fast"), (8400, "polygon"), (8400, "probiou")],
)
def test_rotated_boxes(anchors: int, method: str) -> None:
    head = np.stack([obb_head(seed, anchors=anchors, num_classes=3) for seed in range(3)])
    head[:, :2] *= 10
    geometry = np.array([[0.5, 0.5, 16, 8, 1200, 1000, 1, 0]] * 3, np.float32)
    geometry[1, 1] = 0.7
    fields: dict[str, Any] = {"head": "yolov8_obb", "num_classes": 3, "rotated_nms": method}
    for threshold in (0.1, 0.5):
        detections = both(head, geometry, **fields, iou_threshold=threshold, max_detections=1100)
        assert (detections.num_detections > 0).all()
    both(head.astype(np.float16), **fields, multi_label=True, class_agnostic=True)


def test_thirty_thousand_rotated_boxes_of_few_objects() -> None:
    random = np.random.default_rng(7)
    place = np.arange(30000) % 200
    head = np.stack(
        [
            *(place % 20 * 60, place // 20 * 60, np.full(30000, 50), np.full(30000, 22)),
            random.uniform(0.01, 0.99, 30000),
            place,
        ]
    )
    head += random.uniform(-1, 1, head.shape) * np.array([[2, 2, 5, 2, 0, 0.1]]).T
    for method in ("polygon", "probiou", "probiou_fast"):
        detections = both(
            head.astype(np.float32)[None],
            None,
            head="yolov8_obb",
            num_classes=1,
            rotated_nms=method,
            score_threshold=0.001,
            iou_threshold=0.4,
        )
        assert 200 <= detections.num_detections[0] < 300


@pytest.mark.parametrize("activation", ["sigmoid", "softmax"])
@pytest.mark.parametrize("background", ["none", "first", "last"])
@pytest.mark.parametrize("multi_label", [False, True], ids=["", "multi_label"])
def test_rtdetr(activation: str, background: str, multi_label: bool) -> None:
    columns = 80 if background == "none" else 81
    outputs = batch_of(
        [rtdetr_outputs(seed, queries=300, num_classes=80, columns=columns) for seed in range(3)]
    )
    options: dict[str, Any] = {
        **{"head": "rtdetr", "num_classes": 80, "score_threshold": 0.1},
        **{"activation": activation, "background": background, "multi_label": multi_label},
    }
    detections = both(outputs, np.repeat(GEOMETRY, 3, axis=0), **options)
    assert (detections.num_detections > 5).all()
    head = np.concatenate([outputs["boxes"], outputs["logits"]], axis=2)
    both(head, joined=True, **options)
    both(head.astype(np.float16), joined=True, **options)


@pytest.mark.parametrize(
    ("anchors", "columns", "activation"),
    [(8732, 21, "softmax"), (1917, 91, "sigmoid"), (37, 3, "none")],
)
def test_ssd(anchors: int, columns: int, activation: str) -> None:
    outputs = batch_of([ssd_outputs(seed, anchors=anchors, columns=columns) for seed in range(2)])
    options: dict[str, Any] = {
        **{"head": "ssd", "num_classes": columns - 1, "activation": activation},
        **{"iou_threshold": 0.5, "score_threshold": 0.3},
    }
    detections = both(outputs, np.repeat(GEOMETRY, 2, axis=0), **options)
    assert (detections.num_detections > 2).all()
    both(outputs, **options, multi_label=False, box_format="cxcywh", box_unit="normalized")
    both({name: values.astype(np.float16) for name, values in outputs.items()}, **options)
    del outputs["anchors"]
    both(outputs, **options, anchors="none")


def test_ssd_of_a_grid() -> None:
    levels = "8:32x32,40x25;16:64x64,80x50;32:128x128"
    outputs = ssd_outputs(3, anchors=2 * 80 * 80 + 2 * 40 * 40 + 20 * 20, columns=91)
    del outputs["anchors"]
    detections = both(
        outputs, GEOMETRY[0], head="ssd", num_classes=90, anchors="grid", anchor_grid=levels
    )
    assert (detections.num_detections > 5).all()


@pytest.mark.parametrize(
    ("activation", "multi_label"),
    [("none", False), ("sigmoid", False), ("softmax", False), ("none", True), ("sigmoid", True)],
)
def test_classification(activation: str, multi_label: bool) -> None:
    logits = np.random.default_rng(5).normal(0, 3, (4, 1000)).astype(np.float32)
    options: dict[str, Any] = {
        "head": "classification",
        "num_classes": 1000,
        "activation": activation,
        "multi_label": multi_label,
        "score_threshold": 0.9,
        "top_k": 70,
    }
    expected = endcap.Postprocessor(**options)(logits)
    actual = endcap.Postprocessor(**options, device="cuda")(logits).to_numpy()
    for field in ("scores", "class_ids", "probabilities", "status"):
        np.testing.assert_array_equal(getattr(actual, field), getattr(expected, field), field)


def test_images_that_failed_have_no_detections() -> None:
    status = np.array([0, int(endcap.Status.CORRUPT_IMAGE)], np.int32)
    options: dict[str, Any] = {"num_classes": 5}
    expected = endcap.Postprocessor(**options)(heads(2), None, status)
    actual = endcap.Postprocessor(**options, device="cuda")(heads(2), None, status)
    assert_same(actual, expected)
    assert expected.num_detections[1] == 0


def test_results_stay_when_the_next_batch_runs() -> None:
    postprocessor = endcap.Postprocessor(num_classes=5, device="cuda")
    reference = endcap.Postprocessor(num_classes=5)
    batches = [heads(3)[:count] for count in (1, 3, 2, 1)]
    results = [postprocessor(batch) for batch in batches]
    for batch, result in zip(batches, results, strict=True):
        assert_same(result, reference(batch))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_head(family: str) -> None:
    head = FAMILIES[family].batch(2)
    options = {"head": family, "num_classes": 7, **FAMILIES[family].parameters}
    expected = endcap.Postprocessor(**options)(head, GEOMETRIES)
    actual = endcap.Postprocessor(**options, device="cuda")(held(head, on_gpu), GEOMETRIES)
    assert_same(actual, expected)


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_class_filters_of_every_head(family: str, multi_label: bool) -> None:
    thresholds = [0.3, 0.9, 0.0, 0.45, 1.0, 0.1, 0.6]
    filters = {"classes": [1, 3, 5], "score_thresholds": thresholds}
    options: dict[str, Any] = {
        "head": family,
        "num_classes": 7,
        **FAMILIES[family].parameters,
        **filters,
    }
    options["multi_label"] = multi_label
    if family == "classification" and multi_label:
        options["activation"] = "sigmoid"
    elif family == "classification":
        options.pop("score_thresholds", None)
    head = FAMILIES[family].batch(2)
    expected = endcap.Postprocessor(**options)(head, GEOMETRIES)
    assert_same(
        endcap.Postprocessor(**options, device="cuda")(held(head, on_gpu), GEOMETRIES), expected
    )


def test_thresholds_of_many_classes() -> None:
    """More than one launch copies."""
    random = np.random.default_rng(5)
    head = yolov8_head(1, anchors=70, num_classes=600)
    options = {"num_classes": 600, "score_thresholds": random.uniform(0.8, 1, 600)}
    expected = endcap.Postprocessor("yolov8", **options)(head)
    assert expected.num_detections[0] > 5
    assert_same(endcap.Postprocessor("yolov8", **options, device="cuda")(on_gpu(head)), expected)


def test_every_family_has_a_sample() -> None:
    (row,) = (row for row in endcap.Postprocessor().describe() if row.name == "head")
    assert set(row.allowed.removeprefix("one of ").split(", ")) == set(FAMILIES)


@pytest.mark.parametrize("hold", HOLDERS)
def test_geometry_on_the_gpu(hold: Any) -> None:
    expected = make()(HEAD, GEOMETRIES)
    assert_same(make(device="cuda")(hold(HEAD), hold(GEOMETRIES)), expected)
    one = make(device="cuda")(hold(HEAD[0]), hold(GEOMETRIES[0]))
    assert_same(one, make()(HEAD[0], GEOMETRIES[0]))


@pytest.mark.parametrize(
    "geometry",
    [GEOMETRIES[:1], GEOMETRIES[0], GEOMETRIES.astype(np.float64), GEOMETRIES[:, :7].copy()],
)
def test_a_geometry_on_the_gpu_that_does_not_fit(geometry: np.ndarray) -> None:
    with pytest.raises(endcap.InvalidArgumentError, match="geometry is"):
        make(device="cuda")(HEAD, on_gpu(geometry))


def test_a_bad_head_is_an_error_of_the_call() -> None:
    bad = HEAD.copy()
    bad[1, 5, 3] = np.nan
    with pytest.raises(endcap.InvalidArgumentError) as expected:
        make()(bad)
    with pytest.raises(endcap.InvalidArgumentError, match="image index 1 of 2") as caught:
        make(device="cuda")(on_gpu(bad))
    assert str(caught.value) == str(expected.value)


def test_enqueue_tells_a_bad_head_by_its_status() -> None:
    bad = HEAD.copy()
    bad[1, 5, 3] = np.nan
    result = make(device="cuda").enqueue(on_gpu(bad), GEOMETRIES)
    assert result.truncated is None
    copied = result.to_numpy()
    assert copied.status.tolist() == [0, endcap.Status.INVALID_ARGUMENT]
    assert copied.num_detections[1] == 0
    np.testing.assert_array_equal(copied.boxes[0], make()(HEAD, GEOMETRIES).boxes[0])


@pytest.mark.parametrize("family", ["rtdetr", "ssd"])
def test_a_bad_row_of_scores_is_the_cpus_error(family: str) -> None:
    name = "logits" if family == "rtdetr" else "scores"
    for value in (np.nan, -np.inf):
        head = {key: values.copy() for key, values in HEADS[family].items()}
        head[name][1, 7] = value
        with pytest.raises(endcap.InvalidArgumentError, match="index 1 of 2") as expected:
            make(family, activation="softmax")(head)
        with pytest.raises(endcap.InvalidArgumentError) as caught:
            make(family, activation="softmax", device="cuda")(held(head, on_gpu))
        assert str(caught.value) == str(expected.value)


def test_several_labels() -> None:
    logits = HEADS["classification"]
    options = {"activation": "sigmoid", "multi_label": True, "score_threshold": 0.6}
    expected = make("classification", **options)(logits)
    assert (expected.class_ids == -1).any()
    assert (expected.class_ids >= 0).any()
    assert_same(make("classification", **options, device="cuda")(on_gpu(logits)), expected)


def test_enqueue_classifies() -> None:
    logits = HEADS["classification"]
    assert_same(
        make("classification", device="cuda").enqueue(logits), make("classification")(logits)
    )


def test_indexing_copies_to_the_host() -> None:
    result, expected = make(device="cuda")(HEAD), make()(HEAD)
    assert len(result) == 2
    for image, wanted in zip(result, expected, strict=True):
        np.testing.assert_array_equal(image.boxes, wanted.boxes)
        np.testing.assert_array_equal(result[0].scores, expected[0].scores)
    with pytest.raises(endcap.InvalidArgumentError, match="2 images"):
        result.to_supervision()


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (np.zeros((2, 8, 5), np.float32), "num_classes"),
        (np.zeros((7,), np.float32), "shapes"),
        (np.zeros((1, 7, 5), np.int32), "float"),
        (np.zeros((1, 7, 5), np.float64), "float"),
    ],
)
def test_a_head_that_does_not_fit(head: np.ndarray, message: str) -> None:
    with pytest.raises(endcap.InvalidArgumentError, match=message):
        make(device="cuda")(on_gpu(head))


def test_heads_without_images_or_anchors() -> None:
    for shape in ((0, 7, 20), (2, 7, 0)):
        head = np.zeros(shape, np.float32)
        assert_same(make(device="cuda")(on_gpu(head)), make()(head))


def test_threads_and_device_are_told() -> None:
    postprocessor = make(device="cuda", threads=4)
    assert (postprocessor.threads, postprocessor.device) == (1, "cuda:0")
    assert postprocessor.parameters == make().parameters


def test_a_producer_is_told_the_stream() -> None:
    head = ByDlpack(HEAD)
    for stream, told in ((None, 1), (2, 2)):
        result = make(device="cuda")(head, stream=stream)
        assert head.streams.pop() == told
        assert result.boxes.stream == (stream or 0)


def test_keypoints_of_the_kept_must_be_numbers() -> None:
    head = HEADS["yolov8_pose"].copy()
    on_cpu, on_device = make("yolov8_pose"), make("yolov8_pose", device="cuda")
    kept = on_cpu(head[1])[0].indices
    head[1, 9:12, kept[3:6]] = np.nan
    for call in (on_cpu, on_device):
        with pytest.raises(endcap.InvalidArgumentError, match=rf"row 9 of anchor {kept[3]}$"):
            call(head)
    queued = on_device.enqueue(on_gpu(head)).to_numpy()
    assert queued.status.tolist() == [0, int(endcap.Status.INVALID_ARGUMENT)]
    assert queued.keypoints is not None
    assert queued.keypoints[0].any()
    assert not queued.keypoints[1].any()
    assert not queued.boxes[1].any()


def test_angles_of_candidates_must_be_numbers() -> None:
    head = HEADS["yolov8_obb"].copy()
    on_cpu, on_device = make("yolov8_obb"), make("yolov8_obb", device="cuda")
    kept = on_cpu(head[1])[0].indices
    head[1, 7, kept[3:6]] = np.nan
    for call in (on_cpu, on_device):
        with pytest.raises(endcap.InvalidArgumentError, match=rf"row 7 of anchor {kept[3]}$"):
            call(head)
    queued = on_device.enqueue(on_gpu(head)).to_numpy()
    assert queued.status.tolist() == [0, int(endcap.Status.INVALID_ARGUMENT)]
    assert queued.angles is not None
    assert queued.angles[0].any()
    assert not queued.angles[1].any()
    assert not queued.boxes[1].any()


def test_results_share_memory_that_lives_as_long_as_any_of_them() -> None:
    result = make(device="cuda").enqueue(on_gpu(HEAD), GEOMETRIES)
    expected = make()(HEAD, GEOMETRIES)
    places = [
        array.__cuda_array_interface__["data"][0]
        for array in (result.num_detections, result.boxes, result.scores, result.class_ids)
    ]
    assert all(place % 256 == 0 for place in places)
    assert max(places) - min(places) < 1 << 20
    scores = result.scores
    del result
    others = [on_gpu(np.zeros((2, 300, 4), np.float32)) for _ in range(4)]
    np.testing.assert_array_equal(scores.to_numpy(), expected.scores)
    assert not any(other.to_numpy().any() for other in others)
