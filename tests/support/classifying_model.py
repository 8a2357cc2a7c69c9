"""A Python model with a classifier's outputs and known responses, one kind for each first byte."""

CONFIG = """
backend: "python"
input [ { name: "encoded" data_type: TYPE_STRING dims: [ 1 ] } ]
output [
  { name: "class_scores" data_type: TYPE_FP32 dims: [ 2 ] },
  { name: "class_ids" data_type: TYPE_INT32 dims: [ 2 ] },
  { name: "class_labels" data_type: TYPE_STRING dims: [ 2 ] },
  { name: "class_probabilities" data_type: TYPE_FP32 dims: [ 3 ] },
  { name: "status" data_type: TYPE_INT32 dims: [ 1 ] }
]
max_batch_size: 4
instance_group [ { kind: KIND_CPU } ]
"""
# A JSON list, since a name has a comma in it; class 2 has none but the response's own.
LABELS = """parameters { key: "labels" value { string_value: '["cat", "dog, small"]' } }
"""
BROKEN_LABELS = """parameters { key: "labels" value { string_value: "[cat, dog" } }
"""
# Responds by the first byte: J (0xff of a JPEG) classes 1 and 2, B a blank image, C an error.
MODEL = """
import numpy as np
import triton_python_backend_utils as pb_utils

def respond(encoded):
    kind = encoded[:1]
    if kind == b"C":
        message = "corrupt_image: image 0 is not a JPEG"
        return pb_utils.InferenceResponse(
            [], pb_utils.TritonError(message, pb_utils.TritonError.INVALID_ARG))
    tensors = {"class_scores": np.array([[0.75, 0.25]], np.float32),
               "class_ids": np.array([[1, 2]], np.int32),
               "class_labels": np.array([[b"hound", b"fish"]], np.object_),
               "class_probabilities": np.array([[0, 0.75, 0.25]], np.float32),
               "status": np.array([[2 if kind == b"B" else 0]], np.int32)}
    return pb_utils.InferenceResponse([pb_utils.Tensor(*each) for each in tensors.items()])

class TritonPythonModel:
    def execute(self, requests):
        inputs = [pb_utils.get_input_tensor_by_name(each, "encoded") for each in requests]
        return [respond(each.as_numpy()[0, 0]) for each in inputs]
"""
