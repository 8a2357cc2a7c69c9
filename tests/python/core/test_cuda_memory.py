"""An image whose masks find no room on a GPU fails alone: on an emulated one with little memory."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from cuda_inputs import require_cuda
from sample_heads import seg_outputs

import endcap
from endcap import _core, _cuda_input
from endcap._device import Target
from endcap.parameters import to_parameters

require_cuda()
pytestmark = pytest.mark.skipif(
    os.environ.get("ENDCAP_EMULATED_MEMORY_MB") != "90", reason="the GPU has memory enough"
)
FIELDS: dict[str, Any] = {
    **{"head": "yolov8_seg", "num_classes": 3, "mask_coefficients": 8, "max_detections": 60},
    **{"prototype_size": "608,640", "input_size": "608,640"},
}


def test_an_image_that_finds_no_room_touches_no_other() -> None:
    images = [seg_outputs(seed, anchors=900, num_classes=3, size=(608, 640)) for seed in (1, 2, 3)]
    random = np.random.default_rng(2)
    images[1]["head"][:2] = random.uniform(0, 3000, (2, 900))  # boxes of the whole picture
    images[1]["head"][2:4] = random.uniform(5000, 8000, (2, 900))
    tensors = [np.stack([image[name] for image in images]) for name in ("head", "protos")]
    core = _core.Postprocessor(to_parameters(FIELDS), 0, 0)

    def run(count: int) -> tuple[list[int], list[list[bytes]], list[int]]:
        out = [
            _cuda_input.empty((count, *shape), np.dtype(dtype), Target(0))
            for _, dtype, shape in core.outputs
        ]
        heads = [tensor[:count] for tensor in tensors]
        [(items, rle)] = core.run([(heads, None, None, out, True)], 0)
        return [code for code, *_ in items], rle, out[0].to_numpy().ravel().tolist()

    expected = endcap.Postprocessor(**FIELDS)([tensor[[0, 2]] for tensor in tensors]).rle
    assert expected is not None
    codes, rle, counts = run(3)
    assert codes == [0, endcap.Status.OUT_OF_MEMORY, 0]
    assert counts == [60, 0, 60]
    assert rle == [expected[0], [], expected[1]]
    assert run(1)[:2] == ([0], expected[:1])  # what was too much is not asked for again
