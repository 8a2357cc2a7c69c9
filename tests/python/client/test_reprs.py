"""Reprs of what users hold: one line, without addresses in memory, pixels and secrets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import endcap
from endcap.client import (
    AsyncConnection,
    AsyncDetectionClient,
    AsyncSharedMemoryPool,
    Call,
    ClientArguments,
    Connection,
    ConnectionOptions,
    InputTensor,
    OutputTensor,
    Response,
    SharedSlice,
    parse_address,
)
from endcap.client.calls import SharedOutput
from endcap.server import TritonServer

BIG = np.zeros((1000, 1000), np.float32)
HEAD = np.random.default_rng(1).random((300, 7, 40), np.float32)
ADDRESS = parse_address("127.0.0.1:1")
SECRET = ConnectionOptions(headers={"Authorization": "Bearer secret"})


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (endcap.box_decode(HEAD[0], num_classes=3), "<Candidates: 39 boxes>"),
        (
            endcap.box_decode(HEAD[0], num_classes=3, max_candidates=5),
            "<Candidates: 5 boxes, truncated>",
        ),
        (
            endcap.nv12(np.zeros((96, 64), np.uint8)),
            "<YuvImage nv12, planes [96, 64], bt601, limited>",
        ),
        (
            endcap.preprocess(np.zeros((300, 8, 8, 3), np.uint8), size=8),
            "<PreprocessResult float32 [300, 3, 8, 8], status 300 times 0>",
        ),
        (
            endcap.Detection((0, 1, 2, 3), 0.5, 7, mask={"size": [4, 5], "counts": "x" * 9000}),
            "Detection(box=(0, 1, 2, 3), score=0.5, class_id=7, index=-1, mask=<4x5>)",
        ),
        (Connection(ADDRESS), "<Connection to grpc://127.0.0.1:1>"),
        (AsyncConnection(ADDRESS), "<AsyncConnection to grpc://127.0.0.1:1>"),
        (
            AsyncDetectionClient("https://host:9", model="m"),
            "<AsyncDetectionClient of m at https://host:9, not connected>",
        ),
        (
            AsyncSharedMemoryPool(AsyncConnection(ADDRESS), region_bytes=64),
            "<AsyncSharedMemoryPool of 0 system regions, grpc://127.0.0.1:1>",
        ),
        (InputTensor.of("x", BIG), "<InputTensor x FP32 [1000, 1000]>"),
        (
            Call("m", [InputTensor("x", (4,), "FP32", SharedSlice("r", 0, 16))], []),
            "Call(model='m', inputs=[<InputTensor x FP32 [4], SharedSlice(region='r', offset=0, "
            "byte_size=16)>], outputs=[], request_id='', sequence=None, timeout_us=None)",
        ),
        (
            Response({"y": BIG, "z": None}, {"w": SharedOutput((2,), "FP32")}, "id", final=False),
            "<Response 'id': y float32 [1000, 1000], z missing, w FP32 [2] in shared memory, "
            "more follow>",
        ),
        (Response({}), "<Response '': no tensors>"),
        (TritonServer(Path("models")), "<TritonServer on models, not running>"),
    ],
)
def test_a_repr_is_one_short_line(made: Any, expected: str) -> None:
    assert repr(made) == expected


def test_batches_of_many_images_are_cut() -> None:
    detections = endcap.Postprocessor("yolov8", num_classes=3)(HEAD)
    classes = endcap.Postprocessor("classification", num_classes=3)(HEAD[:, :3, 0].copy())
    for batch in (detections, classes):
        assert ", and 280 more" in repr(batch)
        assert len(repr(batch)) < 400
    assert "more" not in repr(endcap.Postprocessor("yolov8", num_classes=3)(HEAD[:20]))


def test_headers_are_named_without_their_values() -> None:
    call = Call("m", [InputTensor.of("x", BIG)], [OutputTensor("y")])
    for made in (SECRET, ClientArguments(options=SECRET), Connection(ADDRESS, SECRET), call):
        assert "secret" not in repr(made)
        assert " at 0x" not in repr(made)
    assert "headers={'Authorization': '...'}" in repr(SECRET)
