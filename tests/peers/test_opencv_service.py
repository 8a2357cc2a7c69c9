"""The FastAPI service of the benchmark detects what endcap does, and refuses what is no image."""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import endcap
from benchmarks.pipelines import IOU_THRESHOLD, NUM_CLASSES, SCORE_THRESHOLD, services
from benchmarks.pipelines.services import Running
from benchmarks.server.repository import SHIPPED

NETWORK = SHIPPED / "detector" / "1" / "model.onnx"
SAMPLES = sorted((SHIPPED / "detect" / "samples").glob("*.jpg"))


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    with services.opencv(Path(sys.executable), NETWORK) as running:
        yield running


def post(service: Running, body: bytes) -> dict[str, list[float]]:
    request = urllib.request.Request(f"{service.http}/detect", data=body)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=30) as response:
        return dict(json.loads(response.read()))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_it_detects_as_endcap(sample: Path, service: Running) -> None:
    made = endcap.preprocess(sample.read_bytes(), preset="ultralytics", size=640)
    session = onnxruntime.InferenceSession(NETWORK, providers=["CPUExecutionProvider"])
    (head,) = session.run(None, {"images": made.images})
    postprocess = endcap.Postprocessor(
        head="yolov8",
        num_classes=NUM_CLASSES,
        score_threshold=SCORE_THRESHOLD,
        iou_threshold=IOU_THRESHOLD,
    )
    expected = postprocess(head, made.geometry)[0]
    found = post(service, sample.read_bytes())
    assert len(expected) > 0
    assert found["classes"] == expected.class_ids.tolist()
    # An 8-bit step here and there: OpenCV chooses its code by CPU.
    np.testing.assert_allclose(found["boxes"], expected.boxes, atol=0.5)
    np.testing.assert_allclose(found["scores"], expected.scores, atol=1e-2)


def test_what_is_no_image_is_refused(service: Running) -> None:
    with pytest.raises(urllib.error.HTTPError, match="400") as refused:
        post(service, b"no image")
    assert json.loads(refused.value.read()) == {"detail": "the image cannot be decoded"}
    refused.value.close()
    assert len(post(service, SAMPLES[0].read_bytes())["scores"]) > 0
