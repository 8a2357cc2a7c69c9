"""A cascade's steps for several requests, over models that are functions of the test."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from server_requests import StubTensor

from endcap.python_backend.cascade import Cascade, CascadeJob
from endcap.python_backend.model_calls import ModelCall, Tensor
from endcap.triton.cascade_settings import CascadeSettings, parse_routes

SETTINGS = CascadeSettings(classifiers=parse_routes("*=rois+kinds"))


class OpenRequest:
    def is_cancelled(self) -> bool:
        return False


def job_of(*files: bytes) -> CascadeJob:
    encoded = StubTensor("encoded", np.array([[file] for file in files], np.object_))
    return CascadeJob(OpenRequest(), encoded, ["class_ids"])


def tensors(arrays: Mapping[str, Any]) -> dict[str, Tensor]:
    return {name: StubTensor(name, array) for name, array in arrays.items()}


def one_detection_each(images: int) -> dict[str, Tensor]:
    return tensors(
        {
            "num_detections": np.ones((images, 1), np.int32),
            "detection_boxes": np.zeros((images, 1, 4), np.float32),
            "detection_scores": np.ones((images, 1), np.float32),
            "detection_classes": np.zeros((images, 1), np.int32),
        }
    )


def test_calls_for_a_request_that_fails_end_before_the_run_does() -> None:
    ended = []

    async def call(made: ModelCall) -> dict[str, Tensor]:
        if made.model == "detect":
            return one_detection_each(2)
        (file,) = np.asarray(made.inputs["encoded"])
        if file == b"bad":
            raise RuntimeError("no picture")
        await asyncio.sleep(0.05)
        ended.append(file)
        return tensors({"images": np.zeros((1, 2), np.float32), "status": np.zeros(1, np.int32)})

    async def run() -> int:
        await Cascade(SETTINGS, call).run([job])
        return len(asyncio.all_tasks())

    job = job_of(b"good", b"bad")
    assert asyncio.run(run()) == 1  # run() itself
    assert ended == [b"good"]
    with pytest.raises(RuntimeError, match="no picture"):
        job.outputs()
