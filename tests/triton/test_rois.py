"""endcap_preprocess with an input `rois`: what the Python package computes, for each region."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
from tritonclient.utils import InferenceServerException

import endcap
from tests.support import jpegs
from tests.triton.calls import infer, infer_http, strings
from tests.triton.served_models import MAX_DETECTIONS, PREPROCESS, SIZE

pytestmark = pytest.mark.both_variants

HEIGHT, WIDTH = 150, 190
FILE = jpegs.photo_jpeg(HEIGHT, WIDTH)
ROIS = np.array([[10, 20, 60, 90], [0, 0, WIDTH, HEIGHT], [150.5, 3.2, 300, 9]], np.float32)
NONE = np.empty((0, 4), np.float32)
OUTSIDE = [WIDTH, 0, WIDTH + 5, 5]


def tensors(file: bytes, rois: np.ndarray) -> dict[str, np.ndarray]:
    return {"encoded": strings([file], batched=False), "rois": rois}


def assert_same(response: dict[str, np.ndarray], expected: endcap.PreprocessResult) -> None:
    np.testing.assert_array_equal(response["images"], expected.images)
    np.testing.assert_array_equal(response["geometry"], expected.geometry)
    np.testing.assert_array_equal(response["status"], expected.status)


def expected_of(rois: np.ndarray, **fields: object) -> endcap.PreprocessResult:
    return endcap.preprocess(FILE, rois=rois, **{**PREPROCESS, **fields})


def test_a_file_as_bytes(client):
    inputs = {"encoded": np.frombuffer(FILE, np.uint8), "rois": ROIS}
    assert_same(infer(client, "rois_bytes", inputs), expected_of(ROIS, size=32))


def test_a_config_of_names_only(client):
    response = infer(client, "rois_names_only", tensors(FILE, ROIS))
    assert_same(response, expected_of(ROIS, dtype="uint8"))


@pytest.mark.parametrize("wanted", ["images", "geometry", "status"])
def test_only_the_output_that_was_requested(client, wanted):
    response = infer(client, "rois", tensors(FILE, ROIS), outputs=[wanted])
    assert list(response) == [wanted]
    np.testing.assert_array_equal(response[wanted], getattr(expected_of(ROIS), wanted))


@pytest.mark.parametrize("count", [0, 1, 1000])
def test_any_number_of_regions(client, web_client, count):
    rois = np.resize(ROIS, (count, 4)) if count else NONE
    expected = expected_of(rois)
    for response in (
        infer(client, "rois", tensors(FILE, rois)),
        infer_http(web_client, "rois", tensors(FILE, rois)),
    ):
        assert response["images"].shape == (count, 3, *SIZE)
        assert_same(response, expected)


def test_tensors_of_too_many_bytes_are_refused(client):
    rois = np.resize(ROIS, (2, 4))
    with pytest.raises(InferenceServerException, match=r"2 rois take .* max_roi_bytes allows 1000"):
        infer(client, "rois_few_bytes", tensors(FILE, rois), outputs=["status"])


@pytest.mark.parametrize("bad", [OUTSIDE, [0, 0, 0, 0], [9, 9, 3, 3], [np.nan, 0, 9, 9]])
def test_a_bad_region_fails_its_request_and_no_other(client, bad):
    rois = np.insert(ROIS, 1, bad, axis=0)
    said = r"invalid_argument: roi index 1 of 4 is \["
    with pytest.raises(InferenceServerException, match=said) as error:
        infer(client, "rois", tensors(FILE, rois))
    assert error.value.status() == "StatusCode.INVALID_ARGUMENT"
    assert_same(infer(client, "rois", tensors(FILE, ROIS)), expected_of(ROIS))


@pytest.mark.parametrize("bad", [OUTSIDE, [0, 0, 0, 0], [9, 9, 3, 3], [np.nan, 0, 9, 9]])
def test_a_bad_region_is_blank(client, bad):
    rois = np.insert(ROIS, 1, bad, axis=0)
    response = infer(client, "rois_blank", tensors(FILE, rois))
    invalid = int(endcap.Status.INVALID_ARGUMENT)
    assert response["status"].tolist() == [0, invalid, 0, 0]
    assert not response["images"][1].any()
    np.testing.assert_array_equal(np.delete(response["images"], 1, 0), expected_of(ROIS).images)


@pytest.mark.parametrize("rois", [ROIS, NONE], ids=["some", "none"])
def test_a_corrupt_image_fails_its_request(client, rois):
    with pytest.raises(InferenceServerException, match="corrupt_image: the data is not an image"):
        infer(client, "rois", tensors(b"no picture", rois))


def test_a_corrupt_image_blanks_all_of_its_regions(client):
    response = infer(client, "rois_blank", tensors(FILE[: len(FILE) // 2], ROIS))
    assert response["status"].tolist() == [int(endcap.Status.CORRUPT_IMAGE)] * 3
    assert not response["images"].any()
    assert infer(client, "rois_blank", tensors(b"no picture", NONE))["images"].shape[0] == 0


def test_corrupt_images_beside_good_ones(server):
    """Requests of different lengths at the same time, every third with a damaged file."""
    start = threading.Barrier(6)

    def send_request(index: int) -> None:
        rois = ROIS[: index % 4]
        start.wait()
        with grpc_client.InferenceServerClient(server.grpc) as client:
            for _ in range(10):
                if index % 3 == 0:
                    with pytest.raises(InferenceServerException, match="corrupt_image"):
                        infer(client, "rois", tensors(FILE[: len(FILE) // 2], ROIS))
                else:
                    assert_same(infer(client, "rois", tensors(FILE, rois)), expected_of(rois))

    with ThreadPoolExecutor(6) as pool:
        for done in [pool.submit(send_request, index) for index in range(6)]:
            done.result()


@pytest.mark.parametrize("over_http", [False, True])
def test_boxes_of_a_detector_through_an_ensemble(client, web_client, over_http):
    rows = [[*ROIS[0], 0.9, 1], [*ROIS[2], 0.8, 0], [5, 5, 9, 9, 0.1, 0]]  # the last: no detection
    inputs = {
        "encoded": strings([FILE], batched=False),
        "head": np.array(rows, np.float32),
    }
    send_request = infer_http if over_http else infer
    response = send_request(web_client if over_http else client, "boxes_to_images", inputs)
    assert response["images"].shape == (MAX_DETECTIONS, 3, *SIZE)
    np.testing.assert_array_equal(response["images"][:2], expected_of(ROIS[[0, 2]]).images)
    assert not response["images"][2:].any()
    empty = int(endcap.Status.INVALID_ARGUMENT)
    assert response["status"].tolist() == [0, 0, *[empty] * (MAX_DETECTIONS - 2)]


def test_an_ensemble_hands_no_region_on(client):
    inputs = {"encoded": strings([FILE], batched=False), "head": np.zeros((0, 6), np.float32)}
    response = infer(client, "boxes_to_images", inputs)
    assert (response["status"] == int(endcap.Status.INVALID_ARGUMENT)).all()
