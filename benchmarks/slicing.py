"""Sliced detection in a large image: endcap next to SAHI, around the same network.

    python -m benchmarks.slicing --tile 900

The two alternate in one process, each with one thread. SAHI's wrapper prepares slices by OpenCV and
NumPy, and reads heads by endcap. Memory is the growth of the peak of a process that prepares the
tensors of all tiles, without these. It needs sahi, as `make test-peers` installs it.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnxruntime
from sahi.models.base import DetectionModel
from sahi.predict import get_sliced_prediction
from sahi.prediction import ObjectPrediction
from sahi.slicing import slice_image

import endcap

NETWORK = "model_repository/detector/1/model.onnx"
HEAD: Any = {"head": "yolov8", "num_classes": 6, "score_threshold": 0.4, "threads": 1}
SAMPLE = "model_repository/detect/samples/shapes_4000x3000.jpg"
SIDE = 640


class Network:
    """The sample network, and the time that it has taken."""

    def __init__(self) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(NETWORK, options)
        self.seconds = 0.0

    def __call__(self, images: Any) -> Any:
        """Return the head for each image; one after the other, as SAHI runs them."""
        begin = time.perf_counter()
        heads = [self._session.run(None, {"images": each[None]})[0] for each in images]
        self.seconds += time.perf_counter() - begin
        return np.concatenate(heads)


def prepare(image: Any) -> Any:
    """Return a square slice as the network's input."""
    if image.shape[:2] != (SIDE, SIDE):
        scale = SIDE / max(image.shape[:2])
        resized = cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_LINEAR)
        top, left = ((SIDE - side) // 2 for side in resized.shape[:2])
        image = np.full((SIDE, SIDE, 3), 114, np.uint8)
        image[top : top + resized.shape[0], left : left + resized.shape[1]] = resized
    return np.ascontiguousarray(image.transpose(2, 0, 1), np.float32) / np.float32(255)


class Wrapper(DetectionModel):  # type: ignore[misc]
    """The network for SAHI."""

    def load_model(self) -> None:
        """Make what a call needs."""
        self.model = Network()
        self._postprocessor = endcap.Postprocessor(**HEAD)

    def set_device(self, device: str | None = None) -> None:
        """Stay on the CPU."""
        self.device = "cpu"

    def perform_inference(self, image: Any) -> None:
        """Run the network on a slice."""
        height, width = image.shape[:2]
        scale = SIDE / max(height, width)
        pads = (SIDE - round(width * scale)) // 2, (SIDE - round(height * scale)) // 2
        geometry = np.array([[scale, scale, *pads, width, height, 1, 0]], np.float32)
        self._found: Any = self._postprocessor(self.model([prepare(image)]), geometry)[0]

    def _create_object_prediction_list_from_original_predictions(
        self, shift_amount_list: Any = None, full_shape_list: Any = None
    ) -> None:
        shift, full = list(np.reshape(shift_amount_list, 2)), list(np.reshape(full_shape_list, 2))
        self._object_prediction_list_per_image = [
            [
                ObjectPrediction(list(each.box), each.class_id, "", None, each.score, shift, full)
                for each in self._found
            ]
        ]


class WithSahi:
    """SAHI's sliced prediction of a file."""

    def __init__(self, tile: int) -> None:
        self._model, self._tile = Wrapper(confidence_threshold=0.4), tile
        self.network = self._model.model

    def __call__(self, image: str) -> int:
        """Return the number of detections."""
        found = get_sliced_prediction(image, self._model, self._tile, self._tile, verbose=0)
        return len(found.object_prediction_list)


class WithEndcap:
    """endcap's."""

    def __init__(self, tile: int) -> None:
        self.network = Network()
        self._preprocessor = endcap.Preprocessor(tile=tile, threads=1)
        self._postprocessor = endcap.Postprocessor(**HEAD, merge="nmm")

    def __call__(self, image: str) -> int:
        """Return the number of detections."""
        tiles = self._preprocessor(image)
        detections = self._postprocessor(self.network(tiles.images), tiles.geometry)
        assert isinstance(detections, endcap.Detections)
        return len(detections[0])


def _tensors_by_sahi(image: str, tile: int, out: Any) -> None:
    sliced = slice_image(image, slice_height=tile, slice_width=tile)
    for row, part in zip(out, [*sliced.images, sliced.original_image], strict=True):
        row[:] = prepare(part)


def _tensors_by_endcap(image: str, tile: int, out: Any) -> None:
    endcap.Preprocessor(tile=tile, threads=1)(image, out=out)


def _read_peak() -> int:
    """Return the peak of this process's memory in KiB; ru_maxrss begins with the parent's."""
    (line,) = (x for x in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in x)
    return int(line.split()[1])


def _measure_growth(task: Any, image: str, tile: int, results: Any) -> None:
    out = np.ones((len(endcap.Preprocessor(tile=tile).tiles(image)), 3, SIDE, SIDE), np.float32)
    before = _read_peak()
    task(image, tile, out)
    results.put((_read_peak() - before) / 1024)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--image", type=Path, default=Path(SAMPLE))
    parser.add_argument("--tile", type=int, default=640)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    image, tile = str(options.image), options.tile
    subjects: dict[str, Any] = {"endcap": WithEndcap(tile), "sahi": WithSahi(tile)}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in subjects}
    for number in range(options.rounds + 1):
        for name, subject in subjects.items():
            subject.network.seconds, begin = 0.0, time.perf_counter()
            found = subject(image)
            whole = time.perf_counter() - begin
            if number:  # the first is the warm-up
                times[name].append((whole, whole - subject.network.seconds))
            print(f"{name}: {found} detections, {whole:.2f} s", flush=True)
    context = multiprocessing.get_context("spawn")
    tasks = {"endcap": _tensors_by_endcap, "sahi": _tensors_by_sahi}
    for name, measured in times.items():
        results = context.Queue()
        process = context.Process(target=_measure_growth, args=(tasks[name], image, tile, results))
        process.start()
        growth = results.get()
        process.join()
        whole, rest = (statistics.median(column) for column in zip(*measured, strict=True))
        print(
            f"{name}: {1 / whole:.3f} images/s, {1e3 * rest:.0f} ms without the network, "
            f"{growth:.0f} MB above the tensors"
        )


if __name__ == "__main__":
    main()
