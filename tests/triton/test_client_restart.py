"""A server that is stopped and started again while clients work: no image is lost."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from endcap.client import AsyncDetectionClient, DetectionClient, ImageResult, Results
from tests.triton import detecting_models
from tests.triton.running_server import RunningServer, run_server, wait_for

OPTIONS = (
    "--disable-auto-complete-config",
    "--model-control-mode=explicit",
    "--load-model=detect",
    "--allow-metrics=false",
)
SHARED: dict[str, Any] = {"shared_memory": "system", "region_bytes": 1 << 16}


class Runs:
    """Clients of each kind that detect until they are told to finish."""

    def __init__(self, server: RunningServer, threads: ThreadPoolExecutor) -> None:
        self.is_finished = False
        self.reported: list[list[ImageResult]] = []
        self.futures: list[Future[Results]] = []
        for url in (f"grpc://{server.grpc}", f"http://{server.http}"):
            for options in ({}, SHARED):
                self.reported.append([])
                run = (url, options, self.reported[-1])
                self.futures.append(threads.submit(self._detect, *run))
            self.reported.append([])
            run = (url, SHARED, self.reported[-1])
            self.futures.append(threads.submit(asyncio.run, self._detect_async(*run)))

    def wait_for_more(self, images: int) -> None:
        """Waits until each client has so many more responses."""
        before = [len(each) for each in self.reported]
        wait_for(
            lambda: all(
                len(now) > then + images for now, then in zip(self.reported, before, strict=True)
            )
        )

    def _images(self) -> Iterator[bytes]:
        while not self.is_finished:
            yield b"\xff" * 20
            time.sleep(0.05)

    def _detect(self, url: str, options: Any, reported: list[ImageResult]) -> Results:
        with DetectionClient(url, **options) as client:
            return client.detect(self._images(), on_result=reported.append)

    async def _detect_async(self, url: str, options: Any, reported: list[ImageResult]) -> Results:
        async with AsyncDetectionClient(url, **options) as client:
            return await client.detect(self._images(), on_result=reported.append)


@pytest.mark.slow
def test_a_folder_of_images_outlasts_a_restart(tmp_path: Path) -> None:
    detecting_models.write_all(tmp_path)
    with contextlib.ExitStack() as stack, ThreadPoolExecutor() as threads:
        first = stack.enter_context(contextlib.ExitStack())
        server = first.enter_context(run_server(tmp_path, *OPTIONS))
        runs = Runs(server, threads)
        try:
            runs.wait_for_more(10)
            first.close()
            stack.enter_context(run_server(tmp_path, *OPTIONS, ports=server.ports))
            runs.wait_for_more(20)
        finally:
            runs.is_finished = True
        results = [future.result() for future in runs.futures]
    for each in results:
        assert {(result.status, result.error) for result in each} == {("ok", None)}
        assert len(each) > 30
