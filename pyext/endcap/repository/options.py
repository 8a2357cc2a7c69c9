"""Options of `endcap init`, head families, and `Decision`, a chosen value with its reason."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from endcap.errors import InvalidArgumentError
from endcap.parameters import suggestion
from endcap.triton.model_contract import postprocess_contract, preprocess_contract

AS_GIVEN = "as given"
NO_HEAD = "none"  # outputs that are returned unread, by an ensemble without postprocess
# Parameters with an option of their own, not for --set.
_HAVE_OPTIONS = {
    "head": "--head",
    "num_classes": "--num-classes or --labels",
    "preset": "--preset",
    "size": "--size",
    "tile": "--tile",
}
MERGE_PARAMETERS = ("merge", "merge_metric", "merge_threshold")  # of an image's tiles
_TILE_PARAMETERS = ("tile_overlap", "tile_full", *MERGE_PARAMETERS)
_ROW_PARTS = {"image": 1, "box": 4, "score": 1, "class": 1}  # and how many columns each has
_MODEL_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")


@dataclass(frozen=True)
class Decision:
    """A value that was recognised or given, and why it is this one."""

    value: str
    reason: str

    @property
    def is_given(self) -> bool:
        """Whether the user gave this value; its reason is `AS_GIVEN` then."""
        return self.reason == AS_GIVEN


def with_reason(values: Mapping[str, str], reason: str) -> dict[str, Decision]:
    """Return the decisions for values that have one reason."""
    return {name: Decision(value, reason) for name, value in values.items()}


def decided_values(decisions: Mapping[str, Decision]) -> dict[str, str]:
    """Return the values without the reasons."""
    return {name: decision.value for name, decision in decisions.items()}


def row_places(columns: str) -> tuple[tuple[int, ...], int]:
    """Return the places of box, score and class in a row, and the length of a row.

    Raises InvalidArgumentError for columns that are not those of a detection.
    """
    names = columns.split(",")
    if not {"box", "score", "class"} <= {*names} <= {*_ROW_PARTS} or len({*names}) < len(names):
        raise InvalidArgumentError(
            f"columns is '{columns}': give box, score, class and, where a row has the image's "
            "number, image, each once, in the order of the columns, such as image,box,class,score"
        )
    parts = [name for name in names for _ in range(_ROW_PARTS[name])]
    places = (k for part in ("box", "score", "class") for k, n in enumerate(parts) if n == part)
    return tuple(places), len(parts)


# What runs the network; endcap_onnx is ONNX Runtime in endcap's backend.
Runtime: TypeAlias = Literal["endcap_onnx", "onnxruntime", "tensorrt", "openvino"]
# What the stages run in: a compiled backend, a Python-backend model on the same core, or DALI in a
# Python-backend model or in NVIDIA's DALI backend.
PreprocessBackend: TypeAlias = Literal["cpp", "python", "dali"]
PostprocessBackend: TypeAlias = Literal["cpp", "python"]


_THRESHOLDS = ("score_threshold", "score_thresholds", "classes")
_LIMITS = ("max_candidates", "max_detections")
_GENERAL = ("num_classes", *_THRESHOLDS, *_LIMITS, "on_nan", *MERGE_PARAMETERS)
_BOXES = ("box_format", "box_unit", "input_size")
_SUPPRESSION = ("iou_threshold", "multi_label", "class_agnostic")
_ANCHORS = ("anchors", "anchor_grid", "anchor_offset", "variances")
_MASKS = ("mask_coefficients", "prototype_size", "mask_resolution")
_KEYPOINTS = ("num_keypoints", "keypoint_values")
_QUERIES = (*_GENERAL, "multi_label", *_BOXES, "activation", "joined", "background")
_YOLO = (*_GENERAL, *_SUPPRESSION, *_BOXES, "activation")

# The families of heads, as `--head` takes them, and the parameters of postprocess that each reads;
# the others change nothing for it. docs/heads.md describes them.
HEAD_PARAMETERS: dict[str, tuple[str, ...]] = {
    "yolov5": _YOLO,
    "yolox": (*_GENERAL, *_SUPPRESSION, "input_size", "activation", "anchor_grid"),
    "yolov8": _YOLO,
    "yolov8_seg": (*_YOLO, *_MASKS),
    "yolov8_pose": (*_YOLO, *_KEYPOINTS),
    "yolov8_obb": (*_YOLO, "rotated_nms", "angle_range"),
    "end2end": (*_GENERAL, *_BOXES, "activation"),
    "end2end_seg": (*_GENERAL, *_BOXES, "activation", *_MASKS),
    "end2end_pose": (*_GENERAL, *_BOXES, "activation", *_KEYPOINTS),
    "end2end_obb": (*_GENERAL, *_BOXES, "activation", "angle_range"),
    "rtdetr": _QUERIES,
    "rtdetr_seg": (*_QUERIES, "prototype_size", "mask_resolution"),
    "ssd": (*_GENERAL, *_SUPPRESSION, *_BOXES, "activation", "background", *_ANCHORS),
    "efficient_nms": (*_GENERAL, *_BOXES, "background"),
    "detections": (*_GENERAL, *_BOXES, "background"),
    "classification": ("num_classes", "top_k", "activation", "multi_label", *_THRESHOLDS),
    "semantic": (
        *("num_classes", "classes", "input_size", "mask_resolution"),
        *("class_map", "class_map_resize", "ignore_label"),
    ),
}


@dataclass(frozen=True, kw_only=True)
class InitOptions:
    """Options of `endcap init`; what is None is recognised from the network."""

    runtime: Runtime = "endcap_onnx"
    preprocess: PreprocessBackend = "cpp"
    postprocess: PostprocessBackend = "cpp"
    head: str | None = None
    preset: str | None = None
    size: tuple[int, int] | None = None
    labels: Path | None = None
    num_classes: int | None = None
    columns: str | None = None  # of a row of detections, such as image,box,class,score
    settings: Mapping[str, str] = field(default_factory=dict)  # other parameters by name
    max_batch: int = 16
    tile: int | None = None  # pixels of a side; an image has at most max_batch tiles
    instances: int = 1
    name: str | None = None
    self_contained: bool = False
    trial_timeout: float = 120.0  # seconds
    trial_memory: float = 8.0  # GiB, without files that are mapped

    def __post_init__(self) -> None:
        if self.name is not None and (
            not _MODEL_NAME.fullmatch(self.name) or self.name == "README.md"
        ):
            raise InvalidArgumentError(
                f"name is '{self.name}': models are called by letters, digits and ._+-, and begin "
                "with a letter, a digit or _"
            )
        if self.columns is not None:
            row_places(self.columns)
        if self.tile and (self.preprocess, self.postprocess) != ("cpp", "cpp"):
            raise InvalidArgumentError(
                "--tile is for the compiled backends; leave --preprocess and --postprocess out"
            )
        if self.head not in (None, NO_HEAD, *HEAD_PARAMETERS):
            raise InvalidArgumentError(
                f"--head is '{self.head}', which is not a family that this version reads"
                f"{suggestion('head', self.head or '') or '.'} Give one of "
                f"{', '.join(HEAD_PARAMETERS)}, or {NO_HEAD} for outputs that are returned unread"
            )
        self._check_settings()
        if self.tile is not None:
            self._check_tile_settings()

    def _check_tile_settings(self) -> None:
        if self.settings.get("merge") == "none":
            raise InvalidArgumentError(
                "--set merge=none: the detections of an image's tiles have to be merged; give nms "
                "or nmm, or leave --tile out"
            )
        most = self.settings.get("max_rois", "")
        if most.isdecimal() and int(most) > self.max_batch:
            raise InvalidArgumentError(
                f"--set max_rois={most}: an image's tiles are one batch of the network; give "
                f"--max-batch {most}, too"
            )

    def _check_settings(self) -> None:
        known = preprocess_contract({}).parameters
        stages = "neither preprocess nor postprocess"
        if self.head == NO_HEAD:
            stages = "there is no postprocess with --head none, and nothing else"
            if self.labels or self.num_classes or self.postprocess != "cpp":
                raise InvalidArgumentError(
                    "--labels, --num-classes and --postprocess are for postprocess, and --head "
                    "none writes none; leave them out"
                )
        else:  # the same for every head
            known = {**known, **postprocess_contract({"head": "yolov8"}).parameters}
        for name in self.settings:
            if name in _TILE_PARAMETERS and self.tile is None:
                raise InvalidArgumentError(
                    f"--set {name}: it is for the tiles of --tile; give that too"
                )
            if name in _HAVE_OPTIONS:
                raise InvalidArgumentError(f"--set {name}: give it with {_HAVE_OPTIONS[name]}")
            if name == "class_map":
                raise InvalidArgumentError(
                    "--set class_map: the network's output decides it; leave it out"
                )
            if name not in known:
                close = suggestion(name)
                if name == "resize":  # elsewhere another name for the size, which has an option
                    close = "; did you mean 'resize_shorter'?"
                for parameter, option in _HAVE_OPTIONS.items():
                    close = close.replace(f"'{parameter}'", option)
                raise InvalidArgumentError(
                    f"--set {name}: {stages} has such a parameter{close or '.'} They have "
                    f"{', '.join(known)}"
                )
