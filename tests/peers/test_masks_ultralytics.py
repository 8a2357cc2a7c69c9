"""Masks from prototypes against ultralytics' process_mask, and RLE against pycocotools."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from mask_scenes import PATHS, Scene, random_scene
from pycocotools import mask as coco
from tolerances import PEER_MASK_IOU
from ultralytics.utils.ops import process_mask, process_mask_native

from endcap.masks import decode_rle, encode_rle

INPUT = (640, 640)
SOURCES = [(1080, 1920), (1411, 1411), (427, 640), (600, 512), (375, 500), (2000, 333)]


def yolo_scene(seed: int, source: tuple[int, int] = INPUT) -> Scene:
    """Prototypes of the usual size; boxes that hold enough pixels for an IoU to mean something."""
    scene = random_scene(seed, shape=(32, 160, 160), count=20, source=source)
    boxes = scene.boxes.clip(0, 640)
    large = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1) > 10_000
    return dataclasses.replace(
        scene, boxes=boxes[large], coefficients=np.ascontiguousarray(scene.coefficients[large])
    )


def in_source(scene: Scene) -> np.ndarray:
    """The boxes in pixels of the source."""
    assert scene.geometry is not None
    scale, pad, size = np.split(scene.geometry[:6], 3)
    return ((scene.boxes - np.tile(pad, 2)) / np.tile(scale, 2)).clip(0, np.tile(size, 2))


def masks_of(scene: Scene, resolution: str, path: str) -> np.ndarray:
    size, rles = scene.encoded(resolution, path)
    return np.array([decode_rle(rle, size) for rle in rles])


def assert_same_masks(masks: np.ndarray, expected: np.ndarray) -> None:
    assert masks.shape == expected.shape
    assert len(masks) > 5
    both = (masks & expected).sum((1, 2))
    either = (masks | expected).sum((1, 2))
    assert (either > 500).sum() > 5
    assert (both[either > 500] / either[either > 500]).min() > PEER_MASK_IOU


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("resolution", ["prototype", "input"])
@pytest.mark.parametrize("seed", range(3))
def test_process_mask(path: str, resolution: str, seed: int) -> None:
    scene = yolo_scene(seed)
    expected = process_mask(
        torch.from_numpy(scene.prototypes),
        torch.from_numpy(scene.coefficients),
        torch.from_numpy(scene.boxes),
        INPUT,
        upsample=resolution == "input",
    )
    masks = masks_of(scene, resolution, path)
    assert_same_masks(masks, expected.numpy().astype(bool))
    packed = scene.packed(resolution, path)
    np.testing.assert_array_equal(np.unpackbits(packed, axis=-1, count=masks.shape[2]), masks)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("source", SOURCES)
def test_process_mask_native(path: str, source: tuple[int, int]) -> None:
    scene = yolo_scene(4, source)
    expected = process_mask_native(
        torch.from_numpy(scene.prototypes),
        torch.from_numpy(scene.coefficients),
        torch.from_numpy(in_source(scene)),
        source,
    )
    assert_same_masks(masks_of(scene, "source", path), expected.numpy().astype(bool))


@pytest.mark.parametrize("path", PATHS)
def test_masks_as_pycocotools_writes_them(path: str) -> None:
    scene = yolo_scene(5, (480, 640))
    for resolution in ("prototype", "input", "source"):
        size, rles = scene.encoded(resolution, path)
        for rle, mask in zip(rles, masks_of(scene, resolution, path), strict=True):
            encoded = coco.encode(np.asfortranarray(mask.astype(np.uint8)))
            assert encoded == {"size": list(size), "counts": rle}
            assert coco.area(encoded) == mask.sum()


@pytest.mark.parametrize("shape", [(1, 1), (1, 50), (50, 1), (37, 53), (0, 5), (200, 3000)])
@pytest.mark.parametrize("density", [0.0, 0.001, 0.5, 0.999, 1.0])
def test_any_mask_as_pycocotools_writes_it(shape: tuple[int, int], density: float) -> None:
    mask = np.random.default_rng(6).uniform(size=shape) < density
    rle = coco.encode(np.asfortranarray(mask.astype(np.uint8)))["counts"]
    assert encode_rle(mask) == rle
    np.testing.assert_array_equal(decode_rle(rle, shape), mask)
