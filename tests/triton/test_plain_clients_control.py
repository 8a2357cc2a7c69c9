"""NVIDIA's examples of requests beside inference, and of their form: plain tritonclient.

Health, metadata, configurations, statistics, loading and unloading; compression, keepalive,
headers; and the HTTP protocol by urllib alone.
"""

from __future__ import annotations

import json
import struct
import urllib.request
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
from plain_calls import PICTURES, Protocol, assert_detections, detect_in_python, protocols_of
from running_server import RunningServer, rested, wait_for
from tritonclient.utils import InferenceServerException

CONTROLLED = "classes_unnamed"
NAMES = ["num_detections", "detection_boxes", "detection_scores", "detection_classes"]
LOGITS = np.array([[1, 5, 2, -3, 0]], np.float32)


@pytest.fixture(params=["grpc", "http"])
def protocol(request: pytest.FixtureRequest, cascade_server: RunningServer) -> Protocol:
    return protocols_of(cascade_server)[request.param]


@pytest.fixture(params=["grpc", "http"])
def small(request: pytest.FixtureRequest, compiled_server: RunningServer) -> Protocol:
    """A server whose models may be unloaded."""
    return protocols_of(compiled_server)[request.param]


def in_json(protocol: Protocol) -> dict[str, bool]:
    """What makes gRPC respond in JSON's terms, as HTTP does."""
    return {"as_json": True} if protocol.module is grpc_client else {}


def test_health(protocol: Protocol) -> None:
    with protocol.connect() as client:
        assert client.is_server_live(headers={"test": "1"})
        assert client.is_server_ready()
        assert client.is_model_ready("detect")
        assert not client.is_model_ready("absent")


def test_metadata_says_the_tensors(protocol: Protocol) -> None:
    with protocol.connect() as client:
        server = client.get_server_metadata(**in_json(protocol))
        model = client.get_model_metadata("detect", **in_json(protocol))
        with pytest.raises(InferenceServerException, match="absent"):
            client.get_model_metadata("absent")
    assert {"system_shared_memory", "binary_tensor_data"} <= set(server["extensions"])
    (encoded,) = model["inputs"]
    assert encoded["datatype"] == "BYTES"
    assert [int(side) for side in encoded["shape"]] == [-1, 1]
    assert {tensor["name"] for tensor in model["outputs"]} >= set(NAMES)


def test_configurations_say_the_steps_and_the_labels(protocol: Protocol) -> None:
    with protocol.connect() as client:
        config = client.get_model_config("detect", **in_json(protocol))
    config = config.get("config", config)
    steps = [step["model_name"] for step in config["ensemble_scheduling"]["step"]]
    assert steps == ["preprocess", "detector", "postprocess"]
    assert config["parameters"]["labels"]["string_value"].startswith("circle,square")


def test_statistics_count_requests_and_batches(protocol: Protocol) -> None:
    def counted(client: Any) -> tuple[int, int]:
        response = client.get_inference_statistics("postprocess", **in_json(protocol))
        (row,) = response["model_stats"]
        # gRPC's JSON leaves zeros out.
        requests = row["inference_stats"]["success"].get("count", 0)
        return int(requests), int(row.get("inference_count", 0))

    with protocol.connect() as client:
        requests, inferences = rested(lambda: counted(client))
        client.infer("detect", [protocol.encoded(*PICTURES)])
        wait_for(lambda: counted(client) == (requests + 1, inferences + len(PICTURES)))


def test_a_model_is_unloaded_and_loaded_with_another_configuration(small: Protocol) -> None:
    parameters = {"head": "classification", "num_classes": "5", "top_k": "2"}
    config = {
        "backend": "endcap_postprocess",
        "max_batch_size": 4,
        "parameters": {name: {"string_value": text} for name, text in parameters.items()},
    }
    with small.connect() as client:
        index = client.get_model_repository_index(**in_json(small))
        rows = index if isinstance(index, list) else index["models"]
        assert CONTROLLED in {row["name"] for row in rows}
        try:
            client.unload_model(CONTROLLED)
            assert not client.is_model_ready(CONTROLLED)
            client.load_model(CONTROLLED, config=json.dumps(config))
            assert classes(client, small) == [[1, 2]]
            with pytest.raises(InferenceServerException, match="parameter 'head' is missing"):
                client.load_model(CONTROLLED, config='{"backend": "endcap_postprocess"}')
        finally:
            client.unload_model(CONTROLLED)
            client.load_model(CONTROLLED)
        assert classes(client, small) == [[1, 2, 0]]
        with pytest.raises(InferenceServerException, match="failed to load 'absent'"):
            client.load_model("absent")


def classes(client: Any, protocol: Protocol) -> list[list[int]]:
    tensor = protocol.module.InferInput("logits", list(LOGITS.shape), "FP32")
    tensor.set_data_from_numpy(LOGITS)
    return client.infer(CONTROLLED, [tensor]).as_numpy("class_ids").tolist()


@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
def test_compression_both_ways(protocol: Protocol, algorithm: str) -> None:
    names = ["compression_algorithm"]
    if protocol.module is not grpc_client:
        names = ["request_compression_algorithm", "response_compression_algorithm"]
    with protocol.connect() as client:
        result = client.infer(
            "detect", [protocol.encoded(*PICTURES[:1])], **dict.fromkeys(names, algorithm)
        )
    response = {name: result.as_numpy(name) for name in NAMES}
    assert_detections(response, detect_in_python(PICTURES[:1]))


def test_keepalive_deadline_and_custom_channel_arguments(cascade_server: RunningServer) -> None:
    protocol = protocols_of(cascade_server)["grpc"]
    keepalive = grpc_client.KeepAliveOptions(
        keepalive_time_ms=10_000,
        keepalive_timeout_ms=5_000,
        keepalive_permit_without_calls=True,
        http2_max_pings_without_data=0,
    )
    arguments = [("grpc.lb_policy_name", "pick_first")]
    for options in ({"keepalive_options": keepalive}, {"channel_args": arguments}):
        with protocol.connect(**options) as client:
            result = client.infer("detect", [protocol.encoded(PICTURES[0])], client_timeout=30)
            assert result.as_numpy("num_detections")[0, 0] > 0
    with protocol.connect() as client, pytest.raises(InferenceServerException) as failure:
        client.infer("detect", [protocol.encoded(PICTURES[0])], client_timeout=1e-4)
    assert failure.value.status() == "StatusCode.DEADLINE_EXCEEDED"


def test_custom_parameters_of_a_request_pass_by(protocol: Protocol) -> None:
    with protocol.connect() as client:
        result = client.infer(
            "detect", [protocol.encoded(PICTURES[0])], parameters={"camera": "north", "frame": 7}
        )
    assert result.as_numpy("num_detections")[0, 0] > 0


def test_binary_tensors_by_urllib_alone(cascade_server: RunningServer) -> None:
    (file, *_) = PICTURES
    data = struct.pack("<I", len(file)) + file
    body = {
        "inputs": [
            {
                "name": "encoded",
                "datatype": "BYTES",
                "shape": [1, 1],
                "parameters": {"binary_data_size": len(data)},
            }
        ],
        "outputs": [{"name": name, "parameters": {"binary_data": True}} for name in NAMES],
    }
    header = json.dumps(body).encode()
    request = urllib.request.Request(
        f"http://{cascade_server.http}/v2/models/detect/infer",
        data=header + data,
        headers={
            "Content-Type": "application/octet-stream",
            "Inference-Header-Content-Length": str(len(header)),
        },
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=30) as response:
        length = int(response.headers["Inference-Header-Content-Length"])
        described, rest = json.loads(response.read(length)), response.read()
    tensors, begin = {}, 0
    for output in described["outputs"]:
        size = output["parameters"]["binary_data_size"]
        dtype = {"INT32": "<i4", "FP32": "<f4"}[output["datatype"]]
        values = np.frombuffer(rest[begin : begin + size], dtype)
        tensors[output["name"]] = values.reshape(output["shape"])
        begin += size
    assert begin == len(rest)
    assert_detections(tensors, detect_in_python([file]))


def test_responses_as_json_by_urllib_alone(compiled_server: RunningServer) -> None:
    body = {
        "inputs": [
            {"name": "logits", "datatype": "FP32", "shape": [1, 5], "data": LOGITS[0].tolist()}
        ],
        "outputs": [{"name": "class_ids"}, {"name": "class_labels"}],
    }
    request = urllib.request.Request(
        f"http://{compiled_server.http}/v2/models/classes/infer",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=30) as response:
        outputs = {each["name"]: each["data"] for each in json.load(response)["outputs"]}
    assert outputs == {"class_ids": [1, 2, 0], "class_labels": ["dog", "", "cat"]}
