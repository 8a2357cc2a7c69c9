"""python -m benchmarks.pipelines.opencv_service MODEL.onnx PORT: detection without Triton.

The service that many teams begin with: a JPEG is posted, OpenCV decodes and letterboxes it in a
thread of Starlette's pool, onnxruntime runs the network, NumPy and OpenCV read the boxes out of its
head, JSON goes back. The session has the options of the repository's detector, so that the networks
of all pipelines are alike. Requests are not merged into batches.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnxruntime
import uvicorn
from fastapi import FastAPI, HTTPException, Request
from numpy.typing import NDArray
from starlette.concurrency import run_in_threadpool

from benchmarks.pipelines import IOU_THRESHOLD, MAX_DETECTIONS, SCORE_THRESHOLD
from benchmarks.preprocess import SIZE
from benchmarks.preprocess.opencv import letterbox_plainly
from benchmarks.preprocess.peer import letterbox

Floats = NDArray[np.float32]
Json = dict[str, Any]


class Detector:
    """An ONNX network with OpenCV around it; thread-safe."""

    def __init__(self, network: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        providers = ["CPUExecutionProvider"]
        self._session = onnxruntime.InferenceSession(network, options, providers=providers)

    def __call__(self, encoded: bytes) -> Json:
        """JPEG bytes to boxes (x1, y1, x2, y2 in its pixels), scores and classes, best first.

        Raises:
            ValueError: OpenCV cannot read the image.
        """
        picture = cv2.imdecode(np.frombuffer(encoded, np.uint8), cv2.IMREAD_COLOR)
        if picture is None:
            raise ValueError("the image cannot be decoded")
        height, width = picture.shape[:2]
        tensor = np.empty((3, SIZE, SIZE), np.float32)
        letterbox_plainly(picture, tensor)
        (head,) = self._session.run(None, {"images": tensor[None]})
        return _detections(np.asarray(head)[0], width, height)


def _detections(head: Floats, width: int, height: int) -> Json:
    scores, classes = head[4:].max(axis=0), head[4:].argmax(axis=0)
    candidates = scores > SCORE_THRESHOLD
    scores, classes, boxes = scores[candidates], classes[candidates], head[:4, candidates].T
    corner = boxes[:, :2] - boxes[:, 2:] / 2
    kept = _suppress(np.hstack([corner, boxes[:, 2:]]), scores, classes)
    place = letterbox(width, height)
    pad = np.array([place.left, place.top], np.float32)
    scale = np.array([place.width / width, place.height / height], np.float32)
    low = (corner[kept] - pad) / scale
    high = (corner[kept] + boxes[kept, 2:] - pad) / scale
    found = np.hstack([low, high]).clip(0, [width, height, width, height])
    return {
        "boxes": found.tolist(),
        "scores": scores[kept].tolist(),
        "classes": classes[kept].tolist(),
    }


def _suppress(boxes_xywh: Any, scores: Any, classes: Any) -> NDArray[np.int64]:
    if len(scores) == 0:
        return np.empty(0, np.int64)
    wide = boxes_xywh.astype(np.float64)
    kept = cv2.dnn.NMSBoxesBatched(wide, scores, classes, SCORE_THRESHOLD, IOU_THRESHOLD)
    return np.asarray(kept, np.int64).ravel()[:MAX_DETECTIONS]


async def detect(request: Request) -> Json:
    """POST /detect: the body is the file."""
    encoded = await request.body()
    try:
        found: Json = await run_in_threadpool(request.app.state.detector, encoded)
    except ValueError as error:
        raise HTTPException(400, str(error)) from error
    return found


def make_app(network: Path) -> Any:
    """Return the service on an ONNX file."""
    app = FastAPI()
    app.state.detector = Detector(network)
    app.add_api_route("/detect", detect, methods=["POST"])
    return app


def main() -> None:
    """Serve until it is ended."""
    network, port = Path(sys.argv[1]), int(sys.argv[2])
    uvicorn.run(make_app(network), host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    main()
