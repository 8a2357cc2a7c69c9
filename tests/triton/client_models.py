"""Small models that clients are tested with, with known responses.

The response to an image depends on its first byte: 0xff, a JPEG's, two rows, and E none; B a blank
image's status; C fails its request as a corrupt image would; S sleeps as many seconds as follow,
and W waits for a file, see `WaitingImage`. The index of the first row is the image's length, by
which tests tell responses apart.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from endcap.client import ImageResult
from tests.support import classifying_model
from tests.support.echo_model import write_model as write_text
from tests.triton.model_folders import ON_CPU, tensor, write_model
from tests.triton.running_server import wait_for

BATCH_LIMIT = 8
NAMES = ["hound", "cat", "fish"]

_ENCODED = tensor("encoded", "TYPE_STRING", [1])

# Responds with the parameters and the timeout of the request, followed by `texts`. It waits for the
# file that `behavior` names, and stops when the request is cancelled.
_ECHO = """
import json, os, time
import numpy as np
import triton_python_backend_utils as pb_utils

def respond(request):
    texts = pb_utils.get_input_tensor_by_name(request, "texts").as_numpy()
    (until,) = pb_utils.get_input_tensor_by_name(request, "until").as_numpy()
    pb_utils.Logger.log_warn(f"echo: {request.request_id()} begins")
    end = time.monotonic() + 30
    while until and time.monotonic() < end and not os.path.exists(until):
        if request.is_cancelled():
            pb_utils.Logger.log_warn(f"echo: {request.request_id()} is cancelled")
            break
        time.sleep(0.01)
    received = {"parameters": json.loads(request.parameters()), "timeout": request.timeout()}
    content = np.concatenate([np.array([json.dumps(received).encode()], object), texts])
    return pb_utils.InferenceResponse([pb_utils.Tensor("response", content)])

class TritonPythonModel:
    def execute(self, requests):
        return [respond(request) for request in requests]
"""
_RESPONSES = """
import json, os, time
import numpy as np
import triton_python_backend_utils as pb_utils

def corrupt():
    error = pb_utils.TritonError("corrupt_image: it is no JPEG", pb_utils.TritonError.INVALID_ARG)
    return pb_utils.InferenceResponse([], error)

def encoded(request):
    return pb_utils.get_input_tensor_by_name(request, "encoded").as_numpy()

def response(tensors):
    return pb_utils.InferenceResponse([pb_utils.Tensor(*each) for each in tensors.items()])
"""
# Of a model with sequences, the score says which image of its sequence it is, in hundredths, with
# 50 more for the last.
_DETECT = f"""{_RESPONSES}
class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        self.has_batches = config["max_batch_size"] > 0
        self.has_sequences = "sequence_batching" in config
        self.counts = {{}}

    def execute(self, requests):
        return [self.respond(request) for request in requests]

    def respond(self, request):
        array = encoded(request)
        files = [*array[:, 0]] if self.has_batches else [array.tobytes()]
        for file in files:
            if file[:1] == b"C":
                return corrupt()
            if file[:1] == b"S":
                time.sleep(float(file[1:]))
            if file[:1] == b"W":
                wait(file[1:].decode())
        tensors = rows(files, self.count(request) if self.has_sequences else (0.75, 0.5, 0))
        return response({{n: each if self.has_batches else each[0] for n, each in tensors.items()}})

    def count(self, request):
        sequence, flags = request.correlation_id(), request.flags()
        if flags & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START:
            self.counts[sequence] = 0
        self.counts[sequence] += 1
        is_last = bool(flags & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END)
        return (self.counts[sequence] / 100 + 0.5 * is_last, 0, 0)

def wait(end):
    open(end + ".begun", "w").close()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and not os.path.exists(end):
        time.sleep(0.01)

def rows(files, scores):
    n = len(files)
    boxes = np.zeros((n, 3, 4), np.float32)
    boxes[:, 0], boxes[:, 1] = [8, 8, 40, 32], [10.5, 12.25, 20, 30]
    kept = [0 if file[:1] in b"EB" else 2 for file in files]
    return {{"num_detections": np.array(kept, np.int32)[:, None],
            "detection_boxes": boxes,
            "detection_scores": np.array([scores] * n, np.float32),
            "detection_classes": np.array([[1, 7, 0]] * n, np.int32),
            "detection_indices": np.array([[len(file), 2, -1] for file in files], np.int32),
            "status": np.array([[2 * (file[:1] == b"B")] for file in files], np.int32)}}
"""
# As many responses of one row as the file is long, less one; then the final flag.
_PARTS = f"""{_RESPONSES}
class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            self.respond(encoded(request)[0], request.get_response_sender())

    def respond(self, file, sender):
        if file[:1] == b"C":
            sender.send(corrupt())
        for row in range(len(file) - 1 if file[:1] == b"\\xff" else 0):
            sender.send(response({{
                "detection_boxes": np.full((1, 4), row, np.float32),
                "detection_scores": np.float32([0.5]),
                "detection_classes": np.int32([row]),
                "detection_indices": np.int32([100 * len(file) + row])}}))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""


def make_file(size: int) -> bytes:
    """An image of so many bytes, for which the models return two rows."""
    return b"\xff" * size


class WaitingImage:
    """An image whose response comes when the test ends it."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "end"
        self.content = b"W" + os.fsencode(self.file)

    def wait_until_begun(self) -> None:
        """Returns when the server works on it."""
        wait_for(self.file.with_suffix(".begun").exists)

    def end(self) -> None:
        self.file.touch()


def sizes(results: Sequence[ImageResult]) -> list[int]:
    """The lengths of the images, as the responses tell them."""
    return [result.detections[0].index for result in results]


def _rows(count: int) -> list[str]:
    return [
        tensor("detection_boxes", "TYPE_FP32", [count, 4]),
        tensor("detection_scores", "TYPE_FP32", [count]),
        tensor("detection_classes", "TYPE_INT32", [count]),
        tensor("detection_indices", "TYPE_INT32", [count]),
    ]


def write_detect(
    repository: Path, name: str = "detect", encoded: str = _ENCODED, more: str = ""
) -> None:
    """A model for batches, unless `encoded` is a tensor of bytes."""
    outputs = [tensor(each, "TYPE_INT32", [1]) for each in ("num_detections", "status")]
    write_model(
        repository,
        name,
        backend="python",
        max_batch_size=BATCH_LIMIT if encoded == _ENCODED else 0,
        parameters={"labels": "circle, square"},
        inputs=[encoded],
        outputs=[*outputs, *_rows(3)],
        more=more,
        files={"1/model.py": _DETECT},
    )


def write_parts(repository: Path) -> None:
    """`parts`, which is decoupled."""
    write_model(
        repository,
        "parts",
        backend="python",
        inputs=[_ENCODED],
        outputs=_rows(1),
        more="model_transaction_policy { decoupled: true }",
        files={"1/model.py": _PARTS},
    )


def write_all(repository: Path) -> None:
    """`echo`, with two places in its queue, `parts`, `classify`, and those of detect."""
    write_model(
        repository,
        "echo",
        backend="python",
        inputs=[tensor("texts", "TYPE_STRING", [-1]), tensor("until", "TYPE_STRING", [1])],
        outputs=[tensor("response", "TYPE_STRING", [-1])],
        more=f"{ON_CPU}\ndynamic_batching {{ default_queue_policy {{ max_queue_size: 2 }} }}",
        files={"1/model.py": _ECHO},
    )
    write_detect(repository, more="instance_group { count: 3 kind: KIND_CPU }")
    write_detect(repository, "detect_bytes", tensor("encoded", "TYPE_UINT8", [-1]))
    sequences = "sequence_batching { oldest { max_candidate_sequences: 4 } }"
    write_detect(repository, "frames", more=sequences)
    write_parts(repository)
    named = classifying_model.CONFIG.replace(
        "TYPE_FP32 dims: [ 3 ]", 'TYPE_FP32 dims: [ 3 ] label_filename: "names.txt"'
    )
    write_text(repository, "classify", named, classifying_model.MODEL)
    (repository / "classify" / "names.txt").write_text("\n".join(NAMES) + "\n")
