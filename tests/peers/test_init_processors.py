"""Recipes that `endcap init` reads beside a network, against what transformers and timm prepare."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm
import transformers
from timm.data import create_transform, resolve_data_config

import endcap
from endcap.repository.options import InitOptions, decided_values
from endcap.repository.plan import make_plan
from tests.peers.pictures import picture, pillow
from tests.support import family_networks as families
from tests.support.tolerances import PROCESSOR_EXACT_SHARE, PROCESSOR_STEPS

PICTURES = ["bus", "flower", "odd"]
PROCESSORS = {
    "ViT": lambda: transformers.ViTImageProcessor(size={"height": 64, "width": 64}),
    "ConvNeXt": lambda: transformers.ConvNextImageProcessor(size={"shortest_edge": 64}),
    # With margins of which torchvision, and so endcap, crops the same half as transformers.
    "BiT": lambda: transformers.BitImageProcessor(
        size={"shortest_edge": 70}, crop_size={"height": 64, "width": 64}
    ),
    "EfficientNet": lambda: transformers.EfficientNetImageProcessor(
        size={"height": 64, "width": 64}, do_center_crop=False, resample=2
    ),
    "RT-DETR": lambda: transformers.RTDetrImageProcessor(size={"height": 64, "width": 64}),
}


def prepared(folder: Path, network: families.Network, jpeg: bytes) -> Any:
    """The picture as preprocess prepares it for a network with files beside it."""
    plan = make_plan(network.write(folder / "model.onnx"), InitOptions(), folder)
    options: dict[str, Any] = decided_values(plan.preprocess)
    return endcap.preprocess(jpeg, **options).images[0]


def assert_same(given: Any, expected: Any, std: Any) -> None:
    """In 8-bit steps of the picture."""
    steps = np.abs(given - expected) * np.reshape(std, (-1, 1, 1)) * 255
    assert steps.max() < PROCESSOR_STEPS + 0.01  # of float32, behind the normalisation
    assert np.mean(steps < 0.01) >= PROCESSOR_EXACT_SHARE


@pytest.mark.parametrize("name", PROCESSORS)
@pytest.mark.parametrize("photo", PICTURES)
def test_processors_of_transformers(name: str, photo: str, tmp_path: Path) -> None:
    processor = PROCESSORS[name]()
    processor.save_pretrained(tmp_path)
    network, kind = families.classifier(), "ViTForImageClassification"
    if name == "RT-DETR":
        network, kind = families.rtdetr(classes=7), "RTDetrForObjectDetection"
    labels = {str(number): f"class {number}" for number in range(7)}
    config = {"architectures": [kind], "id2label": labels}
    (tmp_path / "config.json").write_text(json.dumps(config))
    given = prepared(tmp_path, network, picture(photo))
    expected = processor(images=pillow(picture(photo)), return_tensors="np")["pixel_values"][0]
    std = np.array(processor.image_std) if processor.do_normalize else np.ones(1)
    if getattr(processor, "include_top", False):  # EfficientNet's, which divides twice
        std = std**2
    assert_same(given, np.asarray(expected), std)


@pytest.mark.parametrize("name", ["resnet18", "mobilenetv3_small_050", "vit_tiny_patch16_224"])
@pytest.mark.parametrize("photo", PICTURES)
def test_transforms_of_timm(name: str, photo: str, tmp_path: Path) -> None:
    network = timm.create_model(name, pretrained=False, num_classes=7)
    timm.models.save_for_hf(network, tmp_path, safe_serialization=False)
    data = resolve_data_config({}, model=network)
    side = data["input_size"][1]
    made = families.classifier(size=(side, side))
    given = prepared(tmp_path, made, picture(photo))
    transform = create_transform(**data, is_training=False)
    assert_same(given, transform(pillow(picture(photo))).numpy(), data["std"])
