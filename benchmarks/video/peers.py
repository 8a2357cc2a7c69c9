"""The same clips by OpenCV, ONNX Runtime and ultralytics' tracker, and by ultralytics alone.

python -m benchmarks.video.peers NAME OUTPUT.json NETWORK.onnx ROUNDS CLIP.mp4...
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.paths import BUILD
from benchmarks.video.network import IOU_THRESHOLD, SCORE_THRESHOLD

Rows = list[list[float]]  # x1, y1, x2, y2, score, id
Detect = Callable[[Path], Iterator[Rows]]
_PADDING = 114
_MOST = 300
_TRACKER = {
    "track_high_thresh": 0.25,
    "track_low_thresh": 0.1,
    "new_track_thresh": 0.25,
    "track_buffer": 30,
    "match_thresh": 0.8,
    "fuse_score": True,
}


def opencv(network: Path) -> Detect:
    """Return VideoCapture, letterbox and NMS of OpenCV, ONNX Runtime, and ultralytics' tracker."""
    import cv2
    import onnxruntime
    from ultralytics.engine.results import Boxes
    from ultralytics.trackers.byte_tracker import BYTETracker

    session = onnxruntime.InferenceSession(network, providers=["CPUExecutionProvider"])
    name, side = _input_of(session)

    def run(clip: Path) -> Iterator[Rows]:
        tracker: Any = BYTETracker(SimpleNamespace(**_TRACKER))
        capture = cv2.VideoCapture(str(clip))
        while True:
            there, frame = capture.read()
            if not there:
                break
            tensor, scale, left, top = _letterbox(cv2, frame, side)
            (head,) = session.run(None, {name: tensor})
            found = _decode(cv2, head[0], scale, left, top, frame.shape)
            boxes = Boxes(found, frame.shape[:2])
            ids = np.full(len(found), -1.0)
            for row in tracker.update(boxes):
                ids[int(row[7])] = row[4]
            yield np.column_stack([found[:, :5], ids]).tolist()
        capture.release()

    return run


def _input_of(session: Any) -> tuple[str, int]:
    """Return the name and the width of a network's input."""
    tensor = session.get_inputs()[0]
    return tensor.name, int(tensor.shape[-1])


def _letterbox(cv2: Any, frame: Any, side: int) -> tuple[npt.NDArray[np.float32], float, int, int]:
    height, width = frame.shape[:2]
    scale = min(side / height, side / width)
    inner = round(width * scale), round(height * scale)
    small = cv2.resize(frame, inner, interpolation=cv2.INTER_LINEAR)
    left, top = (side - inner[0]) // 2, (side - inner[1]) // 2
    right, bottom = side - inner[0] - left, side - inner[1] - top
    padded = cv2.copyMakeBorder(
        small, top, bottom, left, right, cv2.BORDER_CONSTANT, value=(_PADDING,) * 3
    )
    tensor = padded[..., ::-1].transpose(2, 0, 1)[None]
    return np.ascontiguousarray(tensor, np.float32) / np.float32(255), scale, left, top


def _decode(
    cv2: Any, head: Any, scale: float, left: int, top: int, shape: tuple[int, ...]
) -> npt.NDArray[np.float32]:
    """Return x1, y1, x2, y2, score and class of the detections, best first."""
    scores = head[4:].max(axis=0)
    chosen = np.flatnonzero(scores > SCORE_THRESHOLD)
    scores, classes = scores[chosen], head[4:, chosen].argmax(axis=0)
    centre, size = head[:2, chosen].T, head[2:4, chosen].T
    corners = np.hstack([centre - size / 2, size])
    kept = cv2.dnn.NMSBoxesBatched(
        corners.tolist(), scores.tolist(), classes.tolist(), SCORE_THRESHOLD, IOU_THRESHOLD
    )
    kept = np.asarray(kept, int)[:_MOST]
    boxes = np.hstack([corners[kept, :2], corners[kept, :2] + corners[kept, 2:]])
    boxes = (boxes - (left, top, left, top)) / scale
    limits = (shape[1], shape[0], shape[1], shape[0])
    rows = np.column_stack([np.clip(boxes, 0, limits), scores[kept], classes[kept]])
    return rows.astype(np.float32)


def ultralytics(network: Path) -> Detect:
    """Return `model.track` of ultralytics around the same file."""
    import onnxruntime
    from ultralytics import YOLO

    _, side = _input_of(onnxruntime.InferenceSession(network, providers=["CPUExecutionProvider"]))
    model = YOLO(str(network), task="detect")

    def run(clip: Path) -> Iterator[Rows]:
        model.predictor = None  # else the tracks of the clip before go on
        for result in model.track(
            str(clip),
            stream=True,
            verbose=False,
            conf=SCORE_THRESHOLD,
            iou=IOU_THRESHOLD,
            imgsz=side,
            rect=False,  # else networks of any batch size get frames of other shapes
            tracker="bytetrack.yaml",
            device="cpu",
        ):
            boxes = result.boxes.data.cpu().numpy()
            if boxes.shape[1] == 7:  # x1, y1, x2, y2, id, score, class
                yield boxes[:, [0, 1, 2, 3, 5, 4]].tolist()
            else:
                yield [[*row[:5], -1] for row in boxes.tolist()]

    return run


def network_alone(network: Path) -> Detect:
    """Return runs of the network, as many as the clip has frames, which are not read."""
    import cv2
    import onnxruntime

    session = onnxruntime.InferenceSession(network, providers=["CPUExecutionProvider"])
    name, side = _input_of(session)
    tensor = np.random.default_rng(0).random((1, 3, side, side), np.float32)

    def run(clip: Path) -> Iterator[Rows]:
        frames = int(cv2.VideoCapture(str(clip)).get(cv2.CAP_PROP_FRAME_COUNT))
        for _ in range(frames):
            session.run(None, {name: tensor})
            yield []

    return run


PEERS: dict[str, Callable[[Path], Detect]] = {
    "opencv": opencv,
    "ultralytics": ultralytics,
    "network": network_alone,
}


def main(name: str, output: str, network: str, rounds: str, *clips: str) -> None:
    """Write for each clip its results, and frames a second of each round."""
    os.environ.setdefault("YOLO_CONFIG_DIR", str(BUILD))
    detect = PEERS[name](Path(network))
    measured = {}
    for clip in map(Path, clips):
        frames = list(detect(clip))  # warms up, too
        speeds = []
        for _ in range(int(rounds)):
            begin = time.perf_counter()
            count = sum(1 for _ in detect(clip))
            speeds.append(count / (time.perf_counter() - begin))
        measured[clip.name] = {"frames": frames, "frames_per_second": speeds}
    Path(output).write_text(json.dumps(measured))


if __name__ == "__main__":
    main(*sys.argv[1:])
