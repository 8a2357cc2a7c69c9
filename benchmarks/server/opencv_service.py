"""python -m benchmarks.server.opencv_service MODEL.onnx PORT: detection without Triton.

The service that many teams begin with: a JPEG is posted, OpenCV decodes and letterboxes it in a
thread of Starlette's pool, onnxruntime runs the network, NumPy and OpenCV read the boxes out of its
head, JSON goes back. The session has the options of the model `detector`, so that all networks are
alike. Requests are not merged into batches.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnxruntime
from numpy.typing import NDArray

from benchmarks.cpu.peers import letterbox, letterbox_with_opencv, normalize_with_numpy

# As the shipped model `postprocess` has them.
NUM_CLASSES = 6
SCORE_THRESHOLD = 0.4
IOU_THRESHOLD = 0.7
MAX_DETECTIONS = 300
Json = dict[str, Any]


class Detector:
    """An ONNX network with OpenCV around it; thread-safe."""

    def __init__(self, network: Path) -> None:
        cv2.setNumThreads(1)  # each request has a thread
        options = onnxruntime.SessionOptions()
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        providers = ["CPUExecutionProvider"]
        self._session = onnxruntime.InferenceSession(network, options, providers=providers)

    def __call__(self, encoded: bytes) -> Json:
        """JPEG bytes to boxes (x1, y1, x2, y2 in its pixels), scores and classes, best first.

        Raises:
            ValueError: OpenCV cannot decode the image.
        """
        square, width, height = letterbox_with_opencv(cv2, encoded)
        (head,) = self._session.run(None, {"images": normalize_with_numpy(square)[None]})
        return _detections(np.asarray(head)[0], width, height)


def _detections(head: NDArray[np.float32], width: int, height: int) -> Json:
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


def main() -> None:
    """Serve POST /detect, whose body is the file, until the process is ended."""
    import uvicorn
    from fastapi import FastAPI, HTTPException, Request
    from starlette.concurrency import run_in_threadpool

    detector = Detector(Path(sys.argv[1]))
    app = FastAPI(title="FastAPI, OpenCV", version=cv2.__version__)

    async def detect(request: Request) -> Json:
        encoded = await request.body()
        try:
            found: Json = await run_in_threadpool(detector, encoded)
        except ValueError as error:
            raise HTTPException(400, str(error)) from error
        return found

    # FastAPI evaluates annotations, and does not know the names of a function.
    detect.__annotations__ = {"request": Request, "return": Json}
    app.add_api_route("/detect", detect, methods=["POST"])
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="warning")


if __name__ == "__main__":
    main()
