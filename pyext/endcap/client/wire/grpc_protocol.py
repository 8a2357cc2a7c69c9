"""Triton's gRPC service, GRPCInferenceService: each question as a message, each answer read."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from endcap.client.calls import Call, Response
from endcap.client.model_metadata import ModelMetadata, read_metadata
from endcap.client.wire.exchange import Exchange, GrpcQuestion, T
from endcap.client.wire.grpc_tensors import infer_request, read_infer_response
from endcap.client.wire.install import import_client
from endcap.client.wire.model_config import plain_fields


class GrpcProtocol:
    """The questions that a client has. Thread-safe; ClientError where tritonclient is missing."""

    def __init__(self) -> None:
        self._messages: Any = import_client("grpc").service_pb2

    def infer(self, call: Call) -> Exchange[Response]:
        """Runs a model once."""
        asked = [output.name for output in call.outputs]
        shared = [output.name for output in call.outputs if output.shared is not None]

        def read(response: Any) -> Response:
            return read_infer_response(response, asked, shared, call.request_id)

        return Exchange(GrpcQuestion("ModelInfer", infer_request(call)), read)

    def live(self) -> Exchange[bool]:
        """Whether the server answers."""
        return self._ask("ServerLive", lambda answer: bool(answer.live))

    def ready(self, model: str) -> Exchange[bool]:
        """Whether it serves a model."""
        return self._ask("ModelReady", lambda answer: bool(answer.ready), name=model)

    def ready_models(self) -> Exchange[list[str]]:
        """The names of all that it serves."""
        return self._ask(
            "ModelStatistics",  # `endcap serve` closes the repository's index
            lambda answer: sorted({each.name for each in answer.model_stats}),
        )

    def metadata(self, model: str) -> Exchange[ModelMetadata]:
        """The tensors of a model."""

        def read(answer: Any) -> ModelMetadata:
            return read_metadata(model, _tensors(answer.inputs), _tensors(answer.outputs))

        return self._ask("ModelMetadata", read, name=model)

    def config(self, model: str) -> Exchange[dict[str, Any]]:
        """The configuration of a model."""
        return self._ask("ModelConfig", lambda answer: plain_fields(answer.config), name=model)

    def statistics(self) -> Exchange[list[dict[str, Any]]]:
        """What the server has counted of each of its models."""

        def read(answer: Any) -> list[dict[str, Any]]:
            return [plain_fields(each) for each in answer.model_stats]

        return self._ask("ModelStatistics", read)

    def register_system(self, name: str, key: str, byte_size: int) -> Exchange[None]:
        """Makes the file `key` of /dev/shm known to the server."""
        fields = {"name": name, "key": key, "offset": 0, "byte_size": byte_size}
        return self._ask("SystemSharedMemoryRegister", _nothing, **fields)

    def register_cuda(
        self, name: str, raw_handle: bytes, device_id: int, byte_size: int
    ) -> Exchange[None]:
        """Makes memory of a GPU known to the server; raw_handle in base64."""
        handle = base64.b64decode(raw_handle)
        fields = {"name": name, "raw_handle": handle, "device_id": device_id}
        return self._ask("CudaSharedMemoryRegister", _nothing, byte_size=byte_size, **fields)

    def unregister(self, kind: str, name: str) -> Exchange[None]:
        """Ends that; kind as "system"."""
        return self._ask(f"{kind.title()}SharedMemoryUnregister", _nothing, name=name)

    def registered(self, kind: str) -> Exchange[dict[str, str]]:
        """The regions of a kind: name -> key, which is "" for CUDA."""

        def read(answer: Any) -> dict[str, str]:
            return {name: getattr(region, "key", "") for name, region in answer.regions.items()}

        return self._ask(f"{kind.title()}SharedMemoryStatus", read)

    def _ask(self, method: str, read: Callable[[Any], T], **fields: Any) -> Exchange[T]:
        message = getattr(self._messages, f"{method}Request")(**fields)
        return Exchange(GrpcQuestion(method, message), read)


def _tensors(tensors: Iterable[Any]) -> list[tuple[str, str, Iterable[int]]]:
    return [(tensor.name, tensor.datatype, tensor.shape) for tensor in tensors]


def _nothing(_: Mapping[str, Any]) -> None:
    return None
