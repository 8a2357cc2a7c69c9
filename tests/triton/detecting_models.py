"""Small Python models that clients are tested with: each kind of model, with known responses.

The response to an image depends on its first byte: 0xff, a JPEG's, two rows (E none, B a blank
image's status, S two rows after a while), and C fails its request as a corrupt image would. The
index of the first row is the image's length, by which tests tell responses apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from endcap.client import ImageResult
from tests.support import classifying_model
from tests.support.echo_model import write_model
from tests.triton.running_server import RunningServer

PROTOCOLS = ["grpc", "http"]
BATCH_LIMIT = 8
SLOW_S = 1
NAMES = ["hound", "cat", "fish"]

_TENSORS = """
output [
  { name: "num_detections" data_type: TYPE_INT32 dims: [ 1 ] },
  { name: "detection_boxes" data_type: TYPE_FP32 dims: [ 3, 4 ] },
  { name: "detection_scores" data_type: TYPE_FP32 dims: [ 3 ] },
  { name: "detection_classes" data_type: TYPE_INT32 dims: [ 3 ] },
  { name: "detection_indices" data_type: TYPE_INT32 dims: [ 3 ] },
  { name: "status" data_type: TYPE_INT32 dims: [ 1 ] }
]
parameters { key: "labels" value { string_value: "circle, square" } }
"""
_ENCODED = 'input { name: "encoded" data_type: TYPE_STRING dims: [ 1 ] }\n'
_BYTES = 'input { name: "encoded" data_type: TYPE_UINT8 dims: [ -1 ] }\n'
_PARTS = """
model_transaction_policy { decoupled: true }
output [
  { name: "detection_boxes" data_type: TYPE_FP32 dims: [ 1, 4 ] },
  { name: "detection_scores" data_type: TYPE_FP32 dims: [ 1 ] },
  { name: "detection_classes" data_type: TYPE_INT32 dims: [ 1 ] },
  { name: "detection_indices" data_type: TYPE_INT32 dims: [ 1 ] }
]
"""

_RESPONSES = f"""
import time
import numpy as np
import triton_python_backend_utils as pb_utils

def corrupt():
    error = pb_utils.TritonError("corrupt_image: it is no JPEG", pb_utils.TritonError.INVALID_ARG)
    return pb_utils.InferenceResponse([], error)

def tensors(files, scores=(0.75, 0.5, 0)):
    n = len(files)
    kept = [0 if file[:1] in b"EB" else 2 for file in files]
    boxes = np.zeros((n, 3, 4), np.float32)
    boxes[:, 0], boxes[:, 1] = [8, 8, 40, 32], [10.5, 12.25, 20, 30]
    return {{"num_detections": np.array(kept, np.int32)[:, None],
            "detection_boxes": boxes,
            "detection_scores": np.array([scores] * n, np.float32),
            "detection_classes": np.array([[1, 7, 0]] * n, np.int32),
            "detection_indices": np.array([[len(file), 2, -1] for file in files], np.int32),
            "status": np.array([[2 * (file[:1] == b"B")] for file in files], np.int32)}}

def response(files, **options):
    if any(file[:1] == b"C" for file in files):
        return corrupt()
    if any(file[:1] == b"S" for file in files):
        time.sleep({SLOW_S})
    responses = tensors(files, **options).items()
    return pb_utils.InferenceResponse([pb_utils.Tensor(*each) for each in responses])

def encoded(request):
    return pb_utils.get_input_tensor_by_name(request, "encoded").as_numpy()
"""
_DETECT = f"""{_RESPONSES}
class TritonPythonModel:
    def execute(self, requests):
        return [response(list(encoded(request)[:, 0])) for request in requests]
"""
# One file as UINT8, and no batch dimension anywhere.
_DETECT_BYTES = f"""{_RESPONSES}
class TritonPythonModel:
    def execute(self, requests):
        return [self.respond(encoded(request).tobytes()) for request in requests]

    def respond(self, file):
        responses = [pb_utils.Tensor(name, each[0]) for name, each in tensors([file]).items()]
        return pb_utils.InferenceResponse(responses)
"""
# The score says which image of its sequence it is, in hundredths, with 50 more for the last.
_FRAMES = f"""{_RESPONSES}
class TritonPythonModel:
    def initialize(self, args):
        self.frames = {{}}

    def execute(self, requests):
        return [self.respond(request) for request in requests]

    def respond(self, request):
        sequence, flags = request.correlation_id(), request.flags()
        if flags & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START:
            self.frames[sequence] = 0
        self.frames[sequence] += 1
        count = self.frames[sequence]
        if flags & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END:
            del self.frames[sequence]
            count += 50
        return response(list(encoded(request)[:, 0]), scores=(count / 100, 0, 0))
"""
# As many responses of one row as the file is long, less one; then the final flag.
_DECOUPLED = f"""{_RESPONSES}
class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            self.respond(encoded(request)[0], request.get_response_sender())

    def respond(self, file, sender):
        if file[:1] == b"C":
            sender.send(corrupt())
        for row in range(len(file) - 1 if file[:1] == b"\\xff" else 0):
            responses = {{"detection_boxes": np.full((1, 4), row, np.float32),
                       "detection_scores": np.float32([0.5]),
                       "detection_classes": np.int32([row]),
                       "detection_indices": np.int32([100 * len(file) + row])}}
            tensors = [pb_utils.Tensor(*each) for each in responses.items()]
            sender.send(pb_utils.InferenceResponse(tensors))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""


def make_file(size: int) -> bytes:
    """An image of so many bytes, for which the models return two rows."""
    return b"\xff" * size


def server_url(server: RunningServer, protocol: str) -> str:
    return f"{protocol}://{getattr(server, protocol)}"


def sizes(results: Sequence[ImageResult]) -> list[int]:
    """The lengths of the images, as the responses tell them."""
    return [result.detections[0].index for result in results]


def write_all(repository: Path) -> None:
    """Writes `detect`, `detect_bytes`, `frames`, `parts` and `classify`."""
    batched = f'backend: "python"\nmax_batch_size: {BATCH_LIMIT}\n{_ENCODED}'
    instances = "instance_group [ { count: 3 kind: KIND_CPU } ]\n"
    write_model(repository, "detect", batched + _TENSORS + instances, _DETECT)
    plain = 'backend: "python"\nmax_batch_size: 0\n'
    write_model(repository, "detect_bytes", plain + _BYTES + _TENSORS, _DETECT_BYTES)
    sequences = "sequence_batching { oldest { max_candidate_sequences: 4 } }\n"
    write_model(repository, "frames", batched + _TENSORS + sequences, _FRAMES)
    write_decoupled(repository)
    named = classifying_model.CONFIG.replace(
        "TYPE_FP32 dims: [ 3 ]", 'TYPE_FP32 dims: [ 3 ] label_filename: "names.txt"'
    )
    write_model(repository, "classify", named, classifying_model.MODEL)
    (repository / "classify" / "names.txt").write_text("\n".join(NAMES) + "\n")


def write_decoupled(repository: Path) -> None:
    """Writes `parts`."""
    plain = 'backend: "python"\nmax_batch_size: 0\n'
    write_model(repository, "parts", plain + _ENCODED + _PARTS, _DECOUPLED)
