"""Postprocessing on a GPU: the CPU's detections, bit for bit, wherever heads lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import endcap
from tests.gpu.both_devices import assert_same, both
from tests.support.cuda_inputs import HOLDERS, ByDlpack, on_gpu
from tests.support.sample_heads import (
    FAMILIES,
    end2end_head,
    logits,
    obb_head,
    rtdetr_outputs,
    ssd_outputs,
    yolov5_head,
    yolov8_head,
)

GEOMETRIES = np.array([[0.5, 0.6, 3, 2, 900, 1000, 1, 0], [1, 1, 0, 0, 640, 640, 1, 1]], np.float32)
HEAD = np.stack([yolov8_head(seed, anchors=70, num_classes=3) for seed in (1, 2)])


def make(family: str = "yolov8", **more: Any) -> endcap.Postprocessor:
    return endcap.Postprocessor(family, num_classes=3, **more)


def held(head: Any, hold: Any) -> Any:
    if isinstance(head, dict):
        return {name: hold(values) for name, values in head.items()}
    return hold(head)


# Sizes of usual models, for which a kernel takes more than one block.
USUAL: dict[str, tuple[Any, dict[str, Any]]] = {
    "yolov8": (yolov8_head(1, anchors=8400, num_classes=80, levels=40), {"num_classes": 80}),
    "yolov8_obb": (
        obb_head(1, anchors=8400, num_classes=3),
        {"num_classes": 3, "max_detections": 1100, "iou_threshold": 0.1},
    ),
    "rtdetr": (
        rtdetr_outputs(1, queries=300, num_classes=80, columns=81),
        {"num_classes": 80, "background": "last", "activation": "softmax", "score_threshold": 0.1},
    ),
    "ssd": (
        ssd_outputs(1, anchors=8732, columns=21),
        {"num_classes": 20, "iou_threshold": 0.5, "score_threshold": 0.3},
    ),
    "classification": (logits(1, num_classes=1000), {"num_classes": 1000, "top_k": 70}),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("family", USUAL)
def test_heads_of_usual_models(family: str, dtype: Any) -> None:
    head, options = USUAL[family]
    both(held(head, lambda values: values.astype(dtype)[None]), head=family, **options)


@pytest.mark.parametrize("family", ["yolov8", "yolov5", "yolov8_obb", "end2end"])
@pytest.mark.parametrize("most", [10, 512, 1300, 30000])
def test_more_candidates_than_a_chunk(family: str, most: int) -> None:
    """Suppression takes 512 boxes at a time; scores have ties."""
    heads = {
        "yolov8": yolov8_head(1, anchors=2500, num_classes=3, levels=400),
        "yolov5": yolov5_head(1, anchors=2500, num_classes=3),
        "yolov8_obb": obb_head(1, anchors=2500, num_classes=3),
        "end2end": end2end_head(1, rows=2500, num_classes=3),
    }
    thresholds = {"score_threshold": 0.01, "iou_threshold": 0.95}
    limits = {"max_candidates": most, "max_detections": 2000}
    detections = both(heads[family][None], head=family, num_classes=3, **thresholds, **limits)
    assert detections.truncated.tolist() == [most < 2500]
    assert detections.num_detections[0] > min(most, 2000) / 2


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


def test_results_stay_when_the_next_batch_runs() -> None:
    postprocessor, reference = make(device="cuda"), make()
    batches = [HEAD[:count] for count in (1, 2, 1)]
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
    assert set(row.allowed.removeprefix("one of ").split(", ")) == {*FAMILIES, "semantic"}


def test_semantic_segmentation_is_refused() -> None:
    with pytest.raises(endcap.UnsupportedError, match=r'on the CPU only: give device="cpu"'):
        endcap.Postprocessor("semantic", 3, device="cuda")


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


def test_enqueue_returns_the_status_of_a_bad_head() -> None:
    bad = HEAD.copy()
    bad[1, 5, 3] = np.nan
    result = make(device="cuda").enqueue(on_gpu(bad), GEOMETRIES)
    assert result.truncated is None
    copied = result.to_numpy()
    assert copied.status.tolist() == [0, endcap.Status.INVALID_ARGUMENT]
    assert copied.num_detections[1] == 0
    np.testing.assert_array_equal(copied.boxes[0], make()(HEAD, GEOMETRIES).boxes[0])


def test_indexing_copies_to_the_host() -> None:
    result, expected = make(device="cuda")(HEAD), make()(HEAD)
    assert len(result) == 2
    for image, wanted in zip(result, expected, strict=True):
        np.testing.assert_array_equal(image.boxes, wanted.boxes)
        np.testing.assert_array_equal(result[0].scores, expected[0].scores)


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


def test_threads_and_device_are_reported() -> None:
    postprocessor = make(device="cuda", threads=4)
    assert (postprocessor.threads, postprocessor.device) == (1, "cuda:0")
    assert postprocessor.parameters == make().parameters


def test_producer_gets_the_stream() -> None:
    head = ByDlpack(HEAD)
    for stream, told in ((None, 1), (2, 2)):
        result = make(device="cuda")(head, stream=stream)
        assert head.streams.pop() == told
        assert result.boxes.stream == (stream or 0)


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
