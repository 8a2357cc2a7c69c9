"""Small models that clients are tested with, with the known responses of responding_model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from endcap.client import ImageResult
from tests.support import classifying_model
from tests.support.echo_model import write_model as write_text
from tests.support.responding_model import BATCH_LIMIT, CONFIG, HELPERS, MODEL
from tests.triton.model_folders import ON_CPU, tensor, write_model
from tests.triton.running_server import wait_for

# Responds with the parameters and the timeout of the request, followed by `texts`. It waits for the
# file `until`, and stops when the request is cancelled.
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
# As many responses of one row as the file is long, less one; then the final flag.
_PARTS = f"""{HELPERS}
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
    """An image of `size` bytes, for which the models return two rows."""
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


def write_detect(repository: Path, name: str = "detect", config: str = CONFIG) -> None:
    write_text(repository, name, config, MODEL)


def write_parts(repository: Path) -> None:
    """`parts`, which is decoupled."""
    write_model(
        repository,
        "parts",
        backend="python",
        inputs=[tensor("encoded", "TYPE_STRING", [1])],
        outputs=[
            tensor("detection_boxes", "TYPE_FP32", [1, 4]),
            tensor("detection_scores", "TYPE_FP32", [1]),
            tensor("detection_classes", "TYPE_INT32", [1]),
            tensor("detection_indices", "TYPE_INT32", [1]),
        ],
        more="model_transaction_policy { decoupled: true }",
        files={"1/model.py": _PARTS},
    )


def write_all(repository: Path) -> None:
    """Writes all models; `echo` has two places in its queue."""
    write_model(
        repository,
        "echo",
        backend="python",
        inputs=[tensor("texts", "TYPE_STRING", [-1]), tensor("until", "TYPE_STRING", [1])],
        outputs=[tensor("response", "TYPE_STRING", [-1])],
        more=f"{ON_CPU}\ndynamic_batching {{ default_queue_policy {{ max_queue_size: 2 }} }}",
        files={"1/model.py": _ECHO},
    )
    write_detect(repository)
    sequences = "sequence_batching { oldest { max_candidate_sequences: 4 } }"
    write_detect(repository, "frames", CONFIG + sequences)
    of_bytes = CONFIG.replace("TYPE_STRING dims: [ 1 ]", "TYPE_UINT8 dims: [ -1 ]")
    without_batches = f"max_batch_size: {BATCH_LIMIT}", "max_batch_size: 0"
    write_detect(repository, "detect_bytes", of_bytes.replace(*without_batches))
    write_parts(repository)
    named = classifying_model.CONFIG.replace(
        "TYPE_FP32 dims: [ 3 ]", 'TYPE_FP32 dims: [ 3 ] label_filename: "names.txt"'
    )
    write_text(repository, "classify", named, classifying_model.MODEL)
    (repository / "classify" / "names.txt").write_text("hound\ncat\nfish\n")
