"""Shared by the tests with the plain tritonclient: protocols, pictures, expected responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnxruntime
import tritonclient.grpc as grpc_client
import tritonclient.http as http_client

import endcap
from tests.support.tolerances import SERVED_BOX_PIXELS, SERVED_SCORE
from tests.triton.running_server import RunningServer

SHIPPED = Path(__file__).resolve().parents[2] / "model_repository"
PICTURES = [
    (SHIPPED / "detect" / "samples" / name).read_bytes()
    for name in ("shapes_320x240.jpg", "shapes_512x600.jpg", "shapes_600x800_exif6.jpg")
]
_LOWEST_SCORE = 0.4  # as postprocess/config.pbtxt says


@dataclass(frozen=True)
class Protocol:
    """A client module of tritonclient, and its address at the server."""

    module: ModuleType
    url: str

    def connect(self, **options: Any) -> Any:
        return self.module.InferenceServerClient(self.url, **options)

    def encoded(self, *files: bytes) -> Any:
        """Files as the input of `detect`: the bytes as they are on disk, one element each."""
        tensor = self.module.InferInput("encoded", [len(files), 1], "BYTES")
        tensor.set_data_from_numpy(np.array([[file] for file in files], np.object_))
        return tensor


def make_protocols(server: RunningServer) -> dict[str, Protocol]:
    return {
        "grpc": Protocol(grpc_client, server.grpc),
        "http": Protocol(http_client, server.http),
    }


def detect_in_python(images: Sequence[Any]) -> list[endcap.ImageDetections]:
    """What the package makes of images with the network of the shipped repository, each alone."""
    preprocess = endcap.Preprocessor("ultralytics")
    session = onnxruntime.InferenceSession(
        str(SHIPPED / "detector" / "1" / "model.onnx"), providers=["CPUExecutionProvider"]
    )
    postprocess = endcap.Postprocessor("yolov8", 6, score_threshold=_LOWEST_SCORE)
    found = []
    for image in images:
        prepared = preprocess(image)
        (head,) = session.run(["head"], {"images": prepared.images})
        found.append(postprocess(head, prepared.geometry, prepared.status)[0])
    return found


def assert_close(found: Any, expected: endcap.ImageDetections) -> None:
    """Scores and boxes of a network that runs on other batches may differ in the last bits."""
    assert found.class_ids.tolist() == expected.class_ids.tolist()
    np.testing.assert_allclose(found.boxes, expected.boxes, rtol=0, atol=SERVED_BOX_PIXELS)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=0, atol=SERVED_SCORE)


def assert_detections(
    tensors: Mapping[str, np.ndarray], expected: Sequence[endcap.ImageDetections]
) -> None:
    """tensors: of one response, with a row for each picture."""
    names = ("detection_boxes", "detection_scores", "detection_classes", "detection_indices")
    counts = tensors["num_detections"][:, 0].tolist()
    assert [len(each) for each in expected] == counts
    for row, (count, each) in enumerate(zip(counts, expected, strict=True)):
        assert count > 0
        rows = [tensors[name][row, :count] for name in names]
        assert_close(endcap.ImageDetections(*rows), each)
