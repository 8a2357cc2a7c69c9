"""Requests to cascades, alone, together and without waiting."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from tritonclient.utils import InferenceServerException

from tests.triton.calls import Arrays, grpc_inputs, infer, strings


def send_request(client: Any, files: list[bytes], model: str = "cascade", **options: Any) -> Arrays:
    return infer(client, model, {"encoded": strings(files)}, **options)


def assert_same(response: Arrays, expected: Arrays) -> None:
    assert set(response) == set(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(response[name], array, err_msg=name)


def joined(responses: list[Arrays]) -> Arrays:
    return {name: np.concatenate([each[name] for each in responses]) for name in responses[0]}


def at_once(client: Any, files: list[bytes], model: str) -> list[Arrays | InferenceServerException]:
    """The responses to requests that are sent together, or their errors."""

    def one(file: bytes) -> Arrays | InferenceServerException:
        try:
            return send_request(client, [file], model)
        except InferenceServerException as error:
            return error

    with ThreadPoolExecutor(len(files)) as pool:
        return list(pool.map(one, files))


def send(client: Any, file: bytes, request_id: str, done: Any = None) -> Any:
    return client.async_infer(
        "cascade",
        grpc_inputs({"encoded": strings([file])}),
        callback=done or (lambda result, error: None),
        request_id=request_id,
    )
