"""Models of the Python backend beside the compiled ones: nobody can tell the two apart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
from tritonclient.utils import InferenceServerException

from tests.support import bad_jpegs, jpegs, sample_heads
from tests.triton.calls import grpc_inputs, infer, strings
from tests.triton.running_server import RunningServer, wait_for
from tests.triton.served_models import ANCHORS, NUM_CLASSES

FILES = [jpegs.photo_jpeg(60 + 17 * i, 150 - 9 * i, seed=i) for i in range(4)]
HEADS = np.stack(
    [sample_heads.yolov8_head(seed, anchors=ANCHORS, num_classes=NUM_CLASSES) for seed in range(3)]
)
GEOMETRY = np.float32([[0.5, 0.6, 3 * i, 2, 900, 1000 - i, 1, 0] for i in range(3)])
LOGITS = np.float32([[1, 5, 2, -3, 0], [4, 4, 9, 8, -1]])
FILE = strings(FILES[:1], batched=False)
ROIS = np.float32([[10, 20, 60, 40], [0, 0, 90, 50]])
# Probabilities, which test_classification.py holds to a tolerance; all else is held to the package.
CASES: dict[str, dict[str, np.ndarray]] = {
    "classes": {"logits": LOGITS},
    "several_classes": {"logits": LOGITS, "status": np.int32([[0], [1]])},
}


@pytest.fixture(scope="module")
def clients(
    compiled_server: RunningServer, python_server: RunningServer
) -> Iterator[list[grpc_client.InferenceServerClient]]:
    with (
        grpc_client.InferenceServerClient(compiled_server.grpc) as compiled,
        grpc_client.InferenceServerClient(python_server.grpc) as python,
    ):
        yield [compiled, python]


@pytest.mark.parametrize("model", CASES)
def test_the_same_responses_bit_for_bit(clients, model):
    compiled, python = (infer(client, model, CASES[model]) for client in clients)
    assert sorted(compiled) == sorted(python)
    for name, array in compiled.items():
        assert python[name].dtype == array.dtype
        assert python[name].shape == array.shape
        if array.dtype == np.object_:
            assert python[name].tolist() == array.tolist()
        else:
            assert python[name].tobytes() == array.tobytes(), name


def test_the_same_configs(compiled_server: RunningServer, python_server: RunningServer):
    names = [name for name in python_server.index() if "ensemble" not in name]
    assert len(names) > 20
    for name in names:
        compiled, python = compiled_server.config(name), python_server.config(name)
        assert python["backend"] in ("python", "")  # "": an ensemble
        for field in ("input", "output", "max_batch_size"):
            assert python[field] == compiled[field], name


def message_of(client: Any, model: str, tensors: dict[str, np.ndarray]) -> tuple[str, str]:
    with pytest.raises(InferenceServerException) as error:
        infer(client, model, tensors)
    return error.value.status(), error.value.message()


@pytest.mark.parametrize("bad", bad_jpegs.bad_files(), ids=str)
def test_the_same_words_for_a_bad_file(clients, bad):
    tensors = {"encoded": strings([FILES[0], bad.data, FILES[1]])}
    compiled, python = (message_of(client, "pre", tensors) for client in clients)
    assert python == compiled
    assert re.match(r"\w+: image index 1 of 3: ", python[1])


@pytest.mark.parametrize(
    ("model", "tensors"),
    [
        ("post", {"head": np.full_like(HEADS, np.nan)}),
        ("post", {"head": HEADS, "geometry": np.full((3, 8), np.nan, np.float32)}),
        ("post", {"head": HEADS, "geometry": np.ones((2, 8), np.float32)}),
        ("post", {"head": HEADS, "status": np.zeros((2, 1), np.int32)}),
        ("classes", {"logits": np.full_like(LOGITS, np.inf)}),
        ("rois", {"encoded": FILE, "rois": ROIS + 500}),
        (
            "rois",
            {"encoded": strings(FILES[:1], batched=False), "rois": np.resize(ROIS, (1001, 4))},
        ),
        ("rois", {"encoded": strings([b"none"], batched=False), "rois": ROIS}),
    ],
)
def test_the_same_words_for_bad_tensors(clients, model, tensors):
    compiled, python = (message_of(client, model, tensors) for client in clients)
    assert python == compiled


def test_the_same_log_line(compiled_server: RunningServer, python_server: RunningServer, clients):
    lines = []
    for server, client in zip((compiled_server, python_server), clients, strict=True):
        tensors = grpc_inputs({"encoded": strings([FILES[0], b"none"])})
        with pytest.raises(InferenceServerException):
            client.infer("pre", tensors, request_id="both-variants", sequence_id=7)
        (line,) = wait_for(lambda server=server: server.log_lines("'both-variants'"))
        assert line.startswith("W")
        lines.append(line[line.index("model '") :])
    assert lines[0] == lines[1]


def test_cancelled_while_queued(python_server: RunningServer, clients):
    """As test_cancellation.py does it for the compiled backends."""
    client, pending = clients[1], "nv_inference_pending_request_count"
    slow = jpegs.encode(jpegs.photo(2000, 2000, seed=1), quality=60, progressive=True)

    def send(files: list[bytes], request_id: str) -> Any:
        tensors = grpc_inputs({"encoded": strings(files)})
        return client.async_infer("pre_queue", tensors, lambda *_: None, request_id=request_id)

    def wait_for_pending(count: int) -> None:
        wait_for(lambda: python_server.metric(pending, model="pre_queue") == count)

    send([slow] * 16, "keeps-it-busy")
    send([slow] * 16, "next-in-line")
    wait_for_pending(1)
    waiting = [send(FILES[:1], f"given-up-{i}") for i in range(4)]
    wait_for_pending(5)
    for call in waiting:
        call.cancel()
    infer(client, "pre_queue", {"encoded": strings(FILES[:1])})  # comes behind all of them
    for i in range(4):
        (line,) = wait_for(lambda i=i: python_server.log_lines(f"'given-up-{i}'"))
        assert line.startswith("I")
        assert f"'given-up-{i}': the request was cancelled" in line
