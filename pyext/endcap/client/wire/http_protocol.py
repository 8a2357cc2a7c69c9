"""Triton's HTTP service: each question as a request, each answer read.

Source of the paths and bodies: the KServe v2 protocol and Triton's extensions of it
(model_repository, model_configuration, shared_memory).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from endcap.client.calls import Call, Response
from endcap.client.model_metadata import ModelMetadata, read_metadata
from endcap.client.options import Compression
from endcap.client.wire.exchange import Exchange, HttpAnswer, HttpQuestion, T
from endcap.client.wire.http_tensors import infer_question, read_infer_answer
from endcap.client.wire.install import import_client
from endcap.client.wire.model_config import config_from_json, statistics_from_json
from endcap.client.wire.translate import from_http, not_triton


class HttpProtocol:
    """The questions that a client has. Thread-safe; ClientError where tritonclient is missing."""

    def __init__(self, compression: Compression | None = None) -> None:
        self._compression = compression
        import_client("http")

    def infer(self, call: Call) -> Exchange[Response]:
        """Runs a model once."""
        question = infer_question(call, self._compression)
        return Exchange(question, lambda answer: read_infer_answer(answer, call, self._compression))

    def live(self) -> Exchange[bool]:
        """Whether the server answers."""
        return Exchange(HttpQuestion("GET", "/v2/health/live"), _is_ok)

    def ready(self, model: str) -> Exchange[bool]:
        """Whether it serves a model."""
        return Exchange(HttpQuestion("GET", f"{_path(model)}/ready"), _is_ok)

    def ready_models(self) -> Exchange[list[str]]:
        """The names of all that it serves."""

        def read(said: Any) -> list[str]:
            return sorted({str(each["name"]) for each in said.get("model_stats", [])})

        # Of the statistics: `endcap serve` closes the repository's index.
        return _get("/v2/models/stats", read)

    def metadata(self, model: str) -> Exchange[ModelMetadata]:
        """The tensors of a model."""

        def read(said: Any) -> ModelMetadata:
            return read_metadata(
                model, _tensors(said.get("inputs", [])), _tensors(said.get("outputs", []))
            )

        return _get(_path(model), read)

    def config(self, model: str) -> Exchange[dict[str, Any]]:
        """The configuration of a model."""
        return _get(f"{_path(model)}/config", lambda said: config_from_json(model, said))

    def statistics(self) -> Exchange[list[dict[str, Any]]]:
        """What the server has counted of each of its models."""
        return _get("/v2/models/stats", statistics_from_json)

    def register_system(self, name: str, key: str, byte_size: int) -> Exchange[None]:
        """Makes the file `key` of /dev/shm known to the server."""
        said = {"key": key, "offset": 0, "byte_size": byte_size}
        return _post(f"{_region('system', name)}/register", _nothing, said)

    def register_cuda(
        self, name: str, raw_handle: bytes, device_id: int, byte_size: int
    ) -> Exchange[None]:
        """Makes memory of a GPU known to the server; raw_handle in base64."""
        handle = {"b64": raw_handle.decode("ascii")}
        said = {"raw_handle": handle, "device_id": device_id, "byte_size": byte_size}
        return _post(f"{_region('cuda', name)}/register", _nothing, said)

    def unregister(self, kind: str, name: str) -> Exchange[None]:
        """Ends that; kind as "system"."""
        return _post(f"{_region(kind, name)}/unregister", _nothing)

    def registered(self, kind: str) -> Exchange[dict[str, str]]:
        """The regions of a kind: name -> key, which is "" for CUDA."""

        def read(rows: Any) -> dict[str, str]:
            return {str(row["name"]): str(row.get("key", "")) for row in rows}

        return _get(f"/v2/{kind}sharedmemory/status", read)


def _get(path: str, read: Callable[[Any], T]) -> Exchange[T]:
    return Exchange(HttpQuestion("GET", path), lambda answer: read_json(answer, read))


def _post(path: str, read: Callable[[Any], T], said: object = None) -> Exchange[T]:
    body = b"" if said is None else json.dumps(said).encode()
    headers = {"Content-Type": "application/json"}
    question = HttpQuestion("POST", path, body, headers)
    return Exchange(question, lambda answer: read_json(answer, read))


def read_json(answer: HttpAnswer, read: Callable[[Any], T]) -> T:
    """Returns what `read` makes of an answer's JSON; None stands for an empty answer.

    Raises RequestError for an error of the server, and for what no Triton server answers.
    """
    if answer.status != 200:
        raise from_http(answer)
    try:
        return read(json.loads(answer.body) if answer.body else None)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise not_triton("http") from error


def _is_ok(answer: HttpAnswer) -> bool:
    return answer.status == 200


def _path(model: str) -> str:
    return f"/v2/models/{quote(model, safe='')}"


def _region(kind: str, name: str) -> str:
    return f"/v2/{kind}sharedmemory/region/{quote(name, safe='')}"


def _tensors(rows: Any) -> list[tuple[Any, Any, list[Any]]]:
    return [(row["name"], row["datatype"], list(row["shape"])) for row in rows]


def _nothing(_: Any) -> None:
    return None
