"""The ways that are compared: who decodes, who resizes, and where."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Device = Literal["cpu", "gpu"]
# The largest difference from endcap.preprocess, in 8-bit steps, with which a way may be timed. By
# the tests' bounds the resize of DALI is off by one; what endcap does is off by nothing.
RESIZE_OF_DALI_STEPS = 1
# nvJPEG's pixels, which may be off by 6 (see docs/dali_parity.md), resized.
NVJPEG_STEPS = 7


@dataclass(frozen=True)
class Way:
    """One way from encoded bytes to tensors.

    Attributes:
        function: The pipeline of endcap.dali; None for endcap.preprocess without DALI.
        operators: Whether it needs endcap's operators in DALI.
        steps: How far its images may be from endcap.preprocess on the CPU; 0 asks for equal bits.
    """

    name: str
    how: str
    function: str | None
    device: Device = "cpu"
    operators: bool = True
    steps: int = 0

    @property
    def geometry_values(self) -> int:
        """How many of the eight must be endcap's.

        Not the source index, which is that of a sample alone; nor the orientation of a file that
        DALI has decoded, and turned without telling.
        """
        return 7 if self.function in (None, "detection_preprocess") else 6

    @property
    def key(self) -> str:
        """The name, with the device where that is a GPU."""
        return self.name if self.device == "cpu" else f"{self.name}, GPU"


ENDCAP = Way("endcap.preprocess", "no DALI: Preprocessor", None, operators=False)
ALL_OURS = Way("(a) all endcap", "fn.endcap.preprocess", "detection_preprocess")
CPU_WAYS = (
    ENDCAP,
    ALL_OURS,
    Way(
        "(b) DALI decodes",
        "fn.decoders.image, fn.endcap.resize_normalize",
        "detection_preprocess_dali_decode",
    ),
    Way(
        "(c) all DALI",
        "fn.decoders.image, fn.resize, fn.crop_mirror_normalize",
        "detection_preprocess_dali_only",
        operators=False,
        steps=RESIZE_OF_DALI_STEPS,
    ),
)
GPU_WAYS = tuple(
    replace(way, device="gpu", steps=0 if way in (ENDCAP, ALL_OURS) else NVJPEG_STEPS)
    for way in CPU_WAYS
)
