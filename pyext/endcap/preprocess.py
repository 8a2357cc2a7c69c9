"""Images, encoded or as pixels, to the tensor that a model takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from endcap import _core
from endcap._arrays import empty
from endcap._device import require_cpu, thread_count
from endcap._images import Image, is_single_image, to_buffer
from endcap._text import Parameter, to_parameters
from endcap.errors import InvalidArgumentError, error_for_status


@dataclass(frozen=True)
class PreprocessResult:
    """The tensors of a batch of N images.

    Attributes:
        images: [N, C, H, W] or [N, H, W, C], of the dtype that was asked for.
        geometry: float32 [N, 8] = scale_x, scale_y, pad_x, pad_y, image_w, image_h, orientation,
            source index; x_source = (x - pad_x) / scale_x.
        status: int32 [N], ``endcap.Status`` of each image.
        decode_seconds: time each image spent in the JPEG decoder, float64 [N].
    """

    images: npt.NDArray[Any]
    geometry: npt.NDArray[np.float32]
    status: npt.NDArray[np.int32]
    decode_seconds: npt.NDArray[np.float64]


class Preprocessor:
    """A reusable, thread-safe callable: images in, tensors out.

    Args:
        preset: a recipe of a whole training pipeline: ``ultralytics``, ``torchvision``,
            ``inception``, ``vgg``, ``rtdetr`` or ``ssd``. Every other field overrides it.
        size: height and width in pixels, or one number for both.
        device: ``cpu``.
        threads: images worked on at the same time; all CPUs by default.
        fields: the other parameters by name: fit, resize_shorter, interpolation, antialias,
            quantize, pad_value, pad_align, upscale, color, layout, dtype, scale, mean, std, exif,
            decode, jpeg_decoder, max_pixels, max_side, max_bytes, max_scans, on_error.
            ``parameters`` shows what each has become.

    Raises:
        InvalidArgumentError: an unknown name or an impossible value.
        UnsupportedError: what this build cannot do.
        CudaError: a CUDA device was asked for.
    """

    def __init__(
        self,
        preset: str = "ultralytics",
        *,
        size: int | Sequence[int] | None = None,
        device: str = "cpu",
        threads: int | None = None,
        **fields: object,
    ) -> None:
        require_cpu(device)
        parameters = to_parameters({"preset": preset, "size": size, **fields})
        self._core = _core.Preprocessor(parameters, thread_count(threads))
        self._shape = tuple(self._core.outputs[0][2])
        self._dtype = np.dtype(self._core.outputs[0][1])
        self._raises = self.parameters["on_error"] == "error"

    @property
    def parameters(self) -> dict[str, str]:
        """Every parameter and its value as text."""
        return {row.name: row.value for row in self.describe()}

    def describe(self) -> list[Parameter]:
        """Return every parameter with its meaning, the values it may have, and its value."""
        return [Parameter(*row) for row in self._core.parameters]

    @property
    def threads(self) -> int:
        """Images worked on at the same time."""
        return self._core.threads

    def __call__(
        self,
        images: Image | Sequence[Image],
        *,
        out: npt.NDArray[Any] | None = None,
        pixel_format: str = "rgb",
    ) -> PreprocessResult:
        """Process one image or a list of images; one image gives a batch of 1.

        Args:
            images: encoded bytes (bytes-like, 1-D uint8) or pixels (uint8 [H,W,3] or [H,W]).
                They are read in place.
            out: an array to write the tensors into, C-contiguous, of the result's shape and dtype.
            pixel_format: ``rgb``, ``bgr`` or ``gray``: what images given as pixels hold.

        Raises:
            CorruptImageError, ImageLimitError, UnsupportedError: the first bad image, with its
                place in the batch, unless ``on_error`` is ``blank``.
            InvalidArgumentError: an image or ``out`` that cannot be used.
        """
        if pixel_format not in ("rgb", "bgr", "gray"):
            raise InvalidArgumentError(f"pixel_format is {pixel_format!r}: give rgb, bgr or gray")
        batch = [images] if is_single_image(images) else list(images)
        buffers = [to_buffer(image) for image in batch]
        tensor = self._output(len(batch), out)
        geometry = np.empty((len(batch), 8), np.float32)
        status = np.empty(len(batch), np.int32)
        items = self._core.run(buffers, pixel_format, tensor, geometry, status)
        if self._raises:
            _raise_first(items)
        decode_seconds = np.array([ns for _, _, ns in items], np.float64) * 1e-9
        return PreprocessResult(tensor, geometry, status, decode_seconds)

    def _output(self, count: int, out: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
        shape = (count, *self._shape)
        if out is None:
            return empty(shape, self._dtype)
        if not isinstance(out, np.ndarray):
            raise InvalidArgumentError(f"out is a {type(out).__name__}: give a NumPy array")
        if out.shape != shape or out.dtype != self._dtype or not out.flags.c_contiguous:
            raise InvalidArgumentError(
                f"out is {out.dtype} {list(out.shape)}: give a C-contiguous {self._dtype} "
                f"array of shape {list(shape)}"
            )
        if not out.flags.writeable:
            raise InvalidArgumentError("out is read-only: give an array that can be written")
        return out


def preprocess(
    images: Image | Sequence[Image],
    preset: str = "ultralytics",
    *,
    size: int | Sequence[int] | None = None,
    device: str = "cpu",
    out: npt.NDArray[Any] | None = None,
    threads: int | None = None,
    pixel_format: str = "rgb",
    **fields: object,
) -> PreprocessResult:
    """Process one image or a list of images; see Preprocessor for the arguments and errors."""
    require_cpu(device)
    parameters = to_parameters({"size": size, **fields})
    preprocessor = _cached_preprocessor(preset, tuple(parameters), threads)
    return preprocessor(images, out=out, pixel_format=pixel_format)


@lru_cache(maxsize=4)
def _cached_preprocessor(
    preset: str, parameters: tuple[tuple[str, str], ...], threads: int | None
) -> Preprocessor:
    return Preprocessor(preset, threads=threads, **dict(parameters))  # type: ignore[arg-type]


def presets() -> list[str]:
    """Return the names of the presets."""
    return _core.preset_names()


def _raise_first(items: list[tuple[int, str, int]]) -> None:
    for index, (status, message, _) in enumerate(items):
        if status != 0:
            place = f"image index {index} of {len(items)}: " if len(items) > 1 else ""
            raise error_for_status(status, place + message)
