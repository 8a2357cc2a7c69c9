"""Exports of networks by their own packages, and what `endcap init` makes of them.

python -m tests.peers.exported_networks [PART OF A NAME...]

It writes exports.json, in the peers' environment and with ENDCAP_SERVER_PYTHON. docs/exports.md is
made from these results, which test_exports.py compares. Weights are random.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torchvision import models as torchvision_models
from torchvision.models import detection

from tests.peers.exporting import export, export_torchvision
from tests.peers.torchvision_networks import backbone, faster_rcnn, retinanet, ssdlite
from tests.support.documented_heads import HEADS

RESULTS = Path(__file__).with_name("exports.json")
PACKAGES = ("torch", "torchvision", "ultralytics", "transformers", "timm", "onnxscript")
TRACER, DYNAMO = "torch.onnx.export, dynamo=False", "torch.onnx.export"
PRESETS = re.compile(r"^(preset|fit) +(\S+)")


@dataclass(frozen=True)
class Export:
    """A network and how it is exported.

    Attributes:
        library: Whose network it is.
        make: Writes the file, and those beside it, into a folder; returns the file.
        options: What `endcap init` has to be given.
    """

    library: str
    network: str
    exporter: str
    make: Callable[[Path], Path]
    options: Sequence[str] = ()

    @property
    def name(self) -> str:
        """A name for tests."""
        return f"{self.network}, {self.exporter}"


def _export(network: Any, side: int, folder: Path, *, dynamo: bool, names: bool = True) -> Path:
    """Export a network of one input and of as many outputs as it has."""
    target = folder / "model.onnx"
    options: dict[str, Any] = {} if dynamo else {"opset_version": 17}
    if names:
        options["input_names"] = ["pixel_values"]
    with warnings.catch_warnings(), contextlib.redirect_stdout(sys.stderr):
        warnings.simplefilter("ignore")  # of the exporters, about themselves
        torch.onnx.export(
            network.eval(), (torch.rand(1, 3, side, side),), target, dynamo=dynamo, **options
        )
    return target


class _Outputs(torch.nn.Module):
    """A network of transformers with some of its outputs, in this order."""

    def __init__(self, network: Any, *names: str) -> None:
        super().__init__()
        self.network, self.names = network, names

    def forward(self, pixel_values: Any) -> Any:
        """Return the outputs."""
        given = self.network(pixel_values)
        return tuple(getattr(given, name) for name in self.names)


def _torchvision() -> Iterator[Export]:
    def batch(make: Callable[[], Any], side: int) -> Callable[[Path], Path]:
        return lambda folder: export_torchvision(folder, make().eval(), side, as_list=False)

    none = {"weights": None, "weights_backbone": None}
    detectors = {
        "SSD300": (lambda: detection.ssd300_vgg16(**none), 300),
        "SSDlite320": (lambda: ssdlite()[0], 320),
        "Faster R-CNN": (lambda: faster_rcnn()[0], 160),
        "RetinaNet": (lambda: retinanet()[0], 160),
        "FCOS": (_fcos, 160),
        "Mask R-CNN": (lambda: _with_heads(detection.MaskRCNN, 91), 160),
        "Keypoint R-CNN": (lambda: _with_heads(detection.KeypointRCNN, 2), 160),
    }
    for name, (make, side) in detectors.items():
        yield Export("torchvision", name, TRACER, batch(make, side))
    yield Export(
        "torchvision",
        "SSDlite320",
        f"{TRACER}, for a list of one image",
        lambda folder: export_torchvision(folder, ssdlite()[0].eval(), 320, as_list=True),
    )
    for exporter in (TRACER, DYNAMO):
        yield Export(
            "torchvision",
            "MobileNetV3, a classifier",
            exporter,
            _maker(lambda: torchvision_models.mobilenet_v3_small(weights=None), exporter),
            ("--head", "classification", "--preset", "torchvision"),
        )


def _maker(make: Callable[[], Any], exporter: str) -> Callable[[Path], Path]:
    return lambda folder: _export(make(), 224, folder, dynamo=exporter == DYNAMO)


def _fcos() -> Any:
    anchors = detection.anchor_utils.AnchorGenerator(((8,), (16,), (32,)), ((1.0,),) * 3)
    return detection.FCOS(backbone(), 91, anchor_generator=anchors, min_size=160, max_size=160)


def _with_heads(make: Callable[..., Any], classes: int) -> Any:
    anchors = detection.anchor_utils.AnchorGenerator(((32, 64),) * 3, ((0.5, 1.0, 2.0),) * 3)
    return make(backbone(), classes, rpn_anchor_generator=anchors, min_size=160, max_size=160)


def _ultralytics() -> Iterator[Export]:
    plain = "yolov3-tiny yolov5n yolov8n yolov8n-seg yolov8n-pose yolov8n-obb yolov8n-cls"
    plain += " yolov9t yolov10n yolo11n yolo12n yolo26n yolo26n-seg rtdetr-l"
    rows: list[tuple[str, dict[str, bool]]] = [(name, {}) for name in plain.split()]
    rows += [("yolov8n", {"dynamic": True}), ("yolo11n", {"half": True})]
    rows += [(f"yolov8n{task}", {"nms": True}) for task in ("", "-seg", "-pose", "-obb")]
    rows.append(("yolov8n-seg", {"nms": True, "dynamic": True}))
    rows += [(f"yolo26n{task}", {"end2end": True}) for task in ("", "-seg", "-pose", "-obb")]
    for name, options in rows:
        exporter = "".join(["yolo export format=onnx", *(f" {key}=True" for key in options)])
        yield Export("Ultralytics", name, exporter, _exporting(name, options))


def _exporting(name: str, options: dict[str, bool]) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        before = Path.cwd()
        os.chdir(folder)  # where the exporter writes
        try:
            with contextlib.redirect_stdout(sys.stderr):
                return export(folder, f"{name}.yaml", **options)[0]
        finally:
            os.chdir(before)

    return make


def _transformers() -> Iterator[Export]:
    import transformers as hf

    vit = hf.ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
        image_size=64, patch_size=16, num_labels=10,
    )  # fmt: skip
    resnet = hf.ResNetConfig(embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], num_labels=7)
    size = {"height": 64, "width": 64}
    classifiers = {
        "ViT": (hf.ViTForImageClassification, vit, hf.ViTImageProcessor(size=size), 64),
        "ResNet": (
            hf.ResNetForImageClassification,
            resnet,
            hf.ConvNextImageProcessor(size={"shortest_edge": 64}),
            64,
        ),
    }
    for name, (kind, config, processor, side) in classifiers.items():
        for exporter in (TRACER, DYNAMO):
            make = _with_files(kind, config, processor, side, exporter, ["logits"])
            yield Export("transformers", f"{name}, a classifier", exporter, make)
    backbone_config = {
        "embedding_size": 16, "hidden_sizes": [16, 32, 48, 64], "depths": [1] * 4,
        "layer_type": "basic",
    }  # fmt: skip
    small = {
        "d_model": 32, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32,
        "encoder_attention_heads": 2, "decoder_attention_heads": 2,
    }  # fmt: skip
    stages = ["stage2", "stage3", "stage4"]
    queries = {
        **small, "encoder_hidden_dim": 32, "encoder_in_channels": [32, 48, 64],
        "decoder_in_channels": [32] * 3, "decoder_layers": 2, "num_queries": 50,
        "num_labels": 80, "num_denoising": 0,
    }  # fmt: skip
    rtdetr = hf.RTDetrConfig(
        backbone_config=hf.RTDetrResNetConfig(**backbone_config, out_features=stages), **queries
    )
    rtdetr_v2 = hf.RTDetrV2Config(
        backbone_config=hf.RTDetrResNetConfig(**backbone_config, out_features=stages), **queries
    )
    dfine = hf.DFineConfig(
        backbone_config=hf.HGNetV2Config(
            hidden_sizes=[16, 32, 48, 64], stage_in_channels=[16, 16, 32, 48],
            stage_mid_channels=[8] * 4, stage_out_channels=[16, 32, 48, 64],
            stem_channels=[3, 8, 16], stage_num_blocks=[1] * 4, stage_numb_of_layers=[1] * 4,
            depths=[1] * 4, out_features=stages,
        ),
        **queries,
    )  # fmt: skip
    detr = hf.DetrConfig(
        backbone_config=hf.ResNetConfig(**backbone_config, out_features=["stage4"]),
        use_timm_backbone=False, backbone=None, use_pretrained_backbone=False,
        **small, encoder_layers=1, decoder_layers=1, num_queries=60, num_labels=91,
    )  # fmt: skip
    yolos = hf.YolosConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
        image_size=[160, 160], num_detection_tokens=60, num_labels=91,
    )  # fmt: skip
    square = hf.RTDetrImageProcessor(size={"height": 160, "width": 160})
    detectors = {
        "RT-DETR": (hf.RTDetrForObjectDetection, rtdetr, square),
        "RT-DETRv2": (hf.RTDetrV2ForObjectDetection, rtdetr_v2, square),
        "D-FINE": (hf.DFineForObjectDetection, dfine, square),
        "DETR": (hf.DetrForObjectDetection, detr, hf.DetrImageProcessor()),
        "YOLOS": (hf.YolosForObjectDetection, yolos, hf.YolosImageProcessor()),
    }
    for name, (kind, config, processor) in detectors.items():
        for exporter in (TRACER, DYNAMO):
            if exporter == DYNAMO and name in ("RT-DETRv2", "D-FINE"):  # which it cannot convert
                continue
            outputs = ["logits", "pred_boxes"]
            make = _with_files(kind, config, processor, 160, exporter, outputs)
            yield Export("transformers", name, exporter, make)


def _with_files(
    kind: Any, config: Any, processor: Any, side: int, exporter: str, outputs: Sequence[str]
) -> Callable[[Path], Path]:
    """Write a network, and beside it what `save_pretrained` writes; outputs get no names."""

    def make(folder: Path) -> Path:
        torch.manual_seed(0)
        network = kind(config)
        network.config.architectures = [kind.__name__]
        network.config.save_pretrained(folder)
        processor.save_pretrained(folder)
        return _export(_Outputs(network, *outputs), side, folder, dynamo=exporter == DYNAMO)

    return make


def _timm() -> Iterator[Export]:
    import timm
    from timm.models import save_for_hf

    def make(folder: Path, exporter: str) -> Path:
        network = timm.create_model("mobilenetv3_small_050", pretrained=False)
        save_for_hf(network, folder, safe_serialization=False)
        return _export(network, 224, folder, dynamo=exporter == DYNAMO)

    for exporter in (TRACER, DYNAMO):
        yield Export(
            "timm",
            "MobileNetV3",
            exporter,
            lambda folder, exporter=exporter: make(folder, exporter),
        )


def _documented() -> Iterator[Export]:
    for head in HEADS:
        yield Export(
            "others, tiny networks with their heads",
            head.network,
            head.exporter,
            lambda folder, head=head: head.write(folder / "model.onnx"),
            head.options,
        )


EXPORTS = [*_torchvision(), *_ultralytics(), *_transformers(), *_timm(), *_documented()]


def export_and_init(each: Export, folder: Path) -> dict[str, str]:
    """Export a network and return what `endcap init` makes of it.

    Raises:
        RuntimeError: It refuses the network.
    """
    model = each.make(folder)
    python = os.environ.get("ENDCAP_SERVER_PYTHON", sys.executable)
    command = [python, "-m", "endcap", "init", model, "-o", folder / "repository", *each.options]
    done = subprocess.run(
        [*map(str, command)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "250"},
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    rows = dict(re.findall(r"^  (\w+) {2,}(\S+)", done.stdout, re.MULTILINE))
    reason = re.search(r"^  head .*?(not read)", done.stdout, re.MULTILINE)
    return {
        "library": each.library,
        "network": each.network,
        "exporter": each.exporter,
        "options": " ".join(each.options),
        "head": rows["head"],
        "preset": rows["preset"],
        "fit": rows.get("fit", ""),
        "without": "masks, keypoints" if reason else "",
    }


def main(*wanted: str) -> None:
    """Write the results of all networks, or of those whose name has a part that is wanted."""
    known = json.loads(RESULTS.read_text())["exports"] if RESULTS.is_file() else []
    rows = {(row["network"], row["exporter"]): row for row in known}
    for each in EXPORTS:
        if wanted and not any(part in each.name for part in wanted):
            continue
        print(each.name, file=sys.stderr)
        rows.pop((each.network, each.exporter), None)
        with tempfile.TemporaryDirectory(prefix="endcap-") as folder:
            try:
                rows[each.network, each.exporter] = export_and_init(each, Path(folder))
            except Exception as error:
                print(f"{each.name}: {error}", file=sys.stderr)
    keys = [(each.network, each.exporter) for each in EXPORTS]
    packages = json.dumps({name: version(name) for name in PACKAGES})
    lines = ",\n".join(json.dumps(rows[key]) for key in keys if key in rows)
    RESULTS.write_text(f'{{"packages": {packages},\n"exports": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main(*sys.argv[1:])
