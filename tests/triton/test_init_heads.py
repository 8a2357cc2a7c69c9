"""Repositories of `endcap init` for masks, keypoints, angles, queries and anchors, when served."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
from calls import Arrays, infer, strings
from commands import endcap
from init_cases import PICTURES, write_together
from init_head_cases import CASES, INPUT, OBB, PLAIN, kept_rotated, to_source
from running_server import RunningServer, run_server
from tolerances import ROTATED_ANGLE, SERVED_BOX_PIXELS, SERVED_SCORE

from reference import masks


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cases = ((name, case.network, case.options) for name, case in CASES.items())
    return write_together(cases, tmp_path_factory.mktemp("init"))


@pytest.fixture(scope="module")
def served(repository: Path) -> Iterator[RunningServer]:
    with run_server(repository) as server:
        failed = {n: m.get("reason") for n, m in server.index().items() if m["state"] != "READY"}
        assert not failed
        yield server


@pytest.fixture(scope="module")
def responses(served: RunningServer) -> dict[str, Arrays]:
    """Each ensemble's response to a batch of all pictures."""
    with grpc_client.InferenceServerClient(served.grpc) as client:
        return {name: infer(client, name, {"encoded": strings(PICTURES)}) for name in CASES}


def test_validate_has_no_findings(repository: Path) -> None:
    done = endcap("validate", repository, "--strict")
    assert done.returncode == 0, done.stdout
    assert "0 errors, 0 warnings" in done.stdout


@pytest.mark.parametrize("name", PLAIN)
def test_detections_equal_the_reference(responses: dict[str, Arrays], name: str) -> None:
    response = responses[name]
    for row, jpeg in enumerate(PICTURES):
        expected = CASES[name].rows(jpeg)
        assert response["num_detections"][row, 0] == expected.num_detections > 3
        np.testing.assert_array_equal(response["detection_indices"][row], expected.indices)
        np.testing.assert_array_equal(response["detection_classes"][row], expected.class_ids)
        scores, boxes = response["detection_scores"][row], response["detection_boxes"][row]
        np.testing.assert_allclose(scores, expected.scores, rtol=0, atol=SERVED_SCORE)
        np.testing.assert_allclose(boxes, expected.boxes, rtol=0, atol=SERVED_BOX_PIXELS)


def test_masks_equal_the_reference(responses: dict[str, Arrays]) -> None:
    case, response = CASES["seg"], responses["seg"]
    for row, jpeg in enumerate(PICTURES):
        tensors, geometry = case.expected_outputs(jpeg), case.image(jpeg)[1]
        boxes = {each.index: each.box for each in case.ranked(jpeg)}
        indices = case.rows(jpeg).indices
        kept = indices[indices >= 0]
        weights = tensors["output0"][7:, kept].T
        expected = [
            masks.mask(tensors["output1"], weight, boxes[index], "source", INPUT, geometry)
            for weight, index in zip(weights, kept, strict=True)
        ]
        assert 0.01 < np.mean(expected) < 0.9
        assert response["mask_size"][row].tolist() == list(expected[0].shape)
        given = response["detection_rle"][row].tolist()
        assert given[: len(kept)] == [masks.encode(mask) for mask in expected]
        assert set(given[len(kept) :]) == {b""}


def test_masks_of_queries_equal_the_reference(responses: dict[str, Arrays]) -> None:
    case, response = CASES["rfdetr_seg"], responses["rfdetr_seg"]
    whole, one = np.array([0, 0, *INPUT], np.float32), np.ones(1, np.float32)
    for row, jpeg in enumerate(PICTURES):
        tensors, geometry = case.expected_outputs(jpeg), case.image(jpeg)[1]
        indices = case.rows(jpeg).indices
        expected = [
            masks.mask(tensors["masks"][[query]], one, whole, "source", INPUT, geometry)
            for query in indices[indices >= 0]
        ]
        assert 0.1 < np.mean(expected) < 0.9
        assert response["mask_size"][row].tolist() == list(expected[0].shape)
        given = response["detection_rle"][row].tolist()
        assert given[: len(expected)] == [masks.encode(mask) for mask in expected]
        assert set(given[len(expected) :]) == {b""}


def test_keypoints_equal_the_reference(responses: dict[str, Arrays]) -> None:
    case, response = CASES["pose"], responses["pose"]
    for row, jpeg in enumerate(PICTURES):
        scale_x, scale_y, pad_x, pad_y, width, height = case.image(jpeg)[1][:6]
        indices = case.rows(jpeg).indices
        kept = indices[indices >= 0]
        expected = case.expected_outputs(jpeg)["output0"][6:, kept].T.reshape(-1, 5, 3).copy()
        expected[..., 0] = np.clip((expected[..., 0] - pad_x) / scale_x, 0, width)
        expected[..., 1] = np.clip((expected[..., 1] - pad_y) / scale_y, 0, height)
        given = response["detection_keypoints"][row]
        np.testing.assert_allclose(given[: len(kept)], expected, rtol=0, atol=SERVED_BOX_PIXELS)
        assert not given[len(kept) :].any()


def test_rotated_boxes_equal_the_reference(responses: dict[str, Arrays]) -> None:
    response = responses["obb"]
    for row, jpeg in enumerate(PICTURES):
        kept, boxes = kept_rotated(jpeg)
        assert len(OBB.ranked(jpeg)) > response["num_detections"][row, 0] == len(kept) > 3
        rows = slice(len(kept))
        assert response["detection_indices"][row, rows].tolist() == [each.index for each in kept]
        expected = to_source(boxes, OBB.image(jpeg)[1])
        corners = response["detection_boxes"][row, rows]
        given = np.hstack([(corners[:, :2] + corners[:, 2:]) / 2, corners[:, 2:] - corners[:, :2]])
        np.testing.assert_allclose(given, expected[:, :4], rtol=0, atol=SERVED_BOX_PIXELS)
        off = response["detection_angles"][row, rows] - expected[:, 4]
        assert np.abs((off + math.pi) % (2 * math.pi) - math.pi).max() < ROTATED_ANGLE


@pytest.mark.parametrize("name", CASES)
def test_their_steps_are_warm(served: RunningServer, name: str) -> None:
    assert served.config(f"{name}_postprocess")["model_warmup"]


def test_one_image_gets_the_response_as_in_a_batch(
    served: RunningServer, responses: dict[str, Arrays]
) -> None:
    with grpc_client.InferenceServerClient(served.grpc) as client:
        alone = infer(client, "seg", {"encoded": strings(PICTURES[1:2])})
    assert alone["detection_rle"][0].tolist() == responses["seg"]["detection_rle"][1].tolist()
