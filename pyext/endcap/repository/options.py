"""Options of `endcap init`, and `Decision`, a chosen value with its reason."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from endcap.errors import InvalidArgumentError

AS_GIVEN = "as given"
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
