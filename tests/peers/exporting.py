"""Networks of ultralytics and torchvision with random weights, exported, and served by endcap."""

from __future__ import annotations

import os
import subprocess
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ultralytics import RTDETR, YOLO

from tests.peers.pictures import picture

SERVER_PYTHON = os.environ.get("ENDCAP_SERVER_PYTHON")
WITHOUT_SERVER = "ENDCAP_SERVER_PYTHON names no Python with the extra `server`"
SIDE = 160
SCRIPT = Path(__file__).with_name("served_export.py")


def export(folder: Path, yaml: str, **options: Any) -> tuple[Path, Any]:
    """Builds a network from ultralytics' YAML and has it export itself; gives file and network."""
    torch.manual_seed(0)
    network = (RTDETR if yaml.startswith("rtdetr") else YOLO)(yaml)
    spread_scores(network.model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter, about itself
        path = network.export(format="onnx", imgsz=SIDE, simplify=False, opset=17, **options)
    target = folder / "network.onnx"
    Path(path).replace(target)
    return target, network


def spread_scores(network: Any) -> None:
    """Gives the last layers of the class scores weights with which logits are about -1 +- 2.

    So, too, those of masks, keypoints and angles, which would be nearly the same everywhere.
    """
    head = network.model[-1]
    last = ("cv3", "one2one_cv3", "cv4")
    layers = [branch[-1] for name in last for branch in getattr(head, name, ())]
    layers += [*getattr(head, "dec_score_head", ())]
    layers = [layer for layer in layers if hasattr(layer, "weight")]  # no blocks of several

    def scale(layer: Any, inputs: Any) -> None:
        features = inputs[0].transpose(1, -1) if inputs[0].dim() == 4 else inputs[0]
        deviation = float((features - features.mean(dim=(0, 1, 2)[: features.dim() - 1])).std())
        torch.nn.init.normal_(layer.weight, std=2 / deviation / layer.weight[0].numel() ** 0.5)
        mean = features.flatten(0, -2).mean(dim=0)
        layer.bias.data = -1 - layer.weight.flatten(1) @ mean

    def normalise(layer: Any, inputs: Any) -> None:
        inner = inputs[0][..., 8:-8, 8:-8]  # borders are unlike all else to such a network
        layer.running_var, layer.running_mean = torch.var_mean(inner, dim=(0, 2, 3))

    hooks = [layer.register_forward_pre_hook(scale) for layer in layers]
    if hasattr(head, "proto"):  # else a mask would be its whole box, or nothing
        hooks.append(head.proto.cv3.bn.register_forward_pre_hook(normalise))
    with torch.no_grad():
        coarse = torch.rand(1, 3, 8, 8)
        network.eval()(torch.nn.functional.interpolate(coarse, SIDE, mode="bilinear"))
    for hook in hooks:
        hook.remove()


def serve(model: Path, *options: str) -> dict[str, Any]:
    """What each hop gave; see served_export.py."""
    photograph = model.with_suffix(".jpg")
    photograph.write_bytes(picture("bus"))
    result = model.with_suffix(".npz")
    command = [SERVER_PYTHON, SCRIPT, model, photograph, result, *options]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(np.load(result))


def spread_logits(network: Any, layers: Iterable[Any], std: float) -> None:
    """Gives last layers of class scores weights with which logits are about 0 +- std."""

    def scale(layer: Any, inputs: Any) -> None:
        deviation = float((inputs[0] - inputs[0].mean()).std())
        count = layer.weight[0].numel()
        torch.nn.init.normal_(layer.weight, std=std / deviation / count**0.5)
        torch.nn.init.zeros_(layer.bias)

    hooks = [layer.register_forward_pre_hook(scale) for layer in layers]
    with torch.no_grad():
        network.eval()([torch.rand(3, SIDE, SIDE)])
    for hook in hooks:
        hook.remove()


def export_torchvision(folder: Path, network: Any, side: int, *, as_list: bool) -> Path:
    """Exports a detector of torchvision, which takes a list of images or a batch of one."""
    image = torch.rand(3, side, side)
    target = folder / "network.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the tracer, about control flow
        arguments = ([image],) if as_list else (image[None],)
        torch.onnx.export(network, arguments, target, dynamo=False, opset_version=17)
    return target
