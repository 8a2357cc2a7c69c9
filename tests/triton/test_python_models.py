"""Models of the Python backend beside the compiled ones: nobody can tell the two apart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import bad_jpegs
import jpegs
import numpy as np
import pytest
import sample_heads
import tritonclient.grpc as grpc_client
from bad_configs import BAD
from calls import grpc_inputs, infer, strings
from model_folders import tensor, write_postprocess, write_preprocess
from running_server import RunningServer, run_server, wait_for
from served_models import ANCHORS, NUM_CLASSES
from tritonclient.utils import InferenceServerException

FILES = [jpegs.photo_jpeg(60 + 17 * i, 150 - 9 * i, seed=i) for i in range(4)]
HEADS = np.stack(
    [sample_heads.yolov8_head(seed, anchors=ANCHORS, num_classes=NUM_CLASSES) for seed in range(3)]
)
GEOMETRY = np.float32([[0.5, 0.6, 3 * i, 2, 900, 1000 - i, 1, 0] for i in range(3)])
LOGITS = np.float32([[1, 5, 2, -3, 0], [4, 4, 9, 8, -1]])
ROIS = np.float32([[10, 20, 60, 40], [0, 0, 90, 50]])
CASES: dict[str, dict[str, np.ndarray]] = {
    "pre": {"encoded": strings(FILES)},
    "pre_single": {"encoded": strings(FILES[:1], batched=False)},
    "pre_uint8": {"encoded": strings(FILES)},
    "pre_bytes_single": {"encoded": np.frombuffer(FILES[1], np.uint8)},
    "pre_blank": {"encoded": strings([FILES[0], b"", FILES[1][:900], FILES[3]])},
    "post": {"head": HEADS, "geometry": GEOMETRY, "status": np.int32([[0], [2], [0]])},
    "post_single": {"head": HEADS[0], "status": np.int32([0])},
    "post_half": {
        "head": HEADS.astype(np.float16),
        "geometry": GEOMETRY,
        "status": np.int32([[0], [0], [3]]),
    },
    "post_efficient_nms": {
        name: array[None] for name, array in sample_heads.efficient_nms_outputs(4, rows=20).items()
    },
    "classes": {"logits": LOGITS},
    "several_classes": {"logits": LOGITS, "status": np.int32([[0], [1]])},
    "rois": {"encoded": strings(FILES[:1], batched=False), "rois": ROIS},
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
        ("rois", {"encoded": CASES["rois"]["encoded"], "rois": ROIS + 500}),
        ("rois", {"encoded": CASES["rois"]["encoded"], "rois": np.resize(ROIS, (1001, 4))}),
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


# One of each kind; test_python_settings.py has all of them.
REFUSED = ("unknown_parameter", "impossible_pad", "images_of_other_size", "batches_of_rois")
REFUSED_POSTPROCESS = ("no_head", "labels_file_is_missing", "head_is_missing")


@pytest.fixture(scope="module")
def mixed_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Models that do not load, and one that does."""
    repository = tmp_path_factory.mktemp("refused")
    for name in REFUSED:
        write_preprocess(repository, name, variant="python", max_batch_size=4, **BAD[name][0])
    for name in REFUSED_POSTPROCESS:
        write_postprocess(repository, name, variant="python", max_batch_size=4, **BAD[name][0])
    encoded = tensor("encoded", "TYPE_STRING", [1])
    write_preprocess(repository, "good", variant="python", max_batch_size=4, inputs=[encoded])
    with run_server(repository) as server:
        yield server


@pytest.mark.parametrize("name", REFUSED + REFUSED_POSTPROCESS)
def test_a_load_fails_with_an_error_message(mixed_server: RunningServer, name: str):
    model = mixed_server.index()[name]
    assert model["state"] == "UNAVAILABLE"
    for text in BAD[name][1]:
        assert text in model["reason"]


def test_a_good_model_is_served_beside_them(mixed_server: RunningServer):
    with grpc_client.InferenceServerClient(mixed_server.grpc) as client:
        response = infer(client, "good", {"encoded": strings(FILES[:2])}, outputs=["status"])
    assert response["status"].tolist() == [[0], [0]]
