"""A Python model with all that a detector may return: keypoints, angles and masks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from echo_model import write_model

from endcap.masks import encode_rle

MASK_SIZE = (480, 640)  # height, width
BOX = (100.0, 120.0, 300.0, 220.0)
ANGLE = 0.5
KEYPOINTS = [[110.0, 130.0, 0.75], [600.0, 470.0, 0.25]]

CONFIG = """
backend: "python"
input [ { name: "encoded" data_type: TYPE_STRING dims: [ 1 ] } ]
output [
  { name: "num_detections" data_type: TYPE_INT32 dims: [ 1 ] },
  { name: "detection_boxes" data_type: TYPE_FP32 dims: [ 2, 4 ] },
  { name: "detection_scores" data_type: TYPE_FP32 dims: [ 2 ] },
  { name: "detection_classes" data_type: TYPE_INT32 dims: [ 2 ] },
  { name: "detection_indices" data_type: TYPE_INT32 dims: [ 2 ] },
  { name: "detection_keypoints" data_type: TYPE_FP32 dims: [ 2, -1, 3 ] },
  { name: "detection_angles" data_type: TYPE_FP32 dims: [ -1 ] },
  { name: "mask_size" data_type: TYPE_INT32 dims: [ 2 ] },
  { name: "detection_rle" data_type: TYPE_STRING dims: [ 2 ] },
  { name: "detection_masks" data_type: TYPE_UINT8 dims: [ 2, 480, 80 ] },
  { name: "status" data_type: TYPE_INT32 dims: [ 1 ] }
]
max_batch_size: 1
instance_group [ { kind: KIND_CPU } ]
"""
# By the first byte: A angles of another shape; R a mask whose run lengths are none. What a request
# requests is what it gets, and detection_masks, megabytes that no client reads, is an error.
MODEL = f"""
import numpy as np
import triton_python_backend_utils as pb_utils

def respond(encoded, requested):
    if "detection_masks" in requested:
        return pb_utils.InferenceResponse([], pb_utils.TritonError("detection_masks is requested"))
    kind = encoded[:1]
    rle = b"~no run lengths" if kind == b"R" else RLE
    tensors = {{
        "num_detections": np.array([[1]], np.int32),
        "detection_boxes": np.array([[{list(BOX)}, [0] * 4]], np.float32),
        "detection_scores": np.array([[0.75, 0]], np.float32),
        "detection_classes": np.zeros((1, 2), np.int32),
        "detection_indices": np.array([[4, -1]], np.int32),
        "detection_keypoints": np.array([[{KEYPOINTS}, [[0] * 3] * 2]], np.float32),
        "detection_angles": np.full((1, 3 if kind == b"A" else 2), {ANGLE}, np.float32),
        "mask_size": np.array([{list(MASK_SIZE)}], np.int32),
        "detection_rle": np.array([[rle, b""]], np.object_),
        "status": np.zeros((1, 1), np.int32)}}
    return pb_utils.InferenceResponse(
        [pb_utils.Tensor(name, tensors[name]) for name in tensors if name in requested])

class TritonPythonModel:
    def execute(self, requests):
        return [respond(pb_utils.get_input_tensor_by_name(each, "encoded").as_numpy()[0, 0],
                       set(each.requested_output_names())) for each in requests]
"""


def mask() -> np.ndarray:
    """An ellipse in the box, bool [480, 640]."""
    y, x = np.ogrid[: MASK_SIZE[0], : MASK_SIZE[1]]
    return np.asarray(((x - 200) / 90) ** 2 + ((y - 170) / 45) ** 2 < 1)


def write_figures_model(repository: Path) -> None:
    """Write the model `figures`."""
    write_model(repository, "figures", CONFIG, f"RLE = {encode_rle(mask())!r}\n{MODEL}")
