"""Metadata of a network: of its exporter in the file, and of configuration files next to it."""

from __future__ import annotations

import ast
import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

RTDETR_DECODER = "RTDETRDecoder"  # `head` in the metadata of Ultralytics' RT-DETR
_PROCESSORS = ("preprocessor_config.json", "processor_config.json")
_MAX_BYTES = 16 * 2**20  # with the names of some ten thousand classes
_MAX_CLASSES = 1_000_000
_TASKS = {
    "ForImageClassification": "classify",
    "ForObjectDetection": "detect",
    "ForSemanticSegmentation": "semantic",
}


@dataclass(frozen=True)
class ImageProcessor:
    """How a file next to a network says that its images are prepared."""

    source: str  # the file, in words
    content: Mapping[str, Any]
    is_timm: bool  # whether it is `pretrained_cfg` of timm's config.json, not transformers'


@dataclass(frozen=True)
class NetworkMetadata:
    """What is declared about a network; None or "" where nothing is.

    The keys in the file are those of Ultralytics' exporter, which others have taken over: `names`
    (the classes, as a Python dict or list), `task`, `imgsz`, `head`, `kpt_shape`, `end2end`,
    `args`.
    """

    names: tuple[str, ...] | None
    task: str
    size: tuple[int, int] | None  # height and width
    head: str  # the class of the network's last module
    keypoints: tuple[int, int] | None  # how many, and how many numbers each has
    is_end2end: bool  # whether the network has a branch without suppression behind it
    is_ultralytics: bool
    has_nms: bool = False  # whether the exporter has put suppression behind the head
    nms_batch: int | None = None  # how many images that was exported for
    names_source: str = "the exporter's metadata"
    num_classes: int | None = None  # by the names, or where only their number is known
    processor: ImageProcessor | None = None


def read_metadata(metadata: Mapping[str, str]) -> NetworkMetadata:
    """Return the metadata of a file; a value in a form that is not understood counts as none."""
    arguments = _literal(metadata.get("args", ""))
    arguments = arguments if isinstance(arguments, dict) else {}
    has_nms = arguments.get("nms") is True
    batch = arguments.get("batch")
    names = _class_names(_literal(metadata.get("names", "")))
    return NetworkMetadata(
        names=names,
        task=metadata.get("task", ""),
        size=_pair(_literal(metadata.get("imgsz", ""))),
        head=metadata.get("head", ""),
        keypoints=_pair(_literal(metadata.get("kpt_shape", ""))),
        is_end2end=metadata.get("end2end", "") == "True",
        is_ultralytics=metadata.get("author") == "Ultralytics"
        or {"names", "stride"} <= {*metadata},
        has_nms=has_nms,
        nms_batch=batch if has_nms and type(batch) is int and batch > 0 else None,
        num_classes=len(names) if names else None,
    )


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def _class_names(value: Any, *, only_texts: bool = False) -> tuple[str, ...] | None:
    """Return the names of a list, or of a dict by numbers from 0, which may be texts.

    `only_texts` leaves the name of a class empty that is not a text; without any there are none.
    """
    with contextlib.suppress(KeyError, TypeError, ValueError):  # a number too long to print
        if isinstance(value, dict):
            by_id = {int(key): each for key, each in value.items()}
            value = [by_id[number] for number in range(len(by_id))]
        if isinstance(value, (list, tuple)) and only_texts:
            names = [each if isinstance(each, str) else "" for each in value]
            return tuple(names) if any(names) else None
        if isinstance(value, (list, tuple)) and value and None not in value:
            return tuple(map(str, value))
    return None


def _pair(value: Any) -> tuple[int, int] | None:
    """Two numbers from 1 to the largest int32; one is both."""
    numbers = [value, value] if type(value) is int else value
    is_pair = isinstance(numbers, (list, tuple)) and len(numbers) == 2
    if is_pair and all(type(number) is int and 0 < number < 2**31 for number in numbers):
        return (numbers[0], numbers[1])
    return None


def add_companions(metadata: NetworkMetadata, network: Path) -> NetworkMetadata:
    """Return the metadata with what it lacks from the files next to a network.

    transformers, Optimum and timm write `config.json` with the names of the classes and the
    architecture. How images are prepared is in `preprocessor_config.json` of transformers, or under
    `pretrained_cfg` in timm's `config.json`. They lie in the network's folder, or above it where
    that is called `onnx`. Files in another form say nothing.
    """
    if metadata.is_ultralytics:
        return metadata
    folder = network.resolve().parent
    for each in (network.parent, *([folder.parent] if folder.name == "onnx" else [])):
        config = _read_json(each / "config.json")
        processor = _find_processor(each, config)
        if config or processor:
            return _complete(metadata, config, processor)
    return metadata


def _find_processor(folder: Path, config: Mapping[str, Any]) -> ImageProcessor | None:
    for name in _PROCESSORS:
        content = _read_json(folder / name)
        inner = content.get("image_processor")
        content = inner if isinstance(inner, dict) else content
        if "size" in content or "image_mean" in content:
            return ImageProcessor(f"{name} next to the network", content, is_timm=False)
    timm = config.get("pretrained_cfg")
    if not isinstance(timm, dict):
        return None
    return ImageProcessor("pretrained_cfg in config.json next to the network", timm, is_timm=True)


def _complete(
    metadata: NetworkMetadata, config: Mapping[str, Any], processor: ImageProcessor | None
) -> NetworkMetadata:
    is_timm = isinstance(config.get("pretrained_cfg"), dict)
    given = config.get("id2label") or config.get("label_names")
    names = _class_names(given, only_texts=True)
    count = len(names) if names else config.get("num_classes") if is_timm else None
    if type(count) is not int or not 0 < count <= _MAX_CLASSES:
        count = None
    if names and all(name == f"LABEL_{number}" for number, name in enumerate(names)):
        names = None
    architectures = config.get("architectures")
    first = str(architectures[0]) if isinstance(architectures, list) and architectures else ""
    task = next((task for end, task in _TASKS.items() if first.endswith(end)), "")
    if is_timm and count:
        task = "classify"
    elif not task and processor and processor.content.get("format") == "coco_detection":
        task = "detect"
    return replace(
        metadata,
        names=metadata.names or names,
        names_source=metadata.names_source if metadata.names else "config.json next to the network",
        num_classes=metadata.num_classes or count,
        task=metadata.task or task,
        processor=processor,
    )


def _read_json(path: Path) -> Mapping[str, Any]:
    try:
        if not path.is_file() or path.stat().st_size > _MAX_BYTES:
            return {}
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
