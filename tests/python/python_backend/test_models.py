"""What Python-backend models are made of, as far as it needs no server."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import endcap
from endcap.python_backend.failures import (
    ModelCallError,
    code_name,
    code_name_of_message,
    describe,
    find_status,
)
from endcap.python_backend.postprocess_stage import PostprocessStage
from endcap.python_backend.requests import (
    encoded_files,
    get_input,
    ids_for_calls,
    request_label,
)
from endcap.triton.labels import Labels
from endcap.triton.parameters import parse_count, read_parameters
from endcap.triton.stage_settings import (
    complete_tensors,
    postprocess_settings,
    preprocess_settings,
)
from tests.support.sample_heads import seg_outputs
from tests.support.server_requests import StubRequest, run_stage

IDS = np.int32([[2, 0], [1, -1]])


@pytest.mark.parametrize("status", [each for each in endcap.Status if each is not each.OK])
def test_a_failure_reads_as_its_class_and_has_its_code(status: endcap.Status) -> None:
    error = endcap.errors.error_for_status(status, "the data is not a JPEG")
    assert find_status(error) == status
    others = {
        status.CUDA: "INTERNAL",
        status.INTERNAL: "INTERNAL",
        status.OUT_OF_MEMORY: "UNAVAILABLE",
    }
    assert code_name(error) == others.get(status, "INVALID_ARG")
    assert describe(error) == f"{status.label}: the data is not a JPEG"


def test_what_nobody_meant_is_internal_and_says_its_type() -> None:
    assert describe(KeyError("images")) == "internal: KeyError: 'images'"
    assert describe(RuntimeError()) == "internal: RuntimeError"
    assert describe(MemoryError("no room")) == "out_of_memory: MemoryError: no room"
    assert code_name(KeyError()) == "INTERNAL"


def test_a_composing_models_failure_is_passed_on_with_its_name() -> None:
    error = ModelCallError("classify", "corrupt_image: the data is not a JPEG", 3)
    assert describe(error) == "model 'classify': corrupt_image: the data is not a JPEG"
    assert error.code == 3


REFUSAL = "unavailable: 43 ms of work wait before this request, and max_queue_cost is 40 ms"


@pytest.mark.parametrize(
    ("message", "code", "status", "retry_after_s"),
    [
        (f"{REFUSAL}; retry after 22 ms", "UNAVAILABLE", "INTERNAL", 0.022),
        (f"in ensemble 'detect', {REFUSAL}; retry after 22 ms", "UNAVAILABLE", "INTERNAL", 0.022),
        (REFUSAL, "UNAVAILABLE", "INTERNAL", None),
        ("in ensemble 'detect', out_of_memory: no", "UNAVAILABLE", "OUT_OF_MEMORY", None),
        ("corrupt_image: no; retry after 5 ms", "INVALID_ARG", "CORRUPT_IMAGE", None),
        ("too bright; retry after 5 ms", None, "INTERNAL", None),
    ],
)
def test_what_a_composing_models_message_says(
    message: str, code: str | None, status: str, retry_after_s: float | None
) -> None:
    error = ModelCallError("detect", message, 3)
    assert code_name_of_message(message) == code
    assert error.status == endcap.Status[status]
    assert error.retry_after_s == retry_after_s


def test_parameters_that_are_not_known_are_named_with_those_that_are() -> None:
    config = {"parameters": {"sise": {"string_value": "640"}}}
    with pytest.raises(endcap.InvalidArgumentError, match=r"'sise' .*: there are threads, size"):
        read_parameters(config, ["threads", "size"])
    assert read_parameters({}, ["size"]) == {}
    assert read_parameters(config, ["sise"]) == {"sise": "640"}


@pytest.mark.parametrize(
    "text", ["", "-1", "+1", "1.0", " 1", "many", "2147483648", "1\n", "\u0663"]
)
def test_no_count(text: str) -> None:
    with pytest.raises(endcap.InvalidArgumentError, match=r"^threads is '"):
        parse_count("threads", text)


def test_a_count() -> None:
    assert [parse_count("threads", text) for text in ("0", "007", "2147483647")] == [
        0,
        7,
        2**31 - 1,
    ]


def preprocess_config(**parameters: str) -> dict[str, Any]:
    texts = {name: {"string_value": text} for name, text in parameters.items()}
    return {"name": "pre", "max_batch_size": 4, "input": [], "output": [], "parameters": texts}


def test_a_stages_tensors_are_completed_as_the_parameters_determine() -> None:
    """Parameters of the server itself are not the stage's."""
    config = preprocess_config(size="32", threads="2", EXECUTION_ENV_PATH="/env.tar.gz")
    settings = preprocess_settings(config)
    assert (settings.parameters, settings.threads) == ([("size", "32")], 2)
    complete_tensors(config, settings, complete=True)
    assert config["input"] == [{"name": "encoded", "data_type": "TYPE_STRING", "dims": [1]}]
    assert config["output"][0]["dims"] == [3, 32, 32]


def test_a_stage_refuses_what_the_compiled_backend_refuses() -> None:
    config = preprocess_config()
    config["input"] = [{"name": "image"}]
    with pytest.raises(endcap.InvalidArgumentError, match="has an input 'image': this model's are"):
        complete_tensors(config, preprocess_settings(config), complete=False)
    with pytest.raises(endcap.InvalidArgumentError, match="max_queue_cost is a parameter of the"):
        preprocess_settings(preprocess_config(max_queue_cost="20"))


@pytest.mark.parametrize("text", [b"a\nb\nc\n", b"a\r\nb\r\nc", b"a\nb\nc"])
def test_labels_by_class_id(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "l.txt").write_bytes(text)
    labels = Labels.read(tmp_path / "l.txt", 3, None)
    assert labels.look_up_names(IDS).tolist() == [[b"c", b"a"], [b"b", b""]]


def test_labels_that_are_paths(tmp_path: Path) -> None:
    (tmp_path / "l.txt").write_text("a/b\nc\nd/e/f")
    labels = Labels.read(tmp_path / "l.txt", 3, "/")
    assert labels.look_up_names(IDS).tolist() == [[b"f", b"b"], [b"c", b""]]
    assert labels.look_up_paths(IDS).tolist() == [[b"d/e/f", b"a/b"], [b"c", b""]]


def test_files_are_read_in_place() -> None:
    rows = np.arange(12, dtype=np.uint8).reshape(2, 6)
    files = encoded_files(StubRequest({"encoded": rows}, []), batched=True)
    assert [bytes(file) for file in files] == [bytes(row) for row in rows]
    assert all(np.shares_memory(file, rows) for file in files)
    empty = encoded_files(StubRequest({"encoded": rows[:, :0]}, []), batched=True)
    assert [bytes(file) for file in empty] == [b"", b""]


def test_heads_are_read_in_place_and_copied_where_they_are_not_aligned() -> None:
    head = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    stage = postprocess_stage(head="yolov8", num_classes="2")
    job = stage.prepare(StubRequest({"head": head}, []))
    assert np.shares_memory(job.head[0], head)
    shifted = np.frombuffer(b"\0" + head.tobytes(), np.uint8)[1:].view(np.float32).reshape(2, 3, 4)
    assert not shifted.flags.aligned
    job = stage.prepare(StubRequest({"head": shifted}, []))
    assert job.head[0].flags.aligned
    np.testing.assert_array_equal(job.head[0], head)


def test_what_is_not_there_is_named() -> None:
    with pytest.raises(endcap.InvalidArgumentError, match="input 'head' is missing in the request"):
        get_input(StubRequest({}, []), "head")


def test_inputs_that_differ_in_their_images() -> None:
    tensors = {"logits": np.zeros((2, 9, 3), np.float32), "boxes": np.zeros((1, 9, 4), np.float32)}
    with pytest.raises(endcap.InvalidArgumentError, match="differ in their batch dimension"):
        postprocess_stage(head="rtdetr", num_classes="3").prepare(StubRequest(tensors, []))


def segmentation() -> PostprocessStage:
    sizes = {"prototype_size": "40,80", "input_size": "160,320", "max_detections": "9"}
    return postprocess_stage(head="yolov8_seg", num_classes="2", mask_coefficients="8", **sizes)


def postprocess_stage(**given: str) -> PostprocessStage:
    parameters = {name: {"string_value": value} for name, value in given.items()}
    config = {"max_batch_size": 8, "parameters": parameters}
    return PostprocessStage(postprocess_settings(config, Path()), None)


def test_faults_in_unrequested_outputs_do_not_fail() -> None:
    made = seg_outputs(1, anchors=70, num_classes=2, size=(40, 80))
    good = {name: array[None] for name, array in made.items()}
    broken = {**good, "protos": np.full_like(good["protos"], np.nan)}
    stage = segmentation()
    boxes, masks = StubRequest(broken, ["num_detections"]), StubRequest(good, ["detection_rle"])
    without, with_masks = run_stage(stage, [boxes, masks])
    assert without["num_detections"][0, 0] > 3
    assert with_masks["detection_rle"][0, 0] != b""
    jobs = [stage.prepare(StubRequest(broken, ["detection_rle"])), stage.prepare(masks)]
    stage.run(jobs)
    with pytest.raises(endcap.InvalidArgumentError, match="mask logit"):
        stage.finish(jobs[0])
    np.testing.assert_array_equal(
        stage.finish(jobs[1])["detection_rle"], with_masks["detection_rle"]
    )


def test_requests_with_different_numbers_of_anchors_share_a_run() -> None:
    stage = segmentation()
    made = [seg_outputs(1, anchors=count, num_classes=2, size=(40, 80)) for count in (70, 50)]
    requests = [
        StubRequest({name: array[None] for name, array in each.items()}, ["detection_boxes"])
        for each in made
    ]
    together = run_stage(stage, requests)
    for response, request in zip(together, requests, strict=True):
        (alone,) = run_stage(stage, [request])
        np.testing.assert_array_equal(response["detection_boxes"], alone["detection_boxes"])


def test_long_ids_are_clipped() -> None:
    request = SimpleNamespace(request_id=lambda: "a" + "\u732b" * 90, correlation_id=lambda: 7)
    clipped = "a" + "\u732b" * 85 + "..."
    assert request_label(request) == f"request '{clipped}', correlation id 7"
    assert ids_for_calls(request) == {"request_id": clipped, "correlation_id": 7}
