"""Several threads at once, on streams of their own, get what one gets; memory does not pile up."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import endcap
from tests.gpu.pictures import FILES
from tests.support.sample_heads import yolov8_head

WORKERS = 6
ROUNDS = 4


@pytest.mark.parametrize("own", [True, False], ids=["each its own", "one for all"])
def test_threads_do_not_disturb_each_other(own: bool) -> None:
    files = list(FILES.values())
    heads = [yolov8_head(seed, anchors=500, num_classes=4) for seed in range(WORKERS)]
    expected = [endcap.preprocess(files[n : n + 5], size=64).images for n in range(WORKERS)]
    boxes = [endcap.Postprocessor(num_classes=4)(head).boxes for head in heads]
    shared = endcap.Preprocessor(size=64, device="cuda")
    shared_post = endcap.Postprocessor(num_classes=4, device="cuda")

    def work(worker: int) -> None:
        mine = endcap.Preprocessor(size=64, device="cuda", threads=1) if own else shared
        post = endcap.Postprocessor(num_classes=4, device="cuda") if own else shared_post
        for _ in range(ROUNDS):
            result = mine(files[worker : worker + 5])
            detections = post(heads[worker])
            np.testing.assert_array_equal(result.images.to_numpy(), expected[worker])
            np.testing.assert_array_equal(detections.boxes.to_numpy(), boxes[worker])

    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(work, range(WORKERS)))


def test_memory_does_not_pile_up(torch: Any) -> None:
    preprocessor = endcap.Preprocessor(device="cuda")
    files = [FILES["4:2:0"]] * 16

    def used() -> int:
        torch.cuda.synchronize()
        free, total = torch.cuda.mem_get_info()
        return int(total - free)

    for _ in range(20):
        preprocessor(files)
    before = used()
    for _ in range(200):
        preprocessor(files)
    assert used() <= before
