"""Models of the Python backend next to the compiled ones: equal responses, errors and configs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from tests.support import bad_jpegs, jpegs, sample_heads
from tests.triton.calls import grpc_inputs, infer, strings
from tests.triton.running_server import RunningServer, wait_for
from tests.triton.served_models import ANCHORS, HEADS, NUM_CLASSES

FILES = [jpegs.photo_jpeg(60 + 17 * i, 150 - 9 * i, seed=i) for i in range(4)]
HEAD = np.stack(
    [sample_heads.yolov8_head(seed, anchors=ANCHORS, num_classes=NUM_CLASSES) for seed in range(3)]
)
GEOMETRY = np.float32([[0.5, 0.6, 3 * i, 2, 900, 1000 - i, 1, 0] for i in range(3)])
LOGITS = np.float32([[1, 5, 2, -3, 0], [4, 4, 9, 8, -1]])
# One of each layout of inputs and outputs.
CASES: dict[str, dict[str, np.ndarray]] = {
    "pre": {"encoded": strings(FILES)},
    "pre_blank": {"encoded": strings([FILES[0], FILES[1][:700], b""])},
    "pre_bytes_single": {"encoded": np.frombuffer(FILES[1], np.uint8)},
    "post": {"head": HEAD, "geometry": GEOMETRY, "status": np.int32([[0], [1], [0]])},
    "seg_input": {**HEADS["seg_input"].tensors(3), "geometry": GEOMETRY},
    "obb": HEADS["obb"].tensors(3),
    "detections": {**HEADS["detections"].tensors(3), "geometry": GEOMETRY},
    "several_classes": {"logits": LOGITS, "status": np.int32([[0], [1]])},
}


@pytest.fixture(scope="module")
def server(server: RunningServer, python_models: None) -> RunningServer:
    server.load(*(f"{name}_python" for name in CASES))
    return server


@pytest.mark.parametrize("model", CASES)
def test_the_same_responses_bit_for_bit(server, client, model):
    compiled, python = (infer(client, model + kind, CASES[model]) for kind in ("", "_python"))
    assert sorted(compiled) == sorted(python)
    for name, array in compiled.items():
        assert (python[name].dtype, python[name].shape) == (array.dtype, array.shape)
        if array.dtype == np.object_:
            assert python[name].tolist() == array.tolist()
        else:
            assert python[name].tobytes() == array.tobytes(), name


@pytest.mark.parametrize("model", CASES)
def test_the_same_configs(server, model):
    compiled, python = server.config(model), server.config(f"{model}_python")
    assert python["backend"] == "python"
    for field in ("input", "output", "max_batch_size"):
        assert python[field] == compiled[field]


def describe_error(client: Any, model: str, tensors: dict[str, np.ndarray]) -> tuple[str, str]:
    with pytest.raises(InferenceServerException) as error:
        infer(client, model, tensors, request_id="both variants", sequence_id=7)
    return error.value.status(), error.value.message()


@pytest.mark.parametrize(
    ("model", "tensors"),
    [
        *(("pre", {"encoded": strings([FILES[0], b.data])}) for b in bad_jpegs.bad_files()[:3]),
        ("pre", {"encoded": np.zeros((1, 100), np.uint8)}),
        ("post", {"head": np.full_like(HEAD, np.nan)}),
        ("post", {"head": HEAD, "geometry": np.ones((2, 8), np.float32)}),
        ("post", {"head": HEAD, "status": np.zeros((2, 1), np.int32)}),
        ("several_classes", {"logits": np.full_like(LOGITS, np.nan)}),
    ],
)
def test_the_same_errors(server, client, model, tensors):
    compiled, python = (describe_error(client, model + kind, tensors) for kind in ("", "_python"))
    assert compiled == (python[0], python[1].replace(f"'{model}_python'", f"'{model}'"))


def test_the_same_log_line(server, client):
    describe_error(client, "pre_python", {"encoded": strings([FILES[0], b"none"])})
    line = wait_for(lambda: server.log_lines("model 'pre_python' version 1, request"))[-1]
    assert line.startswith("W")
    about = "request 'both variants', correlation id 7: corrupt_image: image index 1 of 2: "
    assert about in line


def test_cancelled_while_queued(server, client):
    """As test_requests.py does it for the compiled backends."""
    pending = "nv_inference_pending_request_count"
    slow = jpegs.encode(jpegs.photo(2000, 2000, seed=1), quality=60, progressive=True)
    server.load("pre_queue_python")

    def send(files: list[bytes], request_id: str) -> Any:
        tensors = grpc_inputs({"encoded": strings(files)})
        done = lambda *_: None  # noqa: E731
        return client.async_infer("pre_queue_python", tensors, done, request_id=request_id)

    def wait_for_pending(count: int) -> None:
        wait_for(lambda: server.metric(pending, model="pre_queue_python") == count)

    for request_id in ("keeps it busy", "next in line"):
        send([slow] * 8, request_id)
    wait_for_pending(1)
    waiting = [send(FILES[:1], f"python-{i}") for i in range(4)]
    wait_for_pending(5)
    for call in waiting:
        call.cancel()
    infer(client, "pre_queue_python", {"encoded": strings(FILES[:1])})  # comes behind all of them
    for i in range(4):
        (line,) = wait_for(lambda i=i: server.log_lines(f"'python-{i}'"))
        assert line.startswith("I")
        assert f"'python-{i}': the request was cancelled" in line
