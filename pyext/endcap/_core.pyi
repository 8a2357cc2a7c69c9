"""Types of the compiled module, which is below all others: it imports none of endcap."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

# An encoded file, or pixels; uint8.
ImageBuffer: TypeAlias = bytes | bytearray | memoryview | npt.NDArray[np.uint8]
# Layout, planes, matrix and range of an image in YUV.
YuvBuffers: TypeAlias = tuple[str, list[ImageBuffer | CudaTensor], str, str]
# Names and values as text.
Parameters = list[tuple[str, str]]
Spec = tuple[str, str, list[int]]
Parameter = tuple[str, str, str, str]
# Head, geometry, status, out, whether run-length encodings are wanted.
HeadPart = tuple[
    Sequence["npt.NDArray[Any] | CudaTensor"],
    "npt.NDArray[np.float32] | CudaTensor | None",
    npt.NDArray[np.int32] | None,
    Sequence["npt.NDArray[Any] | CudaTensor | None"],
    bool,
]
# Of every part: status, message, truncated and dropped of each item, and each item's encodings.
PartResults = list[tuple[list[tuple[int, str, bool, int]], list[list[bytes]]]]

# Data type and dims, as in config.pbtxt.
Form = tuple[str, list[int]]
# Name, forms, whether optional, the parameters that determine it.
ContractTensor = tuple[str, list[Form], bool, str]

def model_contract(
    backend: str, parameters: Parameters, with_rois: bool = False
) -> tuple[list[ContractTensor], list[ContractTensor], list[Parameter], list[tuple[str, str]]]: ...
def complete_config(
    backend: str, parameters: Parameters, config: str, complete: bool
) -> tuple[str, list[tuple[str, int, str, str]]]: ...
def clip_text(text: str) -> str: ...
def empty(dtype: np.dtype[Any], shape: list[int]) -> npt.NDArray[Any]: ...
def cuda_state() -> tuple[
    bool, str, str, int, int, str, list[tuple[int, str, int, int, int, int, bool]]
]: ...
def nvjpeg_state(device_id: int) -> tuple[bool, str, str, str]: ...
def require_cuda(device_id: int) -> None: ...
def find_cuda_device(pointer: int) -> int: ...
def order_cuda_after(device_id: int, stream: int, before: int) -> None: ...
def implementations() -> list[tuple[str, str, str, bool, str, bool]]: ...
def force_implementation(implementation: str) -> None: ...
def simd_targets() -> list[str]: ...
def simd_target() -> str: ...
def force_simd_target(name: str) -> None: ...
def preset_names() -> list[str]: ...
def decode(
    image: Sequence[ImageBuffer | YuvBuffers], parameters: Parameters
) -> npt.NDArray[np.uint8]: ...
def read_exif_orientation(block: bytes) -> int: ...
def box_decode(
    parameters: Parameters, tensors: list[npt.NDArray[Any]]
) -> tuple[
    npt.NDArray[np.float32],
    npt.NDArray[np.float32],
    npt.NDArray[np.int32],
    npt.NDArray[np.int32],
    bool,
    int,
]: ...
def nms(
    boxes: npt.NDArray[np.float32],
    scores: npt.NDArray[np.float32],
    class_ids: npt.NDArray[np.int32],
    iou_threshold: float,
) -> npt.NDArray[np.int64]: ...
def nms_rotated(
    boxes: npt.NDArray[np.float32],
    scores: npt.NDArray[np.float32],
    class_ids: npt.NDArray[np.int32],
    iou_threshold: float,
    method: str,
    max_detections: int,
) -> npt.NDArray[np.int64]: ...
def rotated_iou(
    a: npt.NDArray[np.float32],
    b: npt.NDArray[np.float32],
    method: str,
    iou: npt.NDArray[np.float32],
) -> None: ...
def nms_cuda(
    boxes: CudaTensor,
    scores: CudaTensor,
    class_ids: CudaTensor | None,
    iou_threshold: float,
    device_id: int,
    stream: int,
    stream_owner: object,
) -> CudaTensor: ...
def nms_rotated_cuda(
    boxes: CudaTensor,
    scores: CudaTensor,
    class_ids: CudaTensor | None,
    iou_threshold: float,
    method: str,
    max_detections: int,
    device_id: int,
    stream: int,
    stream_owner: object,
) -> CudaTensor: ...
def make_masks(
    prototypes: npt.NDArray[np.float32],
    coefficients: npt.NDArray[np.float32],
    boxes: npt.NDArray[np.float32],
    resolution: str,
    input_size: tuple[int, int],
    geometry: npt.NDArray[np.float32] | None,
    path: str,
    encoded: bool,
) -> npt.NDArray[np.uint8] | tuple[tuple[int, int], list[bytes]]: ...
def encode_rle(columns: npt.NDArray[np.uint8]) -> bytes: ...
def decode_rle(rle: bytes, columns: npt.NDArray[np.uint8]) -> None: ...

class CudaTensor:
    @staticmethod
    def empty(
        type_string: str, shape: list[int], device_id: int, stream: int, stream_owner: object
    ) -> CudaTensor: ...
    @staticmethod
    def upload(
        array: npt.NDArray[Any], device_id: int, stream: int, stream_owner: object
    ) -> CudaTensor: ...
    @staticmethod
    def borrow(
        pointer: int,
        type_string: str,
        shape: list[int],
        strides: list[int] | None,
        device_id: int,
        stream: int,
        owner: object,
    ) -> CudaTensor: ...
    @staticmethod
    def from_dlpack(capsule: object, device_id: int, stream: int) -> CudaTensor: ...
    @property
    def type_string(self) -> str: ...
    @property
    def shape(self) -> list[int]: ...
    @property
    def strides(self) -> list[int]: ...
    @property
    def contiguous(self) -> bool: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def pointer(self) -> int: ...
    @property
    def device_id(self) -> int: ...
    @property
    def stream(self) -> int: ...
    def reshape(self, shape: list[int]) -> CudaTensor: ...
    def rows(self, begin: int, count: int) -> CudaTensor: ...
    def to_numpy(self) -> npt.NDArray[Any]: ...
    def to_dlpack(self, consumer: int | None, consumer_owner: object) -> object: ...
    @staticmethod
    def empty_arrays(
        specs: Sequence[tuple[tuple[int, ...], str]],
        device_id: int,
        stream: int,
        stream_owner: object,
    ) -> list[CudaTensor]: ...
    def share_with_all_streams(self) -> None: ...

class Preprocessor:
    def __init__(
        self, parameters: Parameters, threads: int, device_id: int | None = None
    ) -> None: ...
    @property
    def threads(self) -> int: ...
    @property
    def parameters(self) -> list[Parameter]: ...
    @property
    def outputs(self) -> list[Spec]: ...
    def cost_terms(self, image: list[ImageBuffer], regions: int = 0) -> dict[str, float]: ...
    def predict_ms(self, image: list[ImageBuffer], regions: int = 0) -> float: ...
    def check_rois(self, count: int) -> None: ...
    def tiles(
        self, image: Sequence[ImageBuffer | YuvBuffers | CudaTensor]
    ) -> npt.NDArray[np.float32]: ...
    def run(
        self,
        images: Sequence[ImageBuffer | YuvBuffers | CudaTensor],
        pixel_format: str,
        out: npt.NDArray[Any] | CudaTensor,
        geometry: npt.NDArray[np.float32],
        status: npt.NDArray[np.int32],
        rois: npt.NDArray[np.float32] | None = None,
        stream: int = 0,
    ) -> list[tuple[int, str, int, str]]: ...

class Postprocessor:
    def __init__(
        self, parameters: Parameters, threads: int, device_id: int | None = None
    ) -> None: ...
    @property
    def threads(self) -> int: ...
    @property
    def parameters(self) -> list[Parameter]: ...
    @property
    def inputs(self) -> list[Spec]: ...
    @property
    def outputs(self) -> list[Spec]: ...
    def run(self, parts: list[HeadPart], stream: int = 0) -> PartResults: ...
    def enqueue(self, parts: list[HeadPart], stream: int = 0) -> None: ...
    def __call__(
        self,
        head: list[npt.NDArray[Any]],
        geometry: npt.NDArray[np.float32] | None,
        status: npt.NDArray[np.int32] | None,
        with_packed_masks: bool,
    ) -> tuple[
        tuple[npt.NDArray[Any] | None, ...],
        npt.NDArray[np.bool_],
        npt.NDArray[np.int32],
        list[list[bytes]],
    ]: ...
    def class_maps(
        self,
        head: list[npt.NDArray[Any]],
        geometry: npt.NDArray[np.float32] | None,
        status: npt.NDArray[np.int32] | None,
    ) -> list[npt.NDArray[np.uint8]]: ...

class Tracker:
    def __init__(self, parameters: Parameters) -> None: ...
    def update(
        self,
        boxes: npt.NDArray[np.float32],
        scores: npt.NDArray[np.float32],
        class_ids: npt.NDArray[np.int32],
        timestamp: float | None = None,
        camera_motion: list[float] | None = None,
    ) -> npt.NDArray[np.int64]: ...
    def skip(self, frames: int) -> None: ...
    def reset(self) -> None: ...
    def save(self) -> bytes: ...
    def restore(self, state: bytes) -> None: ...
    @property
    def frames(self) -> int: ...
    @property
    def track_count(self) -> int: ...
    @property
    def parameters(self) -> list[Parameter]: ...
