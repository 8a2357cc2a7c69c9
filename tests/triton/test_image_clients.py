"""The requests of NVIDIA's image_client and ensemble_image_client, written again with tritonclient.

For a classifier of pixels, as these programs require one, and an ensemble around it.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import onnxruntime
import pytest
from PIL import Image
from tritonclient.grpc import model_config_pb2

from tests.support.onnx_heads import network
from tests.support.tolerances import SHARE_TEXT
from tests.triton.model_folders import tensor, write_ensemble, write_preprocess
from tests.triton.onnx_models import write_network
from tests.triton.plain_calls import PICTURES, Protocol, make_protocols
from tests.triton.running_server import RunningServer

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


@pytest.fixture(params=["grpc", "http"])
def protocol(request: pytest.FixtureRequest, image_server: RunningServer) -> Protocol:
    return make_protocols(image_server)[request.param]


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
def test_the_best_classes_of_a_batch_as_texts(protocol: Protocol, model: str) -> None:
    """The ensemble's preprocessing gives the tensors that the client makes with Pillow."""
    tensors = protocol.module
    if model == "pixels":
        given = tensors.InferInput("images", list(BATCH.shape), "FP32")
        given.set_data_from_numpy(BATCH)
    else:
        given = protocol.encoded(*PICTURES)
    wanted = tensors.InferRequestedOutput("shares", class_count=CLASS_COUNT)
    with protocol.connect() as client:
        assert_ranked(client.infer(model, [given], outputs=[wanted]).as_numpy("shares"))


def test_the_declarations_that_image_client_requires(protocol: Protocol) -> None:
    def get(message: Any, name: str) -> Any:
        return message[name] if isinstance(message, dict) else getattr(message, name)

    with protocol.connect() as client:
        metadata = client.get_model_metadata("pixels", "")
        response = client.get_model_config("pixels", "")
    config = response if isinstance(response, dict) else response.config
    (declared,), (output,), (entry,) = (
        get(message, side)
        for message, side in ((metadata, "inputs"), (metadata, "outputs"), (config, "input"))
    )
    assert (get(declared, "name"), get(declared, "datatype")) == ("images", "FP32")
    assert [int(side) for side in get(declared, "shape")] == [-1, 3, 224, 224]
    assert [int(side) for side in get(output, "shape")] == [-1, len(LABELS)]
    assert get(config, "max_batch_size") == 16
    assert get(entry, "format") in (model_config_pb2.ModelInput.FORMAT_NCHW, "FORMAT_NCHW")
