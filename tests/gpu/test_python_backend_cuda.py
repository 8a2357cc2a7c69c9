"""Python models on a GPU: the CPU's responses, with tensors that stay where they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import endcap
from endcap.cuda_array import Target
from endcap.python_backend.instance import find_target
from endcap.python_backend.postprocess_stage import PostprocessStage
from endcap.python_backend.preprocess_stage import PreprocessStage
from endcap.triton.stage_settings import StageSettings, postprocess_settings, preprocess_settings
from tests.support import jpegs
from tests.support.cuda_inputs import ByDlpack, on_gpu
from tests.support.sample_heads import seg_outputs, yolov8_head
from tests.support.server_requests import StubRequest, run_stage

GPU = Target(0)
FILES = [jpegs.photo_jpeg(40 + 9 * i, 90 - 7 * i, seed=i) for i in range(4)]
IMAGES = ("images", "geometry", "status")
HEADS = np.stack([yolov8_head(seed, anchors=70, num_classes=3) for seed in range(3)])
GEOMETRY = np.float32([[0.5, 0.6, 3, 2, 900, 1000 - i, 1, 0] for i in range(3)])
DETECTIONS = ("num_detections", "detection_boxes", "detection_scores", "detection_classes")


def config(max_batch_size: int, **parameters: object) -> dict[str, Any]:
    values = {name: {"string_value": str(value)} for name, value in parameters.items()}
    return {"max_batch_size": max_batch_size, "parameters": values}


def yolov8(max_batch_size: int = 8) -> StageSettings:
    given = config(max_batch_size, head="yolov8", num_classes=3, max_detections=9)
    return postprocess_settings(given, Path())


def encoded(*files: bytes) -> np.ndarray:
    array = np.empty((len(files), 1), np.object_)
    array[:, 0] = files
    return array


def assert_same(actual: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    for one, other in zip(actual, expected, strict=True):
        assert one.keys() == other.keys()
        for name, rows in one.items():
            np.testing.assert_array_equal(rows, other[name], name)


@pytest.mark.parametrize("wanted", [IMAGES, ("status", "images"), ("geometry",)])
def test_images_of_several_requests(wanted: tuple[str, ...]) -> None:
    settings = preprocess_settings(config(8, size=32))
    requests = [StubRequest({"encoded": encoded(*part)}, wanted) for part in (FILES[:3], FILES[3:])]
    responses = run_stage(PreprocessStage(settings, GPU), requests)
    assert [len(response[wanted[0]]) for response in responses] == [3, 1]
    assert_same(responses, run_stage(PreprocessStage(settings, None), requests))


def test_images_stay_on_the_gpu_and_the_rest_does_not() -> None:
    stage = PreprocessStage(preprocess_settings(config(0, size=32)), GPU)
    job = stage.prepare(StubRequest({"encoded": encoded(FILES[0])[0]}, IMAGES))
    stage.run([job])
    results = stage.finish(job)
    assert isinstance(results["images"], endcap.CudaArray)
    assert results["images"].shape == (3, 32, 32)
    assert isinstance(results["geometry"], np.ndarray)
    assert isinstance(results["status"], np.ndarray)


def test_bytes_on_the_gpu_are_brought_to_the_host() -> None:
    settings = preprocess_settings(config(0, size=32))
    file = np.frombuffer(FILES[1], np.uint8)
    on_host = StubRequest({"encoded": file}, IMAGES)
    on_device = StubRequest({"encoded": ByDlpack(file)}, IMAGES)
    for target in (GPU, None):
        responses = run_stage(PreprocessStage(settings, target), [on_device])
        assert_same(responses, run_stage(PreprocessStage(settings, None), [on_host]))


def test_one_bad_image_fails_its_request() -> None:
    stage = PreprocessStage(preprocess_settings(config(8, size=32)), GPU)
    files = (encoded(FILES[0], b"none"), encoded(FILES[1]))
    jobs = [stage.prepare(StubRequest({"encoded": each}, IMAGES)) for each in files]
    stage.run(jobs)
    with pytest.raises(endcap.CorruptImageError, match="image index 1 of 2: "):
        stage.finish(jobs[0])
    expected = endcap.preprocess(FILES[1], size=32).images
    np.testing.assert_array_equal(stage.finish(jobs[1])["images"].to_numpy(), expected)


@pytest.mark.parametrize("hold", [ByDlpack, on_gpu, np.ascontiguousarray])
def test_heads_wherever_they_lie(hold: Any) -> None:
    status = np.int32([[0], [3], [0]])
    host = {"head": HEADS, "geometry": GEOMETRY, "status": status}
    other = {"head": HEADS[:1], "geometry": GEOMETRY[:1]}
    held = [
        {name: array if name == "status" else hold(array) for name, array in each.items()}
        for each in (host, other)
    ]
    expected = run_stage(
        PostprocessStage(yolov8(), None),
        [StubRequest(host, DETECTIONS), StubRequest(other, ["detection_boxes"])],
    )
    assert expected[0]["num_detections"][0, 0] > 0
    for target in (GPU, None):
        requests = [StubRequest(held[0], DETECTIONS), StubRequest(held[1], ["detection_boxes"])]
        assert_same(run_stage(PostprocessStage(yolov8(), target), requests), expected)


def test_detections_stay_on_the_gpu() -> None:
    stage = PostprocessStage(yolov8(0), GPU)
    job = stage.prepare(StubRequest({"head": ByDlpack(HEADS[0])}, DETECTIONS))
    stage.run([job])
    results = stage.finish(job)
    assert all(isinstance(rows, endcap.CudaArray) for rows in results.values())
    assert results["detection_boxes"].shape == (9, 4)


def test_labels_of_ids_on_the_gpu(tmp_path: Path) -> None:
    (tmp_path / "l.txt").write_text("cat\ndog\nbird\n")
    given = config(8, head="classification", num_classes=3, top_k=2, labels_file="l.txt")
    stage = PostprocessStage(postprocess_settings(given, tmp_path), GPU)
    logits = ByDlpack(np.float32([[0, 5, 1]]))
    (response,) = run_stage(stage, [StubRequest({"logits": logits}, ["class_labels"])])
    assert response["class_labels"].tolist() == [[b"dog", b"bird"]]


def test_masks_in_both_forms() -> None:
    fields = {"prototype_size": "40,80", "input_size": "160,320", "mask_resolution": "input"}
    given = config(8, head="yolov8_seg", num_classes=2, mask_coefficients=8, **fields)
    settings = postprocess_settings(given, Path())
    made = seg_outputs(1, anchors=70, num_classes=2, size=(40, 80))
    tensors = {name: array[None] for name, array in made.items()}
    requests = [
        StubRequest(tensors, ["num_detections", "mask_size", "detection_masks"]),
        StubRequest(tensors, ["detection_rle"]),
    ]
    expected = run_stage(PostprocessStage(settings, None), requests)
    assert expected[0]["detection_masks"].any()
    assert max(len(mask) for mask in expected[1]["detection_rle"][0]) > 20
    assert_same(run_stage(PostprocessStage(settings, GPU), requests), expected)


def test_the_instance_says_where_it_works() -> None:
    assert find_target({"model_instance_kind": "CPU", "model_instance_device_id": "0"}) is None
    there = find_target({"model_instance_kind": "GPU", "model_instance_device_id": "0"})
    assert there == GPU
    with pytest.raises(endcap.CudaError, match="KIND_CPU"):
        find_target({"model_instance_kind": "GPU", "model_instance_device_id": "7"})
