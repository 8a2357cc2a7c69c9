"""endcap_preprocess with an input `rois`: what the Python package computes, for each region."""

from __future__ import annotations

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

import endcap
from tests.support import jpegs
from tests.triton.calls import infer, infer_http, strings
from tests.triton.served_models import MAX_DETECTIONS, PREPROCESS, SIZE

HEIGHT, WIDTH = 150, 190
FILE = jpegs.photo_jpeg(HEIGHT, WIDTH)
ROIS = np.array([[10, 20, 60, 90], [0, 0, WIDTH, HEIGHT], [150.5, 3.2, 300, 9]], np.float32)
OUTSIDE = [WIDTH, 0, WIDTH + 5, 5]
CUT = FILE[: len(FILE) // 2]


def tensors(file: bytes, rois: np.ndarray) -> dict[str, np.ndarray]:
    return {"encoded": strings([file], batched=False), "rois": rois}


def assert_same(response: dict[str, np.ndarray], expected: endcap.PreprocessResult) -> None:
    for name, array in response.items():
        np.testing.assert_array_equal(array, getattr(expected, name))


def expected_result(rois: np.ndarray, **fields: object) -> endcap.PreprocessResult:
    return endcap.preprocess(FILE, rois=rois, **{**PREPROCESS, **fields})


def test_other_inputs_and_outputs(server, client):
    inputs = {"encoded": np.frombuffer(FILE, np.uint8), "rois": ROIS}
    assert_same(infer(client, "rois_bytes", inputs), expected_result(ROIS, size=32))
    response = infer(client, "rois_names_only", tensors(FILE, ROIS))
    assert_same(response, expected_result(ROIS, dtype="uint8"))
    for wanted in ("images", "geometry", "status"):
        response = infer(client, "rois", tensors(FILE, ROIS), outputs=[wanted])
        assert list(response) == [wanted]
        assert_same(response, expected_result(ROIS))


@pytest.mark.parametrize("count", [0, 1, 200])
def test_any_number_of_regions(server, client, web_client, count):
    rois = np.resize(ROIS, (count, 4)) if count else np.empty((0, 4), np.float32)
    for response in (
        infer(client, "rois", tensors(FILE, rois)),
        infer_http(web_client, "rois", tensors(FILE, rois)),
    ):
        assert response["images"].shape == (count, 3, *SIZE)
        assert_same(response, expected_result(rois))


def test_tensors_of_too_many_bytes_are_refused(server, client):
    with pytest.raises(InferenceServerException, match=r"2 rois take .* max_roi_bytes allows 1000"):
        infer(client, "rois_few_bytes", tensors(FILE, ROIS[:2]), outputs=["status"])


@pytest.mark.parametrize("bad", [OUTSIDE, [np.nan, 0, 9, 9]])
def test_a_bad_region_fails_its_request_or_is_blank(server, client, bad):
    rois = np.insert(ROIS, 1, bad, axis=0)
    said = r"invalid_argument: roi index 1 of 4 is \["
    with pytest.raises(InferenceServerException, match=said) as error:
        infer(client, "rois", tensors(FILE, rois))
    assert error.value.status() == "StatusCode.INVALID_ARGUMENT"
    response = infer(client, "rois_blank", tensors(FILE, rois))
    assert response["status"].tolist() == [0, int(endcap.Status.INVALID_ARGUMENT), 0, 0]
    assert not response["images"][1].any()
    np.testing.assert_array_equal(np.delete(response["images"], 1, 0), expected_result(ROIS).images)


def test_a_corrupt_image_fails_its_request_or_blanks_its_regions(server, client):
    for rois in (ROIS, ROIS[:0]):
        with pytest.raises(InferenceServerException, match="corrupt_image: the data is not an im"):
            infer(client, "rois", tensors(b"no picture", rois))
    response = infer(client, "rois_blank", tensors(CUT, ROIS))
    assert response["status"].tolist() == [int(endcap.Status.CORRUPT_IMAGE)] * 3
    assert not response["images"].any()
    assert infer(client, "rois_blank", tensors(b"no picture", ROIS[:0]))["images"].shape[0] == 0


def test_boxes_of_a_detector_through_an_ensemble(server, client):
    rows = [[*ROIS[0], 0.9, 1], [*ROIS[2], 0.8, 0], [5, 5, 9, 9, 0.1, 0]]  # the last: no detection
    for count in (3, 0):
        head = np.array(rows, np.float32)[:count]
        inputs = {"encoded": strings([FILE], batched=False), "head": head}
        response = infer(client, "boxes_to_images", inputs)
        assert response["images"].shape == (MAX_DETECTIONS, 3, *SIZE)
        found = max(count - 1, 0)
        expected = expected_result(ROIS[[0, 2]]).images[:found]
        np.testing.assert_array_equal(response["images"][:found], expected)
        assert not response["images"][found:].any()
        empty = [int(endcap.Status.INVALID_ARGUMENT)] * (MAX_DETECTIONS - found)
        assert response["status"].tolist() == [*[0] * found, *empty]
