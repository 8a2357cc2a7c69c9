"""Requests that come together: each gets its own result, whatever its neighbours are."""

from __future__ import annotations

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

import endcap
from tests.support import jpegs
from tests.triton.calls import all_in_flight, infer, strings
from tests.triton.running_server import RunningServer, rested, wait_for
from tests.triton.served_models import PREPROCESS

pytestmark = pytest.mark.both_variants

IN_FLIGHT = 32
CORRUPT = 13


@pytest.fixture(scope="module")
def files() -> list[bytes]:
    """JPEGs of 32 sizes, one of them cut in half."""
    files = [jpegs.photo_jpeg(40 + 13 * i, 300 - 7 * i, seed=i) for i in range(IN_FLIGHT)]
    files[CORRUPT] = files[CORRUPT][: len(files[CORRUPT]) // 2]
    return files


def test_32_requests_in_flight_with_one_corrupt(client, server: RunningServer, files, variant):
    def counts() -> tuple[int, int]:
        statistics = server.statistics("pre")
        return statistics["inference_count"], statistics["execution_count"]

    inferences, executions = rested(counts)
    responses = all_in_flight(client, "pre", [{"encoded": strings([file])} for file in files])
    # The server's Python backend counts requests with an error as their response as well.
    counted = IN_FLIGHT if variant == "python" else IN_FLIGHT - 1
    wait_for(lambda: counts()[0] - inferences == counted)
    if variant == "python":
        assert counts()[1] - executions < counted
    else:  # the compiled backend takes batches apart, for its threads
        wait_for(lambda: counts()[1] - executions == IN_FLIGHT)

    error = responses[CORRUPT]
    assert isinstance(error, InferenceServerException)
    assert error.status() == "StatusCode.INVALID_ARGUMENT"
    assert error.message().startswith("corrupt_image: ")
    for i, file in enumerate(files):
        if i == CORRUPT:
            continue
        response = responses[i]
        assert isinstance(response, dict), response
        alone = infer(client, "pre", {"encoded": strings([file])})
        python = endcap.preprocess(file, **PREPROCESS)
        for name in ("images", "geometry"):
            assert response[name].tobytes() == alone[name].tobytes(), (i, name)
            assert response[name].tobytes() == getattr(python, name).tobytes(), (i, name)


def test_requests_of_several_images_share_a_batch(client, files):
    good = [file for i, file in enumerate(files) if i != CORRUPT]
    groups = [good[:3], good[3:4], good[4:9], good[9:11]]
    responses = all_in_flight(client, "pre", [{"encoded": strings(group)} for group in groups])
    for group, response in zip(groups, responses, strict=True):
        assert isinstance(response, dict), response
        np.testing.assert_array_equal(
            response["images"], endcap.preprocess(group, **PREPROCESS).images
        )
        np.testing.assert_array_equal(response["geometry"][:, 7], np.arange(len(group)))


def test_a_corrupt_image_fails_its_request_and_no_other(client, files):
    groups = [files[CORRUPT - 1 : CORRUPT + 1], files[:2], [files[CORRUPT]], files[2:5]]
    responses = all_in_flight(client, "pre", [{"encoded": strings(group)} for group in groups])
    assert "image index 1 of 2: " in str(responses[0])
    assert isinstance(responses[1], dict)
    assert isinstance(responses[2], InferenceServerException)
    assert isinstance(responses[3], dict)
