"""Connections to a real server: requests and their responses."""

from __future__ import annotations

import uuid
from pathlib import Path

import numpy as np
import pytest

from endcap.client.calls import (
    Call,
    InputTensor,
    ModelMetadata,
    OutputTensor,
    SequenceStep,
    SharedSlice,
    TensorSpec,
)
from endcap.client.errors import RequestError
from endcap.errors import InvalidArgumentError
from tests.support.tcp_proxy import proxy_to
from tests.triton.connection_calls import (
    CLASSES,
    KINDS,
    LOGITS,
    PROTOCOLS,
    echo,
    open_connection,
    received,
    request,
)
from tests.triton.running_server import RunningServer, rested, until_taken, wait_for


@pytest.fixture(scope="session")
def server(client_server: RunningServer) -> RunningServer:
    return client_server


@KINDS
@PROTOCOLS
def test_a_server_reports_what_it_has(server: RunningServer, protocol: str, kind: str) -> None:
    assert request(server, protocol, kind, "is_live") is True
    assert request(server, protocol, kind, "is_ready", "classes") is True
    assert request(server, protocol, kind, "is_ready", "no such model") is False
    assert request(server, protocol, kind, "ready_models") == ["classes", "echo", "talk"]
    assert request(server, protocol, kind, "metadata", "echo") == ModelMetadata(
        {"texts": TensorSpec("BYTES", (-1,)), "behavior": TensorSpec("BYTES", (1,))},
        {"response": TensorSpec("BYTES", (-1,))},
    )


@KINDS
@PROTOCOLS
def test_a_server_counts_its_requests(server: RunningServer, protocol: str, kind: str) -> None:
    def counted() -> int:
        statistics = request(server, protocol, kind, "statistics")
        assert [model["name"] for model in statistics] == ["classes", "echo", "talk"]
        return int(statistics[0]["inference_stats"]["success"].get("count", 0))

    request(server, protocol, kind, "infer", CLASSES)
    before = rested(counted)
    request(server, protocol, kind, "infer", CLASSES)
    wait_for(lambda: counted() == before + 1)  # after its response is on its way


@KINDS
@PROTOCOLS
@pytest.mark.parametrize("compression", [None, "gzip", "deflate"])
def test_tensors_go_and_come(
    server: RunningServer, protocol: str, kind: str, compression: str | None
) -> None:
    texts = [b"", b"one", bytes(range(256)) * 40]
    response = request(
        server, protocol, kind, "infer", echo(*texts, request_id="a"), compression=compression
    )
    assert response.request_id == "a"
    assert response.final
    assert response.tensors["response"][1:].tolist() == texts
    rows = request(server, protocol, kind, "infer", CLASSES, compression=compression)
    assert rows.tensors["class_ids"].tolist() == [[4, 3, 2]] * 2
    assert rows.tensors["class_ids"].dtype == np.int32


@KINDS
@PROTOCOLS
def test_no_output_named_is_all_of_them_and_classes_come_as_texts(
    server: RunningServer, protocol: str, kind: str
) -> None:
    call = Call("classes", CLASSES.inputs, [])
    assert {"class_ids", "class_scores"} <= set(
        request(server, protocol, kind, "infer", call).tensors
    )
    call = Call("classes", CLASSES.inputs, [OutputTensor("class_scores", class_count=2)])
    texts = request(server, protocol, kind, "infer", call).tensors["class_scores"]
    assert texts.shape == (2, 2)
    assert texts[1, 0].endswith(b":0")  # best first: the scores are sorted


@KINDS
@PROTOCOLS
def test_headers_and_places_in_sequences_arrive(
    server: RunningServer, protocol: str, kind: str
) -> None:
    headers = {"X-Tenant": "orchard; row 3", "Authorization": "Bearer t"}
    for step, flags in (
        (SequenceStep(2**63 - 1, start=True), 1),
        (SequenceStep("camera 4", end=True), 2),
    ):
        call = echo(b"x", sequence=step)
        texts = received(request(server, protocol, kind, "infer", call, headers=headers))
        assert texts["parameters"]["x-tenant" if protocol == "grpc" else "X-Tenant"] == (
            "orchard; row 3"
        )
        assert texts["sequence"] == step.id
        assert texts["flags"] == flags


@KINDS
@PROTOCOLS
def test_errors_of_the_server_have_its_words(
    server: RunningServer, protocol: str, kind: str
) -> None:
    for call, status, words in (
        (Call("absent", [], [], "id 1"), "unavailable", "unknown model: 'absent'"),
        (
            Call("classes", [InputTensor.of("nose", LOGITS)], [], "id 1"),
            "invalid_argument",
            "unexpected inference input 'nose'",
        ),
    ):
        with pytest.raises(RequestError, match=words) as caught:
            request(server, protocol, kind, "infer", call)
        assert caught.value.status_name == status
        assert caught.value.request_id == "id 1"
        assert not caught.value.region_lost
        assert not caught.value.transient


def test_data_that_are_not_what_their_input_says_are_never_sent(server: RunningServer) -> None:
    with proxy_to(server.grpc) as proxy, open_connection(server, "grpc", proxy) as connection:
        for tensor, words in (
            (InputTensor("logits", (5,), "FP32", LOGITS), r"FP32 \[5\], but its data are FP32 \[2"),
            (InputTensor("logits", (2, 5), "FP16", LOGITS), "is declared as FP16"),
            (InputTensor.of("texts", np.array([1.5], np.object_)), "elements that are not bytes"),
        ):
            with pytest.raises(InvalidArgumentError, match=words):
                connection.infer(Call("classes", [tensor], []))
    assert proxy.connections == 0


@KINDS
@PROTOCOLS
def test_tensors_lie_in_shared_memory(server: RunningServer, protocol: str, kind: str) -> None:
    name = f"endcap-test-{uuid.uuid4().hex}"
    path = Path("/dev/shm", name)
    path.write_bytes(LOGITS.tobytes() + bytes(100))
    region = {"name": name, "key": name, "byte_size": 140}
    slices = SharedSlice(name, 0, 40), SharedSlice(name, 64, 24)
    call = Call(
        "classes",
        [InputTensor("logits", (2, 5), "FP32", slices[0])],
        [OutputTensor("class_ids", shared=slices[1]), OutputTensor("class_scores")],
    )
    try:
        with pytest.raises(RequestError, match=f"region: '{name}'") as caught:
            request(server, protocol, kind, "infer", call)
        assert caught.value.region_lost
        request(server, protocol, kind, "register_shared", "system", region)
        assert request(server, protocol, kind, "registered", "system") == {name: name}
        response = request(server, protocol, kind, "infer", call)
        assert response.shared == {"class_ids": TensorSpec("INT32", (2, 3))}
        assert set(response.tensors) == {"class_scores"}
        ids = np.frombuffer(path.read_bytes(), np.int32, count=6, offset=64)
        assert ids.tolist() == [4, 3, 2] * 2
        with pytest.raises(RequestError, match=f"'{name}' already in manager"):
            request(server, protocol, kind, "register_shared", "system", region)
    finally:
        until_taken(
            lambda: request(server, protocol, kind, "unregister_shared", "system", name),
            RequestError,
        )
        path.unlink()
    assert request(server, protocol, kind, "registered", "system") == {}
    assert request(server, protocol, kind, "registered", "cuda") == {}


@KINDS
@PROTOCOLS
def test_compression_saves_bytes(server: RunningServer, protocol: str, kind: str) -> None:
    call = echo(bytes(200_000))
    for compression in (None, "gzip", "deflate"):
        with proxy_to(getattr(server, protocol)) as proxy:
            request(server, protocol, kind, "infer", call, proxy=proxy, compression=compression)
            assert len(proxy.sent) > 200_000 if compression is None else len(proxy.sent) < 5_000
            # Over gRPC the server decides of its own part.
            plain = compression is None or protocol == "grpc"
            assert len(proxy.received) > 200_000 if plain else len(proxy.received) < 5_000
