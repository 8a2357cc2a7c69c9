"""A server that is stopped and started again while clients work: no image is lost."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from endcap.client import ImageResult, Results
from tests.triton import client_models
from tests.triton.client_layouts import LAYOUTS, Layout
from tests.triton.running_server import run_server, wait_for

OPTION = "--disable-auto-complete-config"


@pytest.mark.slow
def test_a_folder_of_images_outlasts_a_restart(tmp_path: Path) -> None:
    client_models.write_detect(tmp_path)
    is_finished = False

    def images() -> Iterator[bytes]:
        while not is_finished:
            yield b"\xff" * 20
            time.sleep(0.05)

    def detect(layout: Layout, options: dict[str, Any], reported: list[ImageResult]) -> Results:
        with layout.client(server, **options) as client:
            return client.detect(images(), on_result=reported.append)

    def wait_for_more(count: int) -> None:
        """Waits until each client has `count` more responses."""
        goals = [len(each) + count for each in reported]
        wait_for(lambda: all(len(n) > goal for n, goal in zip(reported, goals, strict=True)))

    shared = {"shared_memory": "system", "region_bytes": 1 << 16}
    runs = [(layout, options) for layout in LAYOUTS for options in ({}, shared)]
    reported: list[list[ImageResult]] = [[] for _ in runs]
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(len(runs)) as threads:
        first = stack.enter_context(contextlib.ExitStack())
        server = first.enter_context(run_server(tmp_path, OPTION))
        futures = [threads.submit(detect, *run, r) for run, r in zip(runs, reported, strict=True)]
        try:
            wait_for_more(10)
            first.close()
            stack.enter_context(run_server(tmp_path, OPTION, ports=server.ports))
            wait_for_more(20)
        finally:
            is_finished = True
        results = [future.result() for future in futures]
    for each in results:
        assert {(result.status, result.error) for result in each} == {("ok", None)}
        assert len(each) > 30
