"""Semantic segmentation against ultralytics, torchvision's usual steps and transformers' SegFormer.

Logits are smooth, as networks' are: noise of a coarser grid, enlarged by PyTorch.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch.nn.functional import interpolate
from ultralytics.models.yolo.semantic.predict import SemanticSegmentationPredictor

import endcap
from tests.support.tolerances import PEER_PIXELS, PEER_PIXELS_TWICE_RESIZED

SOURCES = [(480, 640), (427, 641), (1080, 1920), (333, 2000), (640, 640)]
SIDE = 640
CLASSES = 19


def smooth_logits(seed: int, size: tuple[int, int], classes: int = CLASSES) -> Any:
    noise = torch.from_numpy(np.random.default_rng(seed).normal(0, 3, (1, classes, 9, 11)))
    return interpolate(noise.float(), size, mode="bicubic").contiguous()


def preprocessed(source: tuple[int, int], **fields: Any) -> Any:
    fields = {"size": SIDE, **fields}
    return endcap.preprocess(np.zeros((*source, 3), np.uint8), **fields).geometry[0]


def segment(head: Any, geometry: Any, **fields: Any) -> npt.NDArray[np.uint8]:
    fields = {"num_classes": CLASSES, "input_size": SIDE, **fields}
    maps: Any = endcap.Postprocessor("semantic", **fields)(head, geometry)
    ids: npt.NDArray[np.uint8] = maps[0].class_map
    return ids


def predicted(prediction: Any, source: tuple[int, int], **args: Any) -> npt.NDArray[np.uint8]:
    """What ultralytics' predictor makes of a network's output for one image."""
    predictor: Any = SimpleNamespace(
        args=SimpleNamespace(classes=None, **args),
        batch=(["image"],),
        model=SimpleNamespace(names={n: str(n) for n in range(CLASSES)}),
        _class_map_dtype=SemanticSegmentationPredictor._class_map_dtype,
    )
    image = torch.zeros(1, 3, SIDE, SIDE)
    (result,) = SemanticSegmentationPredictor.postprocess(
        predictor, prediction, image, [np.zeros((*source, 3), np.uint8)]
    )
    mask: Any = result.semantic_mask
    return np.asarray(mask.data).reshape(source)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64])
def test_class_ids_of_ultralytics_exports(source: tuple[int, int], dtype: Any) -> None:
    """All equal: nearest in float32 here and there."""
    ids = smooth_logits(1, (SIDE, SIDE))[0].argmax(0).numpy().astype(dtype)
    expected = predicted(torch.from_numpy(ids)[None], source)
    actual = segment(ids, preprocessed(source), class_map=True)
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("classes", [1, CLASSES])
def test_logits_of_the_input_s_size(source: tuple[int, int], classes: int) -> None:
    logits = smooth_logits(2, (SIDE, SIDE), classes)
    expected = predicted(logits, source)
    actual = segment(logits[0].numpy(), preprocessed(source), num_classes=classes)
    assert (actual == expected).mean() >= PEER_PIXELS


@pytest.mark.parametrize("source", SOURCES)
def test_smaller_logits(source: tuple[int, int]) -> None:
    """Ultralytics enlarges them to the input first, and those of the padding have a say."""
    logits = smooth_logits(3, (SIDE // 8, SIDE // 8))
    expected = predicted(logits, source)
    actual = segment(logits[0].numpy(), preprocessed(source))
    assert (actual == expected).mean() >= PEER_PIXELS_TWICE_RESIZED


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("stride", [1, 4, 8])
def test_interpolate_and_argmax_of_stretched_images(source: tuple[int, int], stride: int) -> None:
    """transformers' post_process_semantic_segmentation, and what torchvision's guide does."""
    logits = smooth_logits(4, (512 // stride, 512 // stride))
    resized = interpolate(logits, source, mode="bilinear", align_corners=False)
    expected = resized[0].argmax(dim=0).numpy()
    geometry = preprocessed(source, size=512, fit="stretch")
    actual = segment(logits[0].numpy(), geometry, input_size=512)
    assert (actual == expected).mean() >= PEER_PIXELS


def test_torchvision_without_a_resize() -> None:
    logits = smooth_logits(5, (520, 520))
    actual = segment(logits[0].numpy(), None, input_size=520)
    np.testing.assert_array_equal(actual, logits[0].argmax(0).numpy())
