"""YOLO11n without training, with about as many detections in a picture as a street has.

python -m benchmarks.video.network FRAME.png NETWORK.onnx
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.paths import BUILD

SIDE = 640
CLASSES = 80
SCORE_THRESHOLD = 0.25
IOU_THRESHOLD = 0.7
_CANDIDATES = 120  # anchors above the threshold, before suppression
_NEVER = -20.0  # a logit


def export(frame: Path, target: Path) -> None:
    """Write the network, its class scores such that a frame has some detections."""
    os.environ.setdefault("YOLO_CONFIG_DIR", str(BUILD))
    import torch
    from ultralytics import YOLO

    torch.manual_seed(0)
    network = YOLO("yolo11n.yaml")
    with Image.open(frame) as picture:
        pixels = np.asarray(picture.convert("RGB").resize((SIDE, SIDE)), np.float32) / 255
    _set_scores(network.model, torch.from_numpy(pixels.transpose(2, 0, 1)[None].copy()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter, about itself
        made = network.export(format="onnx", imgsz=SIDE, simplify=False, opset=17)
    Path(made).replace(target)


def _set_scores(network: Any, image: Any) -> None:
    """Give the last layers of the class scores weights with which the first class is seen."""
    import torch

    layers = [branch[-1] for branch in network.model[-1].cv3]
    logits: list[Any] = []

    def take(layer: Any, inputs: Any, output: Any) -> None:
        logits.append(output[:, 0].flatten())

    for layer in layers:
        torch.nn.init.normal_(layer.weight)
        torch.nn.init.constant_(layer.bias, 0)
    hooks = [layer.register_forward_hook(take) for layer in layers]
    with torch.no_grad():
        network.eval()(image)
        for hook in hooks:
            hook.remove()
        scales = [4 / max(float(each.std()), 1e-6) for each in logits]
        scaled = torch.cat([each * scale for each, scale in zip(logits, scales, strict=True)])
        lowest = float(torch.topk(scaled, _CANDIDATES).values[-1])
        shift = float(np.log(SCORE_THRESHOLD / (1 - SCORE_THRESHOLD))) - lowest
        for layer, scale in zip(layers, scales, strict=True):
            layer.weight *= scale
            layer.bias.fill_(_NEVER)
            layer.bias[0] = shift


if __name__ == "__main__":
    export(Path(sys.argv[1]), Path(sys.argv[2]))
