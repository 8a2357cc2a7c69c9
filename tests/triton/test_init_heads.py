"""Repositories of `endcap init` for a head of each layout, served: masks, keypoints, angles, ..."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
from PIL import Image

import endcap
from tests.reference import placement, resize
from tests.support import family_networks as families
from tests.support.family_networks import Network
from tests.support.finished_networks import SIDE, Finished
from tests.support.tolerances import SERVED_BOX_PIXELS, SERVED_SCORE
from tests.triton.calls import Arrays, infer, strings
from tests.triton.commands import endcap as run_command
from tests.triton.init_cases import DETECTIONS, PICTURES, letterboxed, write_together
from tests.triton.running_server import RunningServer, run_server


@dataclass(frozen=True)
class Case:
    """A network, the options of init, and the parameters and tensors that init should find."""

    network: Network
    options: Sequence[object]
    parameters: dict[str, Any]
    tensors: dict[str, str]

    def expected(self) -> endcap.Detections:
        """What the core makes of the pictures' tensors, which another program prepared."""
        made = [letterboxed(jpeg) for jpeg in PICTURES]
        outputs = [self.network.expected_outputs(tensor) for tensor, _ in made]
        heads = {part: np.stack([each[n] for each in outputs]) for part, n in self.tensors.items()}
        postprocess = endcap.Postprocessor(**self.parameters, max_detections=DETECTIONS)
        found = postprocess(heads, np.stack([np.append(g[:6], [1, 0]) for _, g in made]))
        assert isinstance(found, endcap.Detections)
        return found


YOLO = ["--preset", "ultralytics"]
POSE_METADATA = {"author": "Ultralytics", "task": "pose", "kpt_shape": "[5, 3]"}
CASES = {
    "seg": Case(
        families.seg(),
        [],
        {
            "head": "yolov8_seg",
            "num_classes": 3,
            "mask_coefficients": 32,
            "prototype_size": (16, 16),
            "input_size": 64,
            "mask_resolution": "source",
        },
        {"head": "output0", "protos": "output1"},
    ),
    "pose": Case(
        families.pose(metadata=POSE_METADATA),
        [],
        {"head": "yolov8_pose", "num_classes": 2, "num_keypoints": 5},
        {"head": "output0"},
    ),
    "anchors": Case(
        families.ssd(),
        ["--num-classes", 3, *YOLO],
        {"head": "ssd", "num_classes": 3, "anchors": "input", "input_size": 64},
        {"boxes": "boxes", "scores": "scores", "anchors": "anchors"},
    ),
}


# Networks that give as many rows as they find in an image; one finds none.
FINISHED = {"rows": Finished(least=9), "no_rows": Finished(least=-20)}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cases = ((name, case.network, case.options) for name, case in CASES.items())
    finished = ((name, network, []) for name, network in FINISHED.items())
    return write_together([*cases, *finished], tmp_path_factory.mktemp("init"))


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
    done = run_command("validate", repository, "--strict")
    assert done.returncode == 0, done.stdout
    assert "0 errors, 0 warnings" in done.stdout


@pytest.mark.parametrize("name", CASES)
def test_the_response_is_that_of_the_core(
    served: RunningServer, responses: dict[str, Arrays], name: str
) -> None:
    response, expected = responses[name], CASES[name].expected()
    assert served.config(f"{name}_postprocess")["model_warmup"]
    assert response["num_detections"].ravel().tolist() == expected.num_detections.tolist()
    assert (expected.num_detections > 3).all()
    np.testing.assert_array_equal(response["detection_indices"], expected.indices)
    np.testing.assert_array_equal(response["detection_classes"], expected.class_ids)
    own = {
        "detection_scores": (expected.scores, SERVED_SCORE),
        "detection_boxes": (expected.boxes, SERVED_BOX_PIXELS),
        "detection_keypoints": (expected.keypoints, SERVED_BOX_PIXELS),
    }
    for output, (wanted, tolerance) in own.items():
        assert (wanted is None) == (output not in response)
        if wanted is not None:
            np.testing.assert_allclose(response[output], wanted, rtol=0, atol=tolerance)
    assert ("detection_rle" in response) == (expected.rle is not None)
    for row, masks in enumerate(expected.rle or []):
        assert response["detection_rle"][row].tolist() == [*masks, *[b""] * (300 - len(masks))]
        assert len(set(masks)) > 3


@pytest.mark.parametrize("name", ["seg", "pose"])
def test_infer_prints_what_the_server_returns(
    served: RunningServer, responses: dict[str, Arrays], tmp_path: Path, name: str
) -> None:
    (tmp_path / "picture.jpg").write_bytes(PICTURES[0])
    done = run_command("infer", tmp_path, "--url", served.grpc, "--model", name, "--json")
    assert done.returncode == 0, done.stderr
    (image,) = json.loads(done.stdout)
    response, rows = responses[name], image["detections"]
    count = int(response["num_detections"][0, 0])
    assert [each["box"] for each in rows] == response["detection_boxes"][0, :count].tolist()
    own = "keypoints" if name == "pose" else "rle"
    given = response[f"detection_{own}"][0, :count].tolist()
    if name == "seg":
        assert [each["mask"]["counts"].encode() for each in rows] == given
    else:
        assert [each[own] for each in rows] == given


@pytest.mark.parametrize("name", FINISHED)
def test_as_many_rows_as_an_image_has_detections(served: RunningServer, name: str) -> None:
    pixels = np.asarray(Image.open(io.BytesIO(PICTURES[0])).convert("RGB"))
    resized = resize.resize_linear(pixels, SIDE, SIDE)
    found = FINISHED[name].expected((resized / 255).astype(np.float32).transpose(2, 0, 1))
    geometry = placement.stretch(SIDE, SIDE).geometry(*pixels.shape[:2])
    postprocess = endcap.Postprocessor(head="detections", num_classes=3, background="first")
    expected = postprocess(
        {part: rows[None] for part, rows in found.items()}, np.append(geometry[:6], [1, 0])[None]
    )
    assert isinstance(expected, endcap.Detections)
    with grpc_client.InferenceServerClient(served.grpc) as client:
        response = infer(client, name, {"encoded": strings(PICTURES[:1])})
    assert response["num_detections"].ravel().tolist() == expected.num_detections.tolist()
    assert (expected.num_detections > 0).all() == (name == "rows")
    np.testing.assert_array_equal(response["detection_classes"], expected.class_ids)
    np.testing.assert_allclose(
        response["detection_scores"], expected.scores, rtol=0, atol=SERVED_SCORE
    )
    np.testing.assert_allclose(
        response["detection_boxes"], expected.boxes, rtol=0, atol=SERVED_BOX_PIXELS
    )
