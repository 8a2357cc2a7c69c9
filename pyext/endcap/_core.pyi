"""Types of the compiled module."""

from typing import Any

import numpy as np
import numpy.typing as npt

from endcap._images import ImageBuffer
from endcap._text import Parameters

Spec = tuple[str, str, list[int]]
Parameter = tuple[str, str, str, str]

def empty(dtype: np.dtype[Any], shape: list[int]) -> npt.NDArray[Any]: ...
def implementations() -> list[tuple[str, str, str, bool, str, bool]]: ...
def force_implementation(path: str) -> None: ...
def simd_targets() -> list[str]: ...
def simd_target() -> str: ...
def force_simd_target(name: str) -> None: ...
def preset_names() -> list[str]: ...
def decode(image: list[ImageBuffer], parameters: Parameters) -> npt.NDArray[np.uint8]: ...
def box_decode(
    parameters: Parameters, tensors: list[npt.NDArray[Any]]
) -> tuple[
    npt.NDArray[np.float32],
    npt.NDArray[np.float32],
    npt.NDArray[np.int32],
    npt.NDArray[np.int32],
    bool,
]: ...
def nms(
    boxes: npt.NDArray[np.float32],
    scores: npt.NDArray[np.float32],
    class_ids: npt.NDArray[np.int32],
    iou_threshold: float,
) -> npt.NDArray[np.int64]: ...

class Preprocessor:
    def __init__(self, parameters: Parameters, threads: int) -> None: ...
    @property
    def threads(self) -> int: ...
    @property
    def parameters(self) -> list[Parameter]: ...
    @property
    def outputs(self) -> list[Spec]: ...
    def run(
        self,
        images: list[ImageBuffer],
        pixel_format: str,
        out: npt.NDArray[Any],
        geometry: npt.NDArray[np.float32],
        status: npt.NDArray[np.int32],
    ) -> list[tuple[int, str, int]]: ...

class Postprocessor:
    def __init__(self, parameters: Parameters, threads: int) -> None: ...
    @property
    def threads(self) -> int: ...
    @property
    def parameters(self) -> list[Parameter]: ...
    @property
    def inputs(self) -> list[Spec]: ...
    @property
    def outputs(self) -> list[Spec]: ...
    def run(
        self,
        head: list[npt.NDArray[Any]],
        geometry: npt.NDArray[np.float32],
        status: npt.NDArray[np.int32],
        out: list[npt.NDArray[Any]],
    ) -> list[tuple[int, str, bool]]: ...
