"""Shared by the tests with the plain tritonclient: protocols, pictures, expected responses."""

from __future__ import annotations

from collections.abc import Mapping
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


def protocols_of(server: RunningServer) -> dict[str, Protocol]:
    return {
        "grpc": Protocol(grpc_client, server.grpc),
        "http": Protocol(http_client, server.http),
    }


def detect_in_python(files: list[bytes]) -> list[endcap.ImageDetections]:
    """What the package makes of pictures with the network of the shipped repository."""
    prepared = endcap.preprocess(files)
    session = onnxruntime.InferenceSession(
        str(SHIPPED / "detector" / "1" / "model.onnx"), providers=["CPUExecutionProvider"]
    )
    (head,) = session.run(["head"], {"images": prepared.images})
    postprocessor = endcap.Postprocessor("yolov8", 6, score_threshold=_LOWEST_SCORE)
    found = postprocessor(head, prepared.geometry, prepared.status)
    assert isinstance(found, endcap.Detections)
    return list(found)


def assert_detections(
    tensors: Mapping[str, np.ndarray], expected: list[endcap.ImageDetections]
) -> None:
    """tensors: of one response, with a row for each picture."""
    assert [len(each) for each in expected] == tensors["num_detections"][:, 0].tolist()
    for row, each in enumerate(expected):
        kept = len(each)
        assert kept > 0
        np.testing.assert_array_equal(tensors["detection_classes"][row, :kept], each.class_ids)
        for name, values, within in (
            ("detection_boxes", each.boxes, SERVED_BOX_PIXELS),
            ("detection_scores", each.scores, SERVED_SCORE),
        ):
            np.testing.assert_allclose(tensors[name][row, :kept], values, rtol=0, atol=within)
