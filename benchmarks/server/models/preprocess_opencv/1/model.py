"""JPEG bytes to a letterboxed tensor with OpenCV and NumPy, an image at a time."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import triton_python_backend_utils as pb_utils

SIZE = 640
PAD = 114
SCALE = np.float32(1 / 255)


class TritonPythonModel:
    """All requests of a batch in one call; an image that cannot be read fails its request."""

    def initialize(self, args: dict[str, str]) -> None:
        """OpenCV keeps to one thread: the instances share the CPUs."""
        cv2.setNumThreads(1)
        self._square = np.empty((SIZE, SIZE, 3), np.uint8)

    def execute(self, requests: list[Any]) -> list[Any]:
        """One response per request, in order."""
        return [self._respond(request) for request in requests]

    def _respond(self, request: Any) -> Any:
        encoded = pb_utils.get_input_tensor_by_name(request, "encoded").as_numpy()
        images = np.empty((len(encoded), 3, SIZE, SIZE), np.float32)
        geometry = np.empty((len(encoded), 8), np.float32)
        for index, (content,) in enumerate(encoded):
            picture = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR)
            if picture is None:
                error = pb_utils.TritonError(f"image {index} cannot be decoded")
                return pb_utils.InferenceResponse([], error)
            geometry[index] = self._fill(picture, images[index])
        tensors = [pb_utils.Tensor("images", images), pb_utils.Tensor("geometry", geometry)]
        return pb_utils.InferenceResponse(tensors)

    def _fill(self, picture: Any, tensor: Any) -> tuple[float, ...]:
        height, width = picture.shape[:2]
        ratio = min(SIZE / width, SIZE / height)
        new_width, new_height = round(width * ratio), round(height * ratio)
        left, top = round((SIZE - new_width) / 2 - 0.1), round((SIZE - new_height) / 2 - 0.1)
        self._square[:] = PAD
        inside = self._square[top : top + new_height, left : left + new_width]
        cv2.resize(picture, (new_width, new_height), dst=inside)
        for plane, out in zip(cv2.split(self._square), tensor[::-1]):  # noqa: B905
            np.multiply(plane, SCALE, out=out, dtype=np.float32)
        return new_width / width, new_height / height, left, top, width, height, 1, 0
