"""Postprocessor with device="cuda": the CPU's detections, wherever heads lie."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from cuda_inputs import HOLDERS, ByDlpack, on_gpu, require_cuda
from sample_heads import FAMILIES, obb_head, pose_head, rtdetr_outputs, ssd_outputs, yolov8_head

import endcap

require_cuda()
GEOMETRY = np.array([[0.5, 0.6, 3, 2, 900, 1000, 1, 0], [1, 1, 0, 0, 640, 640, 1, 1]], np.float32)


def batch(images: Iterable[dict[str, Any]]) -> dict[str, Any]:
    several = [*images]
    return {name: np.stack([image[name] for image in several]) for name in several[0]}


HEADS: dict[str, Any] = {
    "yolov8": np.stack([yolov8_head(seed, anchors=70, num_classes=3) for seed in (1, 2)]),
    "yolov8_pose": np.stack(
        [pose_head(seed, anchors=70, num_classes=3, keypoints=17) for seed in (1, 2)]
    ),
    "yolov8_obb": np.stack([obb_head(seed, anchors=70, num_classes=3) for seed in (1, 2)]),
    "rtdetr": batch(rtdetr_outputs(seed, queries=30, num_classes=3) for seed in (1, 2)),
    "ssd": batch(ssd_outputs(seed, anchors=50, columns=4) for seed in (1, 2)),
    "classification": np.random.default_rng(1).normal(size=(2, 3)).astype(np.float32),
}
HEAD = HEADS["yolov8"]


def make(family: str = "yolov8", **more: Any) -> endcap.Postprocessor:
    return endcap.Postprocessor(family, num_classes=3, **more)


def held(head: Any, hold: Any) -> Any:
    if isinstance(head, dict):
        return {name: hold(values) for name, values in head.items()}
    return hold(head)


def assert_same(actual: Any, expected: Any) -> None:
    copied = actual.to_numpy()
    assert type(copied) is type(expected)
    for field in fields(actual):
        if field.name == "rle":  # lists of different lengths
            assert copied.rle == expected.rle
        else:
            np.testing.assert_array_equal(
                getattr(copied, field.name), getattr(expected, field.name), field.name
            )
        on_host = field.name in ("truncated", "dropped", "rle", "has_source_masks")
        if not on_host and getattr(expected, field.name) is not None:
            assert isinstance(getattr(actual, field.name), endcap.CudaArray)


@pytest.mark.parametrize("hold", [np.asarray, *HOLDERS])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_head_wherever_it_lies(family: str, hold: Any) -> None:
    head = FAMILIES[family].batch(2)
    options = {"head": family, "num_classes": 7, **FAMILIES[family].parameters}
    expected = endcap.Postprocessor(**options)(head, GEOMETRY)
    actual = endcap.Postprocessor(**options, device="cuda")(held(head, hold), GEOMETRY)
    assert_same(actual, expected)


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize(
    "filters",
    [
        {"classes": [5, 0, 2]},
        {"score_thresholds": [0.3, 0.9, 0.0, 0.45, 1.0, 0.1, 0.6]},
        {"classes": [1, 3], "score_thresholds": [0.3, 0.9, 0.0, 0.45, 1.0, 0.1, 0.6]},
    ],
)
@pytest.mark.parametrize("family", FAMILIES)
def test_class_filters_of_every_head(
    family: str, filters: dict[str, Any], multi_label: bool
) -> None:
    options = {"head": family, "num_classes": 7, **FAMILIES[family].parameters, **filters}
    options["multi_label"] = multi_label
    if family == "classification" and multi_label:
        options["activation"] = "sigmoid"
    elif family == "classification":
        options.pop("score_thresholds", None)
    head = FAMILIES[family].batch(2)
    expected = endcap.Postprocessor(**options)(head, GEOMETRY)
    assert_same(
        endcap.Postprocessor(**options, device="cuda")(held(head, on_gpu), GEOMETRY), expected
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
    expected = make()(HEAD, GEOMETRY)
    assert_same(make(device="cuda")(hold(HEAD), hold(GEOMETRY)), expected)
    one = make(device="cuda")(hold(HEAD[0]), hold(GEOMETRY[0]))
    assert_same(one, make()(HEAD[0], GEOMETRY[0]))


@pytest.mark.parametrize(
    "geometry", [GEOMETRY[:1], GEOMETRY[0], GEOMETRY.astype(np.float64), GEOMETRY[:, :7].copy()]
)
def test_a_geometry_on_the_gpu_that_does_not_fit(geometry: np.ndarray) -> None:
    with pytest.raises(endcap.InvalidArgumentError, match="geometry is"):
        make(device="cuda")(HEAD, on_gpu(geometry))


def test_half_precision_and_one_image() -> None:
    half = HEAD[0].astype(np.float16)
    assert_same(make(device="cuda")(on_gpu(half)), make()(half))


def test_a_blank_image_has_no_detections() -> None:
    status = np.array([0, endcap.Status.CORRUPT_IMAGE], np.int32)
    result = make(device="cuda")(on_gpu(HEAD), GEOMETRY, status)
    assert_same(result, make()(HEAD, GEOMETRY, status))
    assert result.to_numpy().num_detections[1] == 0


def test_truncation_is_told() -> None:
    assert_same(make(max_candidates=3, device="cuda")(HEAD), make(max_candidates=3)(HEAD))
    assert make(max_candidates=3, device="cuda")(HEAD).truncated.all()


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
    result = make(device="cuda").enqueue(on_gpu(bad), GEOMETRY)
    assert result.truncated is None
    copied = result.to_numpy()
    assert copied.status.tolist() == [0, endcap.Status.INVALID_ARGUMENT]
    assert copied.num_detections[1] == 0
    np.testing.assert_array_equal(copied.boxes[0], make()(HEAD, GEOMETRY).boxes[0])


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
    options: dict[str, Any] = {
        "activation": "sigmoid",
        "multi_label": True,
        "score_threshold": 0.6,
    }
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


@pytest.mark.parametrize("values", [2, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_keypoints(values: int, dtype: type) -> None:
    fields = {"num_keypoints": 4, "keypoint_values": values, "max_detections": 25}
    head = np.stack(
        [pose_head(seed, anchors=900, num_classes=3, keypoints=4, values=values) for seed in (3, 4)]
    ).astype(dtype)
    for geometry in (GEOMETRY, None):
        assert_same(
            make("yolov8_pose", device="cuda", **fields)(on_gpu(head), geometry),
            make("yolov8_pose", **fields)(head, geometry),
        )


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_keypoints_of_the_kept_must_be_numbers(value: float) -> None:
    head = HEADS["yolov8_pose"].copy()
    on_cpu, on_device = make("yolov8_pose"), make("yolov8_pose", device="cuda")
    kept = on_cpu(head[1])[0].indices
    head[1, 9:12, kept[3:6]] = value
    for call in (on_cpu, on_device):
        with pytest.raises(endcap.InvalidArgumentError, match=rf"row 9 of anchor {kept[3]}$"):
            call(head)
    queued = on_device.enqueue(on_gpu(head)).to_numpy()
    assert queued.status.tolist() == [0, int(endcap.Status.INVALID_ARGUMENT)]
    assert queued.keypoints is not None
    assert queued.keypoints[0].any()
    assert not queued.keypoints[1].any()
    assert not queued.boxes[1].any()


@pytest.mark.parametrize("method", ["polygon", "probiou", "probiou_fast"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_rotated_boxes(method: str, dtype: type) -> None:
    fields = {"rotated_nms": method, "iou_threshold": 0.3, "max_detections": 200}
    head = np.stack([obb_head(seed, anchors=1500, num_classes=3) for seed in (3, 4)], dtype=dtype)
    head[:, :2] /= 2  # a crowd
    for geometry in (GEOMETRY, None):
        expected = make("yolov8_obb", **fields)(head, geometry)
        assert_same(make("yolov8_obb", device="cuda", **fields)(on_gpu(head), geometry), expected)
        assert expected.angles is not None
        assert expected.angles.any(axis=1).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_angles_of_candidates_must_be_numbers(value: float) -> None:
    head = HEADS["yolov8_obb"].copy()
    on_cpu, on_device = make("yolov8_obb"), make("yolov8_obb", device="cuda")
    kept = on_cpu(head[1])[0].indices
    head[1, 7, kept[3:6]] = value
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
    result = make(device="cuda").enqueue(on_gpu(HEAD), GEOMETRY)
    expected = make()(HEAD, GEOMETRY)
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
