"""Masks of yolov8_seg on a GPU are the CPU's: bits and RLE."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import endcap
from endcap import _core
from endcap.cuda_array import Target
from endcap.parameters import to_parameters
from tests.gpu.both_devices import GEOMETRY, both
from tests.support.sample_heads import seg_outputs

RESOLUTIONS = ("input", "prototype", "source")
GEOMETRIES = np.repeat(GEOMETRY, 3, axis=0)
GEOMETRIES[1] = (0.25, 0.3, 0.0, 40.5, 2560.0, 1700.0, 1.0, 0.0)
GEOMETRIES[2] = (4.0, 4.0, 0.0, 4.0, 160.0, 150.0, 1.0, 0.0)


def mask_fields(resolution: str, **more: object) -> dict[str, Any]:
    return {
        **{"head": "yolov8_seg", "num_classes": 3, "mask_coefficients": 8, "max_detections": 30},
        **{"prototype_size": "152,160", "input_size": "608,640", "mask_resolution": resolution},
        **more,
    }


def images(count: int = 3, size: tuple[int, int] = (152, 160)) -> dict[str, np.ndarray]:
    parts = [seg_outputs(seed, anchors=900, num_classes=3, size=size) for seed in range(count)]
    return {name: np.stack([part[name] for part in parts]) for name in parts[0]}


@pytest.mark.parametrize("resolution", RESOLUTIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_masks(resolution: str, dtype: type[np.floating[Any]]) -> None:
    tensors = {name: array.astype(dtype) for name, array in images().items()}
    packs = resolution != "source"
    detections = both(tensors, GEOMETRIES, **mask_fields(resolution, packed_masks=packs))
    assert detections.rle is not None
    assert all(len(rle) == 30 for rle in detections.rle)
    assert max(len(mask) for rle in detections.rle for mask in rle) > 100
    if packs:
        assert detections.packed_masks is not None
        assert detections.packed_masks.any(axis=(2, 3))[:, 0].all()


@pytest.mark.parametrize("size", [(300, 640), (607, 3), (96, 700)])
def test_prototypes_larger_than_the_input(size: tuple[int, int]) -> None:
    """A tile lies above more prototype pixels than shared memory has room for."""
    fields = mask_fields("input", prototype_size=size, input_size=(64, 200), packed_masks=True)
    both(images(2, size=size), **fields)


def test_more_rle_than_an_engine_has_seen() -> None:
    """Its memory grows, and is enough for what came before."""
    fields = mask_fields("source", prototype_size="304,320", score_threshold=0.01)
    postprocessor = endcap.Postprocessor(**fields, device="cuda")
    reference = endcap.Postprocessor(**fields)
    tensors = images(2, size=(304, 320))
    tensors["protos"] += np.random.default_rng(1).normal(0, 1, tensors["protos"].shape)
    tensors["head"][1, 2:4] = 1000.0  # the boxes, whole pictures
    one = {name: array[:1] for name, array in tensors.items()}
    for part in (one, tensors, one):
        assert postprocessor(part).rle == reference(part).rle
    longest = max(len(mask) for rle in reference(tensors).rle or () for mask in rle)
    assert longest > 50_000  # three times the first guess for all masks of an image


def test_a_bad_image_among_others() -> None:
    tensors = images()
    fields = mask_fields("input", packed_masks=True)
    good = endcap.Postprocessor(**fields)(tensors)
    tensors["protos"][1] = np.nan
    postprocessor = endcap.Postprocessor(**fields, device="cuda")
    with pytest.raises(endcap.InvalidArgumentError, match="image index 1 of 3: the mask logit of"):
        postprocessor(tensors)
    enqueued = postprocessor.enqueue(tensors).to_numpy()
    assert enqueued.status.tolist() == [0, endcap.Status.INVALID_ARGUMENT, 0]
    assert enqueued.mask_size is not None
    assert enqueued.packed_masks is not None
    assert not enqueued.packed_masks[1].any()
    assert enqueued.mask_size[1].tolist() == [0, 0]
    np.testing.assert_array_equal(enqueued[2].masks, good[2].masks)


def test_enqueue_makes_no_rle() -> None:
    enqueued = endcap.Postprocessor(**mask_fields("source"), device="cuda").enqueue(
        images(), GEOMETRIES
    )
    assert enqueued.to_numpy().mask_size.tolist() == [[1000, 1200], [1700, 2560], [150, 160]]
    with pytest.raises(endcap.InvalidArgumentError, match="enqueue made no masks"):
        enqueued[0].masks  # noqa: B018
    core = _core.Postprocessor([("head", "yolov8_seg")], 0, 0)
    tensors = [np.zeros((1, *shape), np.float32) for shape in ((116, 1), (32, 160, 160))]
    with pytest.raises(endcap.UnsupportedError, match="wait for it with Run"):
        core.enqueue([(tensors, None, None, [None] * len(core.outputs), True)], 0)


def test_an_image_that_finds_no_room_touches_no_other(
    cuda: endcap.CudaState, request: pytest.FixtureRequest
) -> None:
    """In a separate process: the memory of the emulated GPU is set when its library is loaded."""
    if "emulation" not in cuda.devices[0].name:
        pytest.skip("the GPU has memory enough")
    if os.environ.get("ENDCAP_EMULATED_MEMORY_MB") != "90":
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", request.node.nodeid],
            cwd=request.config.rootpath,
            env=os.environ | {"ENDCAP_EMULATED_MEMORY_MB": "90"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert "1 passed" in done.stdout, done.stdout + done.stderr
        return
    fields = mask_fields("input", prototype_size="608,640", max_detections=60)
    images = [seg_outputs(seed, anchors=900, num_classes=3, size=(608, 640)) for seed in (1, 2, 3)]
    random = np.random.default_rng(2)
    images[1]["head"][:2] = random.uniform(0, 3000, (2, 900))  # boxes of the whole picture
    images[1]["head"][2:4] = random.uniform(5000, 8000, (2, 900))
    tensors = [np.stack([image[name] for image in images]) for name in ("head", "protos")]
    core = _core.Postprocessor(to_parameters(fields), 0, 0)

    def run(count: int) -> tuple[list[int], list[list[bytes]], list[int]]:
        out = [
            Target(0).empty((count, *shape), np.dtype(dtype)) for _, dtype, shape in core.outputs
        ]
        heads = [tensor[:count] for tensor in tensors]
        [(items, rle)] = core.run([(heads, None, None, out, True)], 0)
        return [code for code, *_ in items], rle, out[0].to_numpy().ravel().tolist()

    expected = endcap.Postprocessor(**fields)([tensor[[0, 2]] for tensor in tensors]).rle
    assert expected is not None
    codes, rle, counts = run(3)
    assert codes == [0, endcap.Status.OUT_OF_MEMORY, 0]
    assert counts == [60, 0, 60]
    assert rle == [expected[0], [], expected[1]]
    assert run(1)[:2] == ([0], expected[:1])  # what was too much is not asked for again
