"""Pre- and postprocessing for vision models: raw JPEG bytes in, detections out."""

try:
    from endcap import _core as _core
except ImportError as error:
    if "subinterpreter" in str(error):
        raise
    from endcap._pip_commands import reinstall_command

    raise ImportError(
        f"the compiled core of endcap cannot be loaded: {error}; reinstall it with "
        f"`{reinstall_command()}`"
    ) from error

from endcap._version import __version__
from endcap.box_decode import Candidates, box_decode
from endcap.cuda import CudaDevice, CudaState, NvjpegState, cuda_state, nvjpeg_state
from endcap.cuda_array import CudaArray
from endcap.decode import decode
from endcap.detections import Classification, Detections, ImageDetections
from endcap.errors import (
    CorruptImageError,
    CudaError,
    EndcapError,
    ImageLimitError,
    InvalidArgumentError,
    OutOfMemoryError,
    Status,
    UnsupportedError,
)
from endcap.implementations import Implementation, force_implementation, implementations
from endcap.nms import batched_nms, nms, nms_rotated, rotated_iou
from endcap.parameters import Parameter
from endcap.postprocess import Postprocessor
from endcap.predictions import ClassArea, ClassScore, Detection
from endcap.preprocess import Preprocessor, PreprocessResult, preprocess, presets
from endcap.segmentation import SegmentationMap
from endcap.tracking import Tracker
from endcap.yuv import YuvImage, nv12, planar_yuv

__all__ = [
    "Candidates",
    "ClassArea",
    "ClassScore",
    "Classification",
    "CorruptImageError",
    "CudaArray",
    "CudaDevice",
    "CudaError",
    "CudaState",
    "Detection",
    "Detections",
    "EndcapError",
    "ImageDetections",
    "ImageLimitError",
    "Implementation",
    "InvalidArgumentError",
    "NvjpegState",
    "OutOfMemoryError",
    "Parameter",
    "Postprocessor",
    "PreprocessResult",
    "Preprocessor",
    "SegmentationMap",
    "Status",
    "Tracker",
    "UnsupportedError",
    "YuvImage",
    "__version__",
    "batched_nms",
    "box_decode",
    "cuda_state",
    "decode",
    "force_implementation",
    "implementations",
    "nms",
    "nms_rotated",
    "nv12",
    "nvjpeg_state",
    "planar_yuv",
    "preprocess",
    "presets",
    "rotated_iou",
]
