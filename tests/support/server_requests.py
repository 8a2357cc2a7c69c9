"""Requests as the server's stub hands them to a Python model, for tests of what reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


class StubTensor:
    """An input tensor, in host memory or on a GPU, with the methods of the stub's."""

    def __init__(self, name: str, source: Any) -> None:
        self._name = name
        self._source = source

    def name(self) -> str:
        return self._name

    def is_cpu(self) -> bool:
        return isinstance(self._source, np.ndarray)

    def as_numpy(self) -> np.ndarray:
        assert self.is_cpu(), "the stub raises here"
        return self._source

    def __dlpack__(self, *, stream: Any = None) -> Any:  # the stub's takes nothing else
        return self._source.__dlpack__(stream=stream)

    def __dlpack_device__(self) -> tuple[int, int]:
        device: tuple[int, int] = self._source.__dlpack_device__()
        return device


class StubRequest:
    """A request that wants some outputs."""

    def __init__(self, tensors: Mapping[str, Any], wanted: Sequence[str]) -> None:
        self._tensors = [StubTensor(name, source) for name, source in tensors.items()]
        self._wanted = set(wanted)

    def inputs(self) -> list[StubTensor]:
        return self._tensors

    def requested_output_names(self) -> set[str]:
        return self._wanted


def run_stage(stage: Any, requests: Sequence[StubRequest]) -> list[dict[str, Any]]:
    """The results of all requests from one run of a stage, in host memory."""
    jobs = [stage.prepare(request) for request in requests]
    stage.run(jobs)
    return [
        {
            name: rows.copy() if isinstance(rows, np.ndarray) else rows.to_numpy()
            for name, rows in stage.finish(job).items()
        }
        for job in jobs
    ]
