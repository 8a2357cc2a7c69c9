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
from tests.support import jpegs
from tests.triton import raw_http
from tests.triton.calls import infer, infer_http, strings
from tests.triton.served_models import PREPROCESS, SIZE

pytestmark = pytest.mark.both_variants

FILES = [jpegs.photo_jpeg(60 + 17 * i, 150 - 9 * i, seed=i) for i in range(4)]


def encoded_tensor(
    data: bytes, *, shape: list[int], data_type: str = "BYTES"
) -> list[raw_http.RawTensor]:
    return [raw_http.RawTensor("encoded", data_type, shape, data)]


def assert_same(response: dict[str, np.ndarray], expected: endcap.PreprocessResult) -> None:
    np.testing.assert_array_equal(response["images"], expected.images)
    np.testing.assert_array_equal(response["geometry"], expected.geometry)
    np.testing.assert_array_equal(response["status"], expected.status[:, None])


def expected_of(files: list[bytes], **fields: object) -> endcap.PreprocessResult:
    result = endcap.preprocess(files, **{**PREPROCESS, **fields})
    result.geometry[:, 7] = np.arange(len(files))  # the image's place in its request
    return result


def test_batch_inside_one_request(client):
    assert_same(infer(client, "pre", {"encoded": strings(FILES)}), expected_of(FILES))


def test_http_with_binary_tensors(web_client):
    response = infer_http(web_client, "pre", {"encoded": strings(FILES)})
    assert_same(response, expected_of(FILES))


@pytest.mark.parametrize("compression", ["gzip", "deflate"])
def test_http_body_that_was_compressed(web_client, compression):
    # The server unpacks a large body into several buffers.
    files = [jpegs.photo_jpeg(700, 900, seed=i, quality=98) for i in range(2)]
    assert sum(map(len, files)) > 500_000
    response = infer_http(
        web_client, "pre", {"encoded": strings(files)}, request_compression_algorithm=compression
    )
    assert_same(response, expected_of(files))


@pytest.mark.parametrize("chunk_bytes", [1000, 4096])
def test_http_body_in_chunks(server, chunk_bytes):
    # Not smaller: the server itself refuses a length prefix that is cut.
    encoded = encoded_tensor(raw_http.bytes_tensor(FILES), shape=[len(FILES), 1])
    status, body, json_bytes = raw_http.post(server.http, "pre", encoded, chunk_bytes=chunk_bytes)
    assert status == 200, body
    assert_same(raw_http.to_arrays(body, json_bytes), expected_of(FILES))


def test_bytes_input_over_http_in_small_chunks(server):
    encoded = encoded_tensor(FILES[2], shape=[len(FILES[2])], data_type="UINT8")
    status, body, json_bytes = raw_http.post(
        server.http, "pre_bytes_single", encoded, chunk_bytes=7
    )
    assert status == 200, body
    images = raw_http.to_arrays(body, json_bytes)["images"]
    np.testing.assert_array_equal(images, expected_of(FILES[2:3]).images[0])


def test_text_in_json_is_no_image(server):
    body = {"inputs": [{"name": "encoded", "shape": [1, 1], "datatype": "BYTES", "data": ["x"]}]}
    request = urllib.request.Request(
        f"http://{server.http}/v2/models/pre/infer", data=json.dumps(body).encode()
    )
    with pytest.raises(urllib.error.HTTPError) as failure:
        urllib.request.urlopen(request, timeout=10)
    with failure.value as response:
        assert response.code == 400
        assert "corrupt_image: " in json.loads(response.read())["error"]


def test_model_without_batches(client):
    response = infer(client, "pre_single", {"encoded": strings(FILES[:1], batched=False)})
    expected = expected_of(FILES[:1])
    assert response["images"].shape == (3, *SIZE)
    assert response["geometry"].shape == (8,)
    assert response["status"].shape == (1,)
    assert_same({name: array[None] for name, array in response.items()}, expected)


def test_bytes_input_without_batches(client):
    encoded = np.frombuffer(FILES[1], np.uint8)
    response = infer(client, "pre_bytes_single", {"encoded": encoded})
    np.testing.assert_array_equal(response["images"], expected_of(FILES[1:2]).images[0])


def test_bytes_input_holds_one_file_a_row(client):
    length = max(map(len, FILES))
    # What follows a file's end marker is no part of the image.
    rows = np.stack([np.frombuffer(file.ljust(length, b"\0"), np.uint8) for file in FILES])
    assert_same(infer(client, "pre_bytes", {"encoded": rows}), expected_of(FILES))


@pytest.mark.parametrize("wanted", ["images", "geometry", "status"])
def test_only_the_outputs_that_were_requested(client, wanted):
    response = infer(client, "pre", {"encoded": strings(FILES)}, outputs=[wanted])
    assert list(response) == [wanted]
    all_of_them = infer(client, "pre", {"encoded": strings(FILES)})
    np.testing.assert_array_equal(response[wanted], all_of_them[wanted])


def test_model_that_has_some_of_the_outputs(client):
    response = infer(client, "pre_subset", {"encoded": strings(FILES)})
    assert list(response) == ["geometry"]
    np.testing.assert_array_equal(response["geometry"], expected_of(FILES).geometry)


def test_other_layout_and_dtype(client):
    response = infer(client, "pre_uint8", {"encoded": strings(FILES)})
    expected = expected_of(FILES, dtype="uint8", layout="nhwc", color="gray")
    assert response["images"].dtype == np.uint8
    assert_same(response, expected)


def test_blank_returns_zeros_and_a_status(client):
    files = [FILES[0], FILES[1][: len(FILES[1]) // 2], b"", FILES[3]]
    response = infer(client, "pre_blank", {"encoded": strings(files)})
    expected = expected_of(files, on_error="blank")
    assert_same(response, expected)
    corrupt = int(endcap.Status.CORRUPT_IMAGE)
    np.testing.assert_array_equal(response["status"][:, 0], [0, corrupt, corrupt, 0])
    assert not response["images"][1:3].any()
    np.testing.assert_array_equal(response["images"][3], expected_of(FILES).images[3])


def test_a_bad_image_is_named_by_its_place(client):
    with pytest.raises(
        InferenceServerException, match=r"corrupt_image: image index 1 of 3: "
    ) as error:
        infer(client, "pre", {"encoded": strings([FILES[0], b"no picture", b""])})
    assert error.value.status() == "StatusCode.INVALID_ARGUMENT"


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
def test_string_tensor_that_is_not_what_it_claims(server, encoded, count, chunk_bytes):
    tensors = encoded_tensor(encoded, shape=[count, 1])
    status, body, _ = raw_http.post(server.http, "pre", tensors, chunk_bytes=chunk_bytes)
    assert status == 400
    assert "'encoded'" in json.loads(body)["error"]


def test_base64_text_in_json(server):
    text = base64.b64encode(FILES[0]).decode()
    tensor = {"name": "encoded", "datatype": "BYTES", "shape": [1, 1], "data": [text]}
    with urllib.request.urlopen(
        f"http://{server.http}/v2/models/pre/infer", json.dumps({"inputs": [tensor]}).encode()
    ) as response:
        outputs = {output["name"]: output for output in json.load(response)["outputs"]}
    arrays = {
        name: np.array(output["data"], np.int32 if name == "status" else np.float32).reshape(
            output["shape"]
        )
        for name, output in outputs.items()
    }
    assert_same(arrays, expected_of(FILES[:1]))
