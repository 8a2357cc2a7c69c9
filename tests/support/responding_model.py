"""A Python model with the ensemble's outputs and known responses, one kind for each first byte."""

CONFIG = """
backend: "python"
input [ { name: "encoded" data_type: TYPE_STRING dims: [ 1 ] } ]
output [
  { name: "num_detections" data_type: TYPE_INT32 dims: [ 1 ] },
  { name: "detection_boxes" data_type: TYPE_FP32 dims: [ 3, 4 ] },
  { name: "detection_scores" data_type: TYPE_FP32 dims: [ 3 ] },
  { name: "detection_classes" data_type: TYPE_INT32 dims: [ 3 ] },
  { name: "detection_indices" data_type: TYPE_INT32 dims: [ 3 ] },
  { name: "status" data_type: TYPE_INT32 dims: [ 1 ] }
]
max_batch_size: 4
instance_group [ { count: 2 kind: KIND_CPU } ]
parameters { key: "labels" value { string_value: "circle, square" } }
"""
# Responds by the first byte: J (0xff of a JPEG) two rows, E no row, B a blank image, C an error;
# to a frame in Y4M with two rows, or an error where its first pixel is white.
MODEL = """
import time
import numpy as np
import triton_python_backend_utils as pb_utils

def respond(encoded):
    kind = encoded[:1]
    if kind == b"Y":
        kind = b"C" if encoded.split(b"\\n", 2)[2][0] > 200 else b"\\xff"
    if kind == b"C":
        message = "corrupt_image: image 0 is not a JPEG"
        return pb_utils.InferenceResponse(
            [], pb_utils.TritonError(message, pb_utils.TritonError.INVALID_ARG))
    if kind == b"S":
        time.sleep(3)
    kept = 2 if kind == b"\\xff" else 0
    boxes = np.zeros((1, 3, 4), np.float32)
    boxes[0, :2] = [[8, 8, 40, 32], [10.5, 12.25, 20, 30]]
    scores = np.array([[0.75, 0.5, 0]], np.float32)
    classes = np.array([[1, 7, 0]], np.int32)
    indices = np.array([[len(encoded), 2, -1]], np.int32)
    tensors = {"num_detections": np.array([[kept]], np.int32), "detection_boxes": boxes,
               "detection_scores": scores, "detection_classes": classes,
               "detection_indices": indices,
               "status": np.array([[2 if kind == b"B" else 0]], np.int32)}
    return pb_utils.InferenceResponse([pb_utils.Tensor(*each) for each in tensors.items()])

class TritonPythonModel:
    def execute(self, requests):
        inputs = [pb_utils.get_input_tensor_by_name(each, "encoded") for each in requests]
        return [respond(each.as_numpy()[0, 0]) for each in inputs]
"""
