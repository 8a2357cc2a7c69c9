"""endcap_preprocess: the response has what the Python package computes, whatever the request."""

from __future__ import annotations

import base64
import json
import struct
import urllib.error
import urllib.request

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

import endcap
from tests.support import bad_jpegs, jpegs
from tests.triton import raw_http
from tests.triton.calls import all_in_flight, infer, infer_http, strings
from tests.triton.running_server import RunningServer, rested, wait_for
from tests.triton.served_models import PREPROCESS, SIZE

FILES = [jpegs.photo_jpeg(60 + 17 * i, 150 - 9 * i, seed=i) for i in range(4)]
IN_FLIGHT = 32
CORRUPT = 13
# One of each class.
BAD_FILES = list({bad.status: bad for bad in bad_jpegs.bad_files()}.values())


def assert_same(response: dict[str, np.ndarray], expected: endcap.PreprocessResult) -> None:
    np.testing.assert_array_equal(response["images"], expected.images)
    np.testing.assert_array_equal(response["geometry"], expected.geometry)
    np.testing.assert_array_equal(response["status"], expected.status[:, None])


def expected_result(files: list[bytes], **fields: object) -> endcap.PreprocessResult:
    result = endcap.preprocess(files, **{**PREPROCESS, **fields})
    result.geometry[:, 7] = np.arange(len(files))  # the image's place in its request
    return result


def refusal(client, model: str, tensors: dict[str, np.ndarray]) -> str:
    with pytest.raises(InferenceServerException) as error:
        infer(client, model, tensors)
    assert error.value.status() == "StatusCode.INVALID_ARGUMENT", error.value
    return str(error.value.message())


def test_batch_inside_one_request(server, client, web_client):
    tensors = {"encoded": strings(FILES)}
    whole = infer(client, "pre", tensors)
    assert_same(whole, expected_result(FILES))
    assert_same(infer_http(web_client, "pre", tensors), expected_result(FILES))
    for name, array in whole.items():
        response = infer(client, "pre", tensors, outputs=[name])
        assert list(response) == [name]
        np.testing.assert_array_equal(response[name], array)


def test_http_body_that_was_compressed(server, web_client):
    # The server unpacks a large body into several buffers.
    files = [jpegs.photo_jpeg(700, 900, seed=i, quality=98) for i in range(2)]
    assert sum(map(len, files)) > 500_000
    response = infer_http(
        web_client, "pre", {"encoded": strings(files)}, request_compression_algorithm="gzip"
    )
    assert_same(response, expected_result(files))


@pytest.mark.parametrize(
    ("model", "data_type", "chunk_bytes"),
    # Not smaller for BYTES: the server itself refuses a length prefix that is cut.
    [("pre", "BYTES", 1000), ("pre_bytes_single", "UINT8", 7)],
)
def test_http_body_in_chunks(server, model, data_type, chunk_bytes):
    if data_type == "BYTES":
        files, data, shape = FILES, raw_http.bytes_tensor(FILES), [len(FILES), 1]
    else:
        files, data, shape = FILES[2:3], FILES[2], [len(FILES[2])]
    encoded = [raw_http.RawTensor("encoded", data_type, shape, data)]
    status, body, json_bytes = raw_http.post(server.http, model, encoded, chunk_bytes=chunk_bytes)
    assert status == 200, body
    images = raw_http.to_arrays(body, json_bytes)["images"]
    np.testing.assert_array_equal(images.reshape(-1, 3, *SIZE), expected_result(files).images)


def test_models_without_batches(server, client):
    response = infer(client, "pre_single", {"encoded": strings(FILES[:1], batched=False)})
    expected = expected_result(FILES[:1])
    assert response["images"].shape == (3, *SIZE)
    assert_same({name: array[None] for name, array in response.items()}, expected)
    encoded = np.frombuffer(FILES[0], np.uint8)
    response = infer(client, "pre_bytes_single", {"encoded": encoded})
    assert_same({name: array[None] for name, array in response.items()}, expected)


def test_bytes_input_holds_one_file_a_row(server, client):
    length = max(map(len, FILES))
    # What follows a file's end marker is not part of the image.
    rows = np.stack([np.frombuffer(file.ljust(length, b"\0"), np.uint8) for file in FILES])
    assert_same(infer(client, "pre_bytes", {"encoded": rows}), expected_result(FILES))


def test_model_that_has_some_of_the_outputs(server, client):
    response = infer(client, "pre_subset", {"encoded": strings(FILES)})
    assert list(response) == ["geometry"]
    np.testing.assert_array_equal(response["geometry"], expected_result(FILES).geometry)


def test_blank_returns_zeros_and_a_status(server, client):
    files = [FILES[0], FILES[1][: len(FILES[1]) // 2], b"", FILES[3]]
    response = infer(client, "pre_blank", {"encoded": strings(files)})
    assert_same(response, expected_result(files, on_error="blank"))
    corrupt = int(endcap.Status.CORRUPT_IMAGE)
    assert response["status"][:, 0].tolist() == [0, corrupt, corrupt, 0]
    assert not response["images"][1:3].any()


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", BAD_FILES, ids=str)
def test_a_bad_file_fails_its_request_and_is_named_by_its_place(server, client, bad):
    encoded = strings([FILES[0], bad.data, b""])
    assert refusal(client, "pre", {"encoded": encoded}).startswith(
        f"{bad.status.label}: image index 1 of 3: "
    )
    tensor = raw_http.RawTensor("encoded", "BYTES", [1, 1], raw_http.bytes_tensor([bad.data]))
    status, body, _ = raw_http.post(server.http, "pre", [tensor])
    assert status == 400
    assert json.loads(body)["error"].startswith(f"{bad.status.label}: ")


def test_what_a_header_claims_is_not_allocated(server: RunningServer, client):
    infer(client, "pre_queue", {"encoded": strings(FILES[:1])})
    before = server.resident_bytes()
    bomb = bad_jpegs.bomb(64250, 64250)
    assert len(bomb) < 6000
    for _ in range(8):
        refusal(client, "pre_queue", {"encoded": strings([bomb])})
    # 64250 x 64250 RGB would be 12 GB; the margin is what the server itself may take meanwhile.
    assert server.peak_resident_bytes() - before < 100_000_000


@pytest.mark.parametrize(
    ("model", "tensors"),
    [
        ("pre", {"encoded": np.zeros((1, 100), np.uint8)}),
        ("pre", {"encoded": strings([b"a", b"b"]).reshape(1, 2)}),
        ("pre", {"encoded": strings([b"a"]).reshape(1)}),
        ("pre", {"image": strings([b"a"])}),
        ("pre_bytes_single", {"encoded": np.zeros((2, 100), np.uint8)}),
    ],
)
def test_wrong_shape_dtype_or_name(server, client, model, tensors):
    message = refusal(client, model, tensors)
    assert any(name in message for name in tensors), message


@pytest.mark.parametrize(
    ("encoded", "count"),
    [
        (struct.pack("<I", 1000) + b"\xff\xd8", 1),
        (struct.pack("<I", 0xFFFFFFFF) + b"\xff\xd8", 1),
        (b"\xff\xd8", 1),
        (raw_http.bytes_tensor([b"one", b"two"]), 1),
        (raw_http.bytes_tensor([b"one"]), 2),
        (raw_http.bytes_tensor([b"one"]) + b"\0\0", 1),
    ],
    ids=["prefix_past_the_end", "largest_prefix", "no_prefix", "one_more", "one_less", "rest"],
)
@pytest.mark.parametrize("chunk_bytes", [None, 3])
def test_malformed_string_tensor(server, encoded, count, chunk_bytes):
    tensor = raw_http.RawTensor("encoded", "BYTES", [count, 1], encoded)
    status, body, _ = raw_http.post(server.http, "pre", [tensor], chunk_bytes=chunk_bytes)
    assert status == 400
    assert "'encoded'" in json.loads(body)["error"]


def test_text_in_json_is_base64_or_no_image(server):
    def post(text: str) -> dict[str, object]:
        tensor = {"name": "encoded", "datatype": "BYTES", "shape": [1, 1], "data": [text]}
        url, body = f"http://{server.http}/v2/models/pre/infer", json.dumps({"inputs": [tensor]})
        with urllib.request.urlopen(url, body.encode(), timeout=10) as response:
            return {output["name"]: output["data"] for output in json.load(response)["outputs"]}

    outputs = post(base64.b64encode(FILES[0]).decode())
    expected = expected_result(FILES[:1])
    np.testing.assert_array_equal(np.float32(outputs["images"]), expected.images.ravel())
    np.testing.assert_array_equal(np.float32(outputs["geometry"]), expected.geometry.ravel())
    with pytest.raises(urllib.error.HTTPError) as failure:
        post("x")
    with failure.value as response:
        assert response.code == 400
        assert "corrupt_image: " in json.loads(response.read())["error"]


# --- requests that come together ------------------------------------------------------------------


@pytest.mark.parametrize("model", ["pre", "pre_python"])
def test_32_requests_in_flight_with_one_corrupt(server, client, request, model):
    """Each gets its own result, also where the model takes them together."""
    if model == "pre_python":
        request.getfixturevalue("python_models")
        server.load(model)
    files = [jpegs.photo_jpeg(40 + 13 * i, 300 - 7 * i, seed=i) for i in range(IN_FLIGHT)]
    files[CORRUPT] = files[CORRUPT][: len(files[CORRUPT]) // 2]

    def counts() -> tuple[int, int]:
        statistics = server.statistics(model)
        return statistics["inference_count"], statistics["execution_count"]

    inferences, executions = rested(counts)
    responses = all_in_flight(client, model, [{"encoded": strings([file])} for file in files])
    # The server's Python backend counts requests with an error as their response as well.
    counted = IN_FLIGHT if model == "pre_python" else IN_FLIGHT - 1
    wait_for(lambda: counts()[0] - inferences == counted)
    if model == "pre_python":
        assert counts()[1] - executions < counted
    else:  # the compiled backend takes batches apart, for its threads
        wait_for(lambda: counts()[1] - executions == IN_FLIGHT)

    error = responses.pop(CORRUPT)
    assert isinstance(error, InferenceServerException)
    assert error.status() == "StatusCode.INVALID_ARGUMENT"
    assert error.message().startswith("corrupt_image: ")
    del files[CORRUPT]
    for file, response in zip(files, responses, strict=True):
        assert isinstance(response, dict), response
        assert_same(response, expected_result([file]))


def test_requests_of_several_images_share_a_batch(server, client):
    cut = FILES[1][: len(FILES[1]) // 2]
    groups = [[FILES[0], cut], FILES[:2], [cut], FILES[1:]]
    responses = all_in_flight(client, "pre", [{"encoded": strings(group)} for group in groups])
    assert "image index 1 of 2: " in str(responses[0])
    assert isinstance(responses[2], InferenceServerException)
    for group, response in ((groups[1], responses[1]), (groups[3], responses[3])):
        assert isinstance(response, dict), response
        assert_same(response, expected_result(group))
