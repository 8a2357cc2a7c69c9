"""The requests of NVIDIA's image_client, grpc_image_client and ensemble_image_client.

Their programs are not here: what each requests of the server, in its order, is written anew with
tritonclient, for a classifier of pixels and an ensemble around it.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import onnx
import onnxruntime
import pytest
from PIL import Image
from tritonclient.grpc import model_config_pb2, service_pb2, service_pb2_grpc

from endcap.client import DetectionClient
from tests.support.tolerances import SHARE_TEXT
from tests.triton.plain_calls import PICTURES, Protocol, protocols_of
from tests.triton.running_server import RunningServer, run_server

LABELS = ["red", "green", "blue", "yellow", "gray"]
CLASS_COUNT = 3
# What the programs require: one input with its format, outputs that all have labels.
CLASSIFIER = """
backend: "endcap_onnx"
max_batch_size: 16
input [ { name: "images" data_type: TYPE_FP32 format: FORMAT_NCHW dims: [ 3, 224, 224 ] } ]
output [ {
  name: "class_probabilities" data_type: TYPE_FP32 dims: [ 5 ] label_filename: "labels.txt"
} ]
dynamic_batching { }
"""
PREPROCESS = "".join(
    f'parameters {{ key: "{name}" value {{ string_value: "{value}" }} }}\n'
    for name, value in {
        "preset": "torchvision", "fit": "stretch", "size": 224, "scale": 1, "mean": 0, "std": 1
    }.items()
)  # fmt: skip
ENSEMBLE = """
platform: "ensemble"
max_batch_size: 16
input [ { name: "encoded" data_type: TYPE_STRING dims: [ 1 ] } ]
output [ { name: "class_probabilities" data_type: TYPE_FP32 dims: [ 5 ] } ]
ensemble_scheduling {
  step [ {
    model_name: "preprocess_pixels"
    model_version: -1
    input_map { key: "encoded" value: "encoded" }
    output_map { key: "images" value: "images" }
  }, {
    model_name: "image_classifier"
    model_version: -1
    input_map { key: "images" value: "images" }
    output_map { key: "class_probabilities" value: "class_probabilities" }
  } ]
}
"""
Ranking = list[list[str]]  # of each image its best classes, as "score:index:label"


def write_classifier(file: Path) -> None:
    """Softmax of linear functions of an image's mean colour, 0 to 255."""
    weights = np.array([[2, -1, -1], [-1, 2, -1], [-1, -1, 2], [1, 1, -2], [0, 0, 0]]) / 100
    helper = onnx.helper
    graph = helper.make_graph(
        [
            helper.make_node("GlobalAveragePool", ["images"], ["mean"]),
            helper.make_node("Flatten", ["mean"], ["colour"]),
            helper.make_node("Gemm", ["colour", "weights"], ["logits"], transB=1),
            helper.make_node("Softmax", ["logits"], ["class_probabilities"]),
        ],
        "colours",
        [helper.make_tensor_value_info("images", 1, ["n", 3, 224, 224])],
        [helper.make_tensor_value_info("class_probabilities", 1, ["n", len(LABELS)])],
        [onnx.numpy_helper.from_array(weights.astype(np.float32), "weights")],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), file)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    repository = tmp_path_factory.mktemp("images")
    preprocess = f'backend: "endcap_preprocess"\nmax_batch_size: 16\n{PREPROCESS}'
    configs = {
        "image_classifier": CLASSIFIER, "preprocess_pixels": preprocess, "classify_image": ENSEMBLE
    }  # fmt: skip
    for name, config in configs.items():
        (repository / name / "1").mkdir(parents=True)
        (repository / name / "config.pbtxt").write_text(config)
    (repository / "image_classifier" / "labels.txt").write_text("\n".join(LABELS))
    write_classifier(repository / "image_classifier" / "1" / "model.onnx")
    return repository


@pytest.fixture(scope="module")
def image_server(models: Path) -> Iterator[RunningServer]:
    with run_server(models) as running:
        yield running


@pytest.fixture(params=["grpc", "http"])
def protocol(request: pytest.FixtureRequest, image_server: RunningServer) -> Protocol:
    return protocols_of(image_server)[request.param]


def scaled(file: bytes) -> np.ndarray:
    """A picture as image_client.py sends it with --scaling NONE."""
    picture = Image.open(io.BytesIO(file)).convert("RGB").resize((224, 224), Image.BILINEAR)
    return np.asarray(picture).astype(np.float32).transpose(2, 0, 1)


BATCH = np.stack([scaled(file) for file in PICTURES])


@pytest.fixture(scope="module")
def expected(models: Path) -> Ranking:
    network = models / "image_classifier" / "1" / "model.onnx"
    session = onnxruntime.InferenceSession(network, providers=["CPUExecutionProvider"])
    (shares,) = session.run(None, {"images": BATCH})
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=0, atol=SHARE_TEXT)
    best = np.argsort(-shares, axis=1, kind="stable")[:, :CLASS_COUNT]
    assert len({row[0] for row in best.tolist()}) > 1  # not all pictures are of one class
    return [
        [f"{row[i]:f}:{i}:{LABELS[i]}" for i in ids] for row, ids in zip(shares, best, strict=True)
    ]


def assert_ranked(tensor: np.ndarray, expected: Ranking) -> None:
    """The texts of a response: classes exactly, shares up to the last of their six digits."""
    assert tensor.shape == (len(expected), CLASS_COUNT)
    for row, ranked in zip(tensor.tolist(), expected, strict=True):
        given = [text.decode().split(":") for text in row]
        wanted = [text.split(":") for text in ranked]
        assert [text[1:] for text in given] == [text[1:] for text in wanted]
        shares = [[float(text[0]) for text in each] for each in (given, wanted)]
        np.testing.assert_allclose(*shares, rtol=0, atol=SHARE_TEXT)


def get(message: Any, name: str) -> Any:
    return message[name] if isinstance(message, dict) else getattr(message, name)


def images_tensor(protocol: Protocol, images: np.ndarray) -> Any:
    tensor = protocol.module.InferInput("images", list(images.shape), "FP32")
    tensor.set_data_from_numpy(images)
    return tensor


def ranked_output(protocol: Protocol) -> Any:
    return protocol.module.InferRequestedOutput("class_probabilities", class_count=CLASS_COUNT)


def test_the_declarations_that_image_client_requires(protocol: Protocol) -> None:
    with protocol.connect() as client:
        metadata = client.get_model_metadata("image_classifier", "")
        response = client.get_model_config("image_classifier", "")
    config = response if isinstance(response, dict) else response.config
    (declared,), (output,) = get(metadata, "inputs"), get(metadata, "outputs")
    assert (get(declared, "name"), get(declared, "datatype")) == ("images", "FP32")
    assert [int(side) for side in get(declared, "shape")] == [-1, 3, 224, 224]
    assert (get(output, "datatype"), [int(side) for side in get(output, "shape")]) == (
        "FP32",
        [-1, len(LABELS)],
    )
    assert get(config, "max_batch_size") == 16
    (entry,) = get(config, "input")
    nchw = model_config_pb2.ModelInput.FORMAT_NCHW
    assert get(entry, "format") in (nchw, "FORMAT_NCHW")  # gRPC's and HTTP's


def test_image_client(protocol: Protocol, expected: Ranking) -> None:
    with protocol.connect() as client:
        result = client.infer(
            "image_classifier",
            [images_tensor(protocol, BATCH)],
            model_version="",
            request_id="1",
            outputs=[ranked_output(protocol)],
        )
    assert get(result.get_response(), "id") == "1"
    assert_ranked(result.as_numpy("class_probabilities"), expected)


def raw_request(images: np.ndarray) -> service_pb2.ModelInferRequest:
    request = service_pb2.ModelInferRequest(model_name="image_classifier")
    request.inputs.add(name="images", datatype="FP32", shape=images.shape)
    request.raw_input_contents.append(images.tobytes())
    output = request.outputs.add(name="class_probabilities")
    output.parameters["classification"].int64_param = CLASS_COUNT
    return request


def texts_of(response: service_pb2.ModelInferResponse) -> np.ndarray:
    """The one output of a response: each text with its length before it, as 32 bits."""
    (output,), (raw,) = response.outputs, response.raw_output_contents
    assert output.datatype == "BYTES"
    texts = []
    while raw:
        end = 4 + int.from_bytes(raw[:4], "little")
        texts.append(raw[4:end])
        raw = raw[end:]
    return np.array(texts, np.object_).reshape(list(output.shape))


def test_grpc_image_client(image_server: RunningServer, expected: Ranking) -> None:
    """The same by the stub that protobuf's compiler generates, in a stream."""
    requests = [raw_request(BATCH), raw_request(BATCH[:1])]
    with grpc.insecure_channel(image_server.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        streamed = list(stub.ModelStreamInfer(iter(requests)))
    for response, ranked in zip(streamed, (expected, expected[:1]), strict=True):
        assert response.error_message == ""
        assert_ranked(texts_of(response.infer_response), ranked)


def test_ensemble_image_client(protocol: Protocol, expected: Ranking) -> None:
    """It sends files, and requests class_count of every output that the metadata name."""
    with protocol.connect() as client:
        metadata = client.get_model_metadata("classify_image")
        (declared,), (output,) = get(metadata, "inputs"), get(metadata, "outputs")
        assert (get(declared, "name"), get(declared, "datatype")) == ("encoded", "BYTES")
        assert get(output, "name") == "class_probabilities"
        files = np.stack([np.array([file], dtype=bytes) for file in PICTURES])
        tensor = protocol.module.InferInput("encoded", list(files.shape), "BYTES")
        tensor.set_data_from_numpy(files)
        result = client.infer("classify_image", [tensor], outputs=[ranked_output(protocol)])
    # The server's preprocessing gives the tensors that the client makes with Pillow.
    assert_ranked(result.as_numpy("class_probabilities"), expected)


def test_the_ensemble_for_endcaps_own_client(
    image_server: RunningServer, expected: Ranking
) -> None:
    with DetectionClient(image_server.grpc, model="classify_image", classify=CLASS_COUNT) as client:
        results = list(client.detect(PICTURES))
    names = [[each.label for each in result.classes or ()] for result in results]
    assert names == [[text.split(":")[2] for text in ranked] for ranked in expected]
