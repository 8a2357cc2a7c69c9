"""The shipped cascade: what calling the models by hand gives, picture by picture."""

from __future__ import annotations

import json
import os
import queue
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
from PIL import Image, ImageDraw
from tritonclient.http import InferenceServerClient as HttpClient

from tests.support import jpegs
from tests.support.damage import SHIPPED
from tests.support.tolerances import SERVED_BOX_PIXELS, SERVED_SCORE
from tests.triton import raw_http
from tests.triton.calls import Arrays, grpc_inputs, infer, infer_http, strings, to_arrays
from tests.triton.cascade_models import CASCADE
from tests.triton.cascade_steps import by_hand
from tests.triton.commands import endcap
from tests.triton.running_server import RunningServer, wait_for

SAMPLES = sorted((SHIPPED / "detect" / "samples").glob("*.jpg"))
RED = (220, 20, 30)


def shapes(count: int) -> bytes:
    """A JPEG file with so many circles and squares, far apart, on plain gray; the first is red."""
    image = Image.new("RGB", (960, 800), (140, 140, 140))
    draw = ImageDraw.Draw(image)
    colours = [RED, (20, 40, 220), (20, 160, 40), (250, 240, 30), (20, 20, 20)]
    for i in range(count):
        left, top = 40 + 155 * (i % 6), 45 + 150 * (i // 6)
        box = (left, top, left + 90, top + 90)
        colour = colours[i % len(colours)]
        draw.ellipse(box, fill=colour) if i % 2 else draw.rectangle(box, fill=colour)
    return jpegs.encode(np.asarray(image), quality=95)


def assert_same(response: Mapping[str, np.ndarray], expected: Arrays) -> None:
    tolerances = {"detection_boxes": SERVED_BOX_PIXELS}
    assert response.keys() == expected.keys()
    for name, values in expected.items():
        assert response[name].dtype == values.dtype
        if values.dtype == np.float32:
            tolerance = tolerances.get(name, SERVED_SCORE)
            np.testing.assert_allclose(response[name], values, rtol=0, atol=tolerance)
        else:
            np.testing.assert_array_equal(response[name], values)


@pytest.mark.parametrize("count", [0, 1, 30])
def test_numbers_of_detections(cascades, count):
    files = [shapes(count)]
    response = infer(cascades, CASCADE, {"encoded": strings(files)})
    assert response["num_detections"].tolist() == [[count]]
    assert (response["class_ids"] != -1).sum() == count
    assert_same(response, by_hand(cascades, files))
    if count == 1:
        assert response["class_labels"][0, 0] == b"red"


@pytest.mark.parametrize("over_http", [False, True])
def test_a_batch_of_samples(cascades, cascade_server, over_http):
    files = [shapes(0), *(path.read_bytes() for path in SAMPLES[:5]), shapes(1)]
    inputs = {"encoded": strings(files)}
    if over_http:
        with HttpClient(cascade_server.http) as client:
            response = infer_http(client, CASCADE, inputs)
    else:
        response = infer(cascades, CASCADE, inputs)
    expected = by_hand(cascades, files)
    assert (expected["class_ids"] != -1).sum() > 20
    assert_same(response, expected)


@pytest.mark.parametrize("model", [CASCADE, "detect_bls"])
def test_eight_clients_at_once(cascades, cascade_server, model):
    files = [shapes(count) for count in (0, 1, 5, 30)] + [p.read_bytes() for p in SAMPLES[:4]]
    expected = [by_hand(cascades, [file]) for file in files]

    def send_request(index: int) -> None:
        with grpc_client.InferenceServerClient(cascade_server.grpc) as client:
            for turn in range(2):
                own = (index + turn) % len(files)
                response = infer(client, model, {"encoded": strings([files[own]])})
                wanted = {name: expected[own][name] for name in response}
                assert_same(response, wanted)

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(send_request, index) for index in range(8)]:
            done.result()


@pytest.mark.parametrize("model", [CASCADE, "detect_bls"])
def test_a_bad_image_fails_its_request_and_no_other(cascade_server, model):
    good, bad = strings([shapes(5)]), strings([b"no picture"])
    responses: queue.Queue[tuple[int, object, object]] = queue.Queue()
    with grpc_client.InferenceServerClient(cascade_server.grpc) as client:
        for index, encoded in enumerate([good, bad, good, good]):
            client.async_infer(
                model,
                grpc_inputs({"encoded": encoded}),
                callback=lambda result, error, index=index: responses.put((index, result, error)),
                request_id=f"{model}-{index}",
            )
        for _ in range(4):
            index, result, error = responses.get(timeout=30)
            if index == 1:
                assert error.status() == "StatusCode.INVALID_ARGUMENT"
                inner = "preprocess" if model == "detect_bls" else "detect"
                assert error.message().startswith(f"model '{inner}': ")
                assert "corrupt_image: the data is not an image" in error.message()
            else:
                assert to_arrays(result)["num_detections"].tolist() == [[5]]
    wait_for(lambda: logged(cascade_server, model, f"{model}-1"))


@pytest.mark.parametrize("model", [CASCADE, "detect_bls"])
def test_a_request_whose_id_is_no_text(cascade_server, model):
    encoded = raw_http.RawTensor("encoded", "BYTES", [1, 1], raw_http.bytes_tensor([shapes(5)]))
    status, body, json_bytes = raw_http.post(
        cascade_server.http, model, [encoded], request_id=os.fsdecode(b"\xff")
    )
    assert status == 200, body
    response = raw_http.to_arrays(body.replace(b"\xff", b"?", 1), json_bytes)
    assert response["num_detections"].tolist() == [[5]]


def logged(server: RunningServer, model: str, request_id: str) -> list[str]:
    return server.log_lines(f"model '{model}' version 1, request '{request_id}': ")


@pytest.mark.parametrize("model", ["detect_bls", "detect_python"])
def test_python_models_respond_as_the_compiled_ones(cascades, model):
    encoded = strings([path.read_bytes() for path in SAMPLES])
    response = infer(cascades, model, {"encoded": encoded})
    expected = infer(cascades, "detect", {"encoded": encoded})
    assert expected["num_detections"].all()
    assert response.keys() == expected.keys()
    for name, values in expected.items():
        assert response[name].tobytes() == values.tobytes(), name


def test_endcap_infer_tells_the_class_of_each_detection(cascades, cascade_server, tmp_path):
    file = tmp_path / "shapes.jpg"
    file.write_bytes(shapes(5))
    done = endcap("infer", file, "--url", cascade_server.grpc, "--model", CASCADE, "--json")
    assert done.returncode == 0, done.stderr
    (response,) = json.loads(done.stdout)
    expected = by_hand(cascades, [shapes(5)])
    assert len(response["detections"]) == 5
    for r, row in enumerate(response["detections"]):
        assert row["label"] in ("circle", "square")
        assert row["classification"]["class_id"] == expected["class_ids"][0, r]
        assert row["classification"]["label"] == expected["class_labels"][0, r].decode()
