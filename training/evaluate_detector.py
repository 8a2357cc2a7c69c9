"""Measures a detector on scenes that no training has seen, and its time on one thread.

    python -m training.evaluate_detector model_repository/detector/1/model.onnx

Needs NumPy, OpenCV and ONNX Runtime only.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
import onnxruntime

from .letterbox import letterbox, to_tensor
from .metrics import Objects, average_precision, detections_of_head, precision_and_recall
from .scenes import Scene, draw_boxes, make_scene
from .shapes import CLASS_NAMES

INPUT_SIDE = 640
# Seeds of measured scenes are [EVALUATION_STREAM, seed, index]: apart from training's stream 1.
EVALUATION_STREAM = 3
IOU_THRESHOLDS = np.arange(0.5, 1.0, 0.05)


def main() -> None:
    """Runs the command line."""
    options = _parse_options()
    cv2.setNumThreads(1)
    session = open_session(options.model, threads=options.threads)
    found, truth, seconds = [], [], []
    for index in range(options.scenes):
        scene = make_scene([EVALUATION_STREAM, options.seed, index])
        tensor, back = prepare(scene.image)
        begun = time.perf_counter()
        (head,) = session.run(["head"], {"images": tensor[None]})
        seconds.append(time.perf_counter() - begun)
        detections = to_source(
            detections_of_head(head[0], score_threshold=0.001, iou_threshold=0.7),
            back,
            scene.image,
        )
        found.append(detections)
        truth.append(Objects(scene.boxes, scene.class_ids, np.ones(len(scene.boxes), np.float32)))
        if options.draw and index < options.draw_count:
            _draw(options.draw / f"scene_{index}.jpg", scene, detections)
    _report(found, truth, seconds, options.threads)


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Measures a detector on scenes that no training has seen.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("model", type=Path, help="the ONNX file")
    parser.add_argument("--scenes", type=int, default=400, help="number of scenes")
    parser.add_argument("--seed", type=int, default=0, help="seed of the scenes")
    parser.add_argument("--threads", type=int, default=1, help="threads of ONNX Runtime")
    parser.add_argument("--draw", type=Path, help="folder for pictures with detections")
    parser.add_argument("--draw-count", type=int, default=12, help="how many pictures to draw")
    return parser.parse_args()


def open_session(model: Path, *, threads: int) -> onnxruntime.InferenceSession:
    """An ONNX Runtime session on the CPU."""
    session_options = onnxruntime.SessionOptions()
    session_options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(model, session_options, providers=["CPUExecutionProvider"])


def prepare(
    image: npt.NDArray[np.uint8],
) -> tuple[npt.NDArray[np.float32], tuple[float, float, float, float]]:
    """An RGB image to float32 [3, 640, 640] and its scale_x, scale_y, pad_x, pad_y."""
    canvas, back = letterbox(image, INPUT_SIDE)
    return to_tensor(canvas), back


def to_source(
    detections: Objects, back: tuple[float, float, float, float], image: npt.NDArray[np.uint8]
) -> Objects:
    """Maps boxes from the network's input to the image that it was made from, and clips them."""
    scale_x, scale_y, pad_x, pad_y = back
    pad = np.array([pad_x, pad_y, pad_x, pad_y], np.float32)
    scale = np.array([scale_x, scale_y, scale_x, scale_y], np.float32)
    height, width = image.shape[:2]
    limit = np.array([width, height, width, height], np.float32)
    boxes = np.clip((detections.boxes - pad) / scale, 0.0, limit)
    return Objects(boxes, detections.class_ids, detections.scores)


def _draw(path: Path, scene: Scene, detections: Objects) -> None:
    sure = detections.scores >= 0.25
    labels = [
        f"{CLASS_NAMES[class_id]} {score:.2f}"
        for class_id, score in zip(detections.class_ids[sure], detections.scores[sure], strict=True)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), draw_boxes(scene.image, detections.boxes[sure], labels)[..., ::-1])


def _report(found: list[Objects], truth: list[Objects], seconds: list[float], threads: int) -> None:
    table = np.array(
        [
            [average_precision(found, truth, class_id, threshold) for threshold in IOU_THRESHOLDS]
            for class_id in range(len(CLASS_NAMES))
        ]
    )
    print(f"{'class':<10}{'objects':>8}{'AP50':>8}{'AP75':>8}{'AP50-95':>9}")
    for class_id, name in enumerate(CLASS_NAMES):
        count = sum(int((item.class_ids == class_id).sum()) for item in truth)
        row = table[class_id]
        print(f"{name:<10}{count:>8}{row[0]:>8.3f}{row[5]:>8.3f}{row.mean():>9.3f}")
    count = sum(len(item.boxes) for item in truth)
    mean = table.mean(axis=0)
    print(f"{'all':<10}{count:>8}{mean[0]:>8.3f}{mean[5]:>8.3f}{mean.mean():>9.3f}")
    for threshold in (0.25, 0.4, 0.5):
        precision, recall = precision_and_recall(found, truth, score_threshold=threshold)
        print(f"score >= {threshold:.2f}: precision {precision:.3f}, recall {recall:.3f}")
    milliseconds = 1e3 * float(np.median(seconds))
    print(f"{len(truth)} scenes; median {milliseconds:.1f} ms an image on {threads} thread(s)")


if __name__ == "__main__":
    main()
