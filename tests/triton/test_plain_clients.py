"""Requests by the plain tritonclient: streams to `detect`, and those of NVIDIA's image clients.

image_client and ensemble_image_client require a classifier of pixels, and an ensemble around it.
The programs of examples/ send batches, and files in shared memory (test_examples.py).
"""

from __future__ import annotations

import io
import queue
from types import ModuleType
from typing import Any

import numpy as np
import onnxruntime
import pytest
import tritonclient.grpc as grpc_client
import tritonclient.http as http_client
from PIL import Image

import endcap
from tests.support.onnx_heads import network
from tests.support.tolerances import SHARE_TEXT
from tests.triton.calls import make_inputs, strings
from tests.triton.model_folders import tensor, write_ensemble, write_preprocess
from tests.triton.onnx_models import write_network
from tests.triton.plain_calls import SHIPPED, assert_close, detect_in_python
from tests.triton.running_server import RunningServer

PICTURES = [
    (SHIPPED / "detect" / "samples" / name).read_bytes()
    for name in ("shapes_320x240.jpg", "shapes_512x600.jpg", "shapes_600x800_exif6.jpg")
]


def test_a_stream_goes_on_after_a_bad_picture(compiled_server: RunningServer) -> None:
    """`detect` has no state: the flags of a sequence do not change its responses."""
    compiled_server.load("detect")
    responses: queue.Queue[tuple[Any, Any]] = queue.Queue()
    files = [PICTURES[0], b"no picture", *PICTURES[1:]]
    with grpc_client.InferenceServerClient(compiled_server.grpc) as client:
        client.start_stream(callback=lambda result, error: responses.put((result, error)))
        for index, file in enumerate(files):
            client.async_stream_infer(
                "detect",
                make_inputs(grpc_client, {"encoded": strings([file])}),
                request_id=str(index),
                sequence_id=7,
                sequence_start=index == 0,
                sequence_end=index == len(files) - 1,
            )
        results = [responses.get(timeout=30) for _ in files]
        client.stop_stream()
    (error,) = [error for _, error in results if error is not None]
    assert "corrupt_image" in error.message()
    good = {r.get_response().id: r for r, error in results if error is None}
    names = [f"detection_{each}" for each in ("boxes", "scores", "classes", "indices")]
    for index, expected in zip("023", detect_in_python(PICTURES), strict=True):
        count = int(good[index].as_numpy("num_detections").item())
        assert count == len(expected) > 0
        rows = [good[index].as_numpy(name)[0, :count] for name in names]
        assert_close(endcap.ImageDetections(*rows), expected)


# --- NVIDIA's image clients -----------------------------------------------------------------------

LABELS = ["red", "green", "blue", "yellow", "gray"]
WEIGHTS = np.array([[2, -1, -1], [-1, 2, -1], [-1, -1, 2], [1, 1, -2], [0, 0, 0]]) / 100
CLASS_COUNT = 3
PIXELS = {"preset": "torchvision", "fit": "stretch", "size": 224, "scale": 1, "mean": 0, "std": 1}
# Softmax of linear functions of an image's mean colour, 0 to 255.
CLASSIFIER = network(
    "(float[n,3,224,224] images) => (float[n,5] shares)",
    "mean = ReduceMean<axes=[2, 3], keepdims=0>(images)"
    "logits = Gemm<transB=1>(mean, weights) shares = Softmax(logits)",
    weights=WEIGHTS.astype(np.float32),
)


@pytest.fixture(scope="module")
def image_server(compiled_server: RunningServer) -> RunningServer:
    repository = compiled_server.repository
    images = tensor("images", "TYPE_FP32", [3, 224, 224], more="format: FORMAT_NCHW")
    shares = tensor("shares", "TYPE_FP32", [5], more='label_filename: "labels.txt"')
    tensors = {"inputs": [images], "outputs": [shares]}
    files = {"labels.txt": "\n".join(LABELS)}
    write_network(repository, "pixels", CLASSIFIER, max_batch_size=16, files=files, **tensors)
    write_preprocess(repository, "to_pixels", max_batch_size=16, parameters=PIXELS)
    write_ensemble(
        repository,
        "classify_image",
        max_batch_size=16,
        inputs=[tensor("encoded", "TYPE_STRING", [1])],
        outputs=[tensor("shares", "TYPE_FP32", [5])],
        steps=[
            ("to_pixels", {"encoded": "encoded"}, {"images": "images"}),
            ("pixels", {"images": "images"}, {"shares": "shares"}),
        ],
    )
    compiled_server.load("to_pixels", "pixels", "classify_image")
    return compiled_server


def scaled(file: bytes) -> np.ndarray:
    """A picture as image_client.py sends it with --scaling NONE."""
    picture = Image.open(io.BytesIO(file)).convert("RGB").resize((224, 224), Image.BILINEAR)
    return np.asarray(picture).astype(np.float32).transpose(2, 0, 1)


BATCH = np.stack([scaled(file) for file in PICTURES])


def assert_ranked(texts: np.ndarray) -> None:
    """Texts SHARE:ID:LABEL of the best classes; shares agree up to the last of their digits."""
    session = onnxruntime.InferenceSession(CLASSIFIER.SerializeToString())
    (shares,) = session.run(None, {"images": BATCH})
    best = np.argsort(-shares, axis=1, kind="stable")[:, :CLASS_COUNT]
    assert len({*best[:, 0].tolist()}) > 1  # not all pictures are of one class
    given = [[text.decode().split(":") for text in row] for row in texts.tolist()]
    assert [[each[1:] for each in row] for row in given] == [
        [[str(i), LABELS[i]] for i in row] for row in best.tolist()
    ]
    found = np.array([[float(each[0]) for each in row] for row in given])
    expected = np.take_along_axis(shares, best, axis=1)
    np.testing.assert_allclose(found, expected, rtol=0, atol=SHARE_TEXT)


@pytest.mark.parametrize("model", ["pixels", "classify_image"])
@pytest.mark.parametrize("module", [grpc_client, http_client])
def test_the_best_classes_of_a_batch_as_texts(
    image_server: RunningServer, model: str, module: ModuleType
) -> None:
    """The ensemble's preprocessing gives the tensors that the client makes with Pillow."""
    given = {"images": BATCH} if model == "pixels" else {"encoded": strings(PICTURES)}
    wanted = module.InferRequestedOutput("shares", class_count=CLASS_COUNT)
    url = image_server.grpc if module is grpc_client else image_server.http
    with module.InferenceServerClient(url) as client:
        response = client.infer(model, make_inputs(module, given), outputs=[wanted])
        assert_ranked(response.as_numpy("shares"))
