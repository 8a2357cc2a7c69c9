"""Repositories of `endcap init` around networks that finish their detections themselves, served."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
from calls import Arrays, infer, strings
from commands import endcap
from finished_networks import ROWS, SIDE, Finished
from init_cases import DETECTIONS, PICTURES, write_together
from jpegs import photo_jpeg
from PIL import Image
from running_server import RunningServer, run_server
from tolerances import SERVED_BOX_PIXELS, SERVED_SCORE

from reference import detections, placement, resize
from reference.heads import Candidate

# One image that is too dark for any detection, and three with some.
DARK = photo_jpeg(80, 60, seed=4)
NETWORKS = {
    "stretched": Finished(least=9),
    "padded": Finished(least=9, softmax=False),
    "dark": Finished(least=-20),
    "dark_in_python": Finished(least=-20),
}
IN_PYTHON = ("--preprocess", "python", "--postprocess", "python")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cases = [
        (name, network, IN_PYTHON if "python" in name else ()) for name, network in NETWORKS.items()
    ]
    return write_together(cases, tmp_path_factory.mktemp("init"))


@pytest.fixture(scope="module")
def served(repository: Path) -> Iterator[RunningServer]:
    with run_server(repository) as server:
        failed = {n: m.get("reason") for n, m in server.index().items() if m["state"] != "READY"}
        assert not failed
        yield server


def response_to(server: RunningServer, name: str, jpeg: bytes) -> Arrays:
    with grpc_client.InferenceServerClient(server.grpc) as client:
        return infer(client, name, {"encoded": strings([jpeg])})


def test_validate_has_no_findings(repository: Path) -> None:
    done = endcap("validate", repository, "--strict")
    assert done.returncode == 0, done.stdout
    assert "0 errors, 0 warnings" in done.stdout


def prepared(jpeg: bytes, *, padded: bool) -> tuple[np.ndarray, np.ndarray]:
    """The image as torchvision's detectors take it, [3, 64, 64], and its geometry."""
    pixels = np.asarray(Image.open(io.BytesIO(jpeg)).convert("RGB"))
    height, width = pixels.shape[:2]
    place = placement.stretch(SIDE, SIDE)
    if padded:
        place = placement.letterbox(height, width, SIDE, SIDE, upscale=True, pad_align="top_left")
    canvas = np.full((SIDE, SIDE, 3), 114.0)
    resized = resize.resize_linear(pixels, place.new_h, place.new_w)
    canvas[: place.new_h, : place.new_w] = resized
    tensor = (canvas / 255).astype(np.float32).transpose(2, 0, 1)
    return tensor, place.geometry(height, width)


@pytest.mark.parametrize("name", [name for name in NETWORKS if "dark" not in name])
@pytest.mark.parametrize("jpeg", PICTURES, ids=["first", "second", "third"])
def test_detections_equal_the_reference(served: RunningServer, name: str, jpeg: bytes) -> None:
    response, network = response_to(served, name, jpeg), NETWORKS[name]
    tensor, geometry = prepared(jpeg, padded=not network.softmax)
    found = network.expected(tensor)
    candidates = [
        Candidate(box, score, int(class_id) - network.softmax, index)
        for index, (box, score, class_id) in enumerate(
            zip(found["boxes"], found["scores"], found["classes"], strict=True)
        )
        if score > 0.25
    ]
    candidates.sort(key=lambda each: -each.score)
    expected = detections.pack(candidates, max_detections=DETECTIONS, geometry=geometry)
    assert response["num_detections"][0, 0] == expected.num_detections
    assert 0 < expected.num_detections < ROWS
    np.testing.assert_array_equal(response["detection_indices"][0], expected.indices)
    np.testing.assert_array_equal(response["detection_classes"][0], expected.class_ids)
    scores, boxes = response["detection_scores"][0], response["detection_boxes"][0]
    np.testing.assert_allclose(scores, expected.scores, rtol=0, atol=SERVED_SCORE)
    np.testing.assert_allclose(boxes, expected.boxes, rtol=0, atol=SERVED_BOX_PIXELS)


@pytest.mark.parametrize("name", ["dark", "dark_in_python"])
def test_no_rows_are_no_detections(served: RunningServer, name: str) -> None:
    response = response_to(served, name, DARK)
    assert response["num_detections"][0, 0] == 0
    assert not response["detection_scores"].any()


def test_infer_reads_them(served: RunningServer, tmp_path: Path) -> None:
    picture = tmp_path / "picture.jpg"
    picture.write_bytes(PICTURES[0])
    done = endcap("infer", picture, "--url", served.grpc, "--model", "stretched", "--json")
    assert done.returncode == 0, done.stderr
    assert '"score"' in done.stdout
