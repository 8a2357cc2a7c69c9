"""Images, encoded or as pixels, to the tensor that a model takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

import endcap._core as _core
from endcap._arrays import empty, find_device, to_array
from endcap._images import (
    Image,
    SizeLimits,
    image_count,
    is_single_image,
    open_image,
    to_buffer,
)
from endcap.cuda_array import CudaArray, Target, choose_target, cuda_device
from endcap.errors import InvalidArgumentError, raise_first
from endcap.parameters import (
    Parameter,
    PreprocessParameters,
    check_name,
    list_parameters,
    thread_count,
    to_parameters,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack


# A NumPy array; with device="cuda" a CudaArray, and as `out` any array on that device.
Array: TypeAlias = Any

_STATUSES_IN_REPR = 20


@dataclass(frozen=True, repr=False)
class PreprocessResult:
    """The tensors of a batch of N images, or of N regions or tiles of one image.

    Attributes:
        images: [N, C, H, W] or [N, H, W, C], of the requested dtype: a NumPy array, or
            with ``device="cuda"`` a CudaArray, which the GPU may not have filled yet.
        geometry: float32 [N, 8] = scale_x, scale_y, pad_x, pad_y, image_w, image_h, orientation,
            source index; x_source = (x - pad_x) / scale_x, also of a region in the whole image.
        status: int32 [N], ``endcap.Status`` of each image.
        decode_seconds: time each image spent in the JPEG decoder, float64 [N]; of regions the one
            decoder run that they share.
        decoders: the JPEG decoder that each image took, ``cpu``, ``hybrid`` or ``nvjpeg``; empty
            where none ran. All but ``images`` is in host memory.
    """

    images: Array
    geometry: npt.NDArray[np.float32]
    status: npt.NDArray[np.int32]
    decode_seconds: npt.NDArray[np.float64]
    decoders: tuple[str, ...]

    def __repr__(self) -> str:
        shape = ", ".join(map(str, self.images.shape))
        codes = self.status.tolist()
        status = str(codes)
        if len(codes) > _STATUSES_IN_REPR:
            status = ", ".join(f"{n} times {code}" for code, n in Counter(codes).most_common())
        return f"<PreprocessResult {self.images.dtype} [{shape}], status {status}>"


class Preprocessor:
    """A reusable, thread-safe callable: images in, tensors out.

    Args:
        preset: a recipe of a whole training pipeline: ``ultralytics``, ``torchvision``,
            ``inception``, ``vgg``, ``rtdetr`` or ``ssd``. Every other field overrides it.
        device: ``cpu``, ``cuda`` or ``cuda:N``.
        threads: images worked on at the same time, on a GPU images decoded; all CPUs by default.
        fields: the parameters by name, of ``endcap.parameters.PreprocessParameters``, such as
            size=640 or size=(480, 640). ``describe()`` tells their meanings.

    Raises:
        InvalidArgumentError: an unknown name or an impossible value.
        UnsupportedError: what this build cannot do.
        CudaError: a CUDA device that cannot be used; ``cuda_state()`` says more.
    """

    @list_parameters(PreprocessParameters)
    def __init__(
        self,
        preset: str = "ultralytics",
        *,
        device: str = "cpu",
        threads: int | None = None,
        **fields: Unpack[PreprocessParameters],
    ) -> None:
        check_name(preset, "preset", "a size is given as size=640")
        parameters = to_parameters({"preset": preset, **fields})
        self._preset = preset
        self._device_id = cuda_device(device)
        self._core = _core.Preprocessor(parameters, thread_count(threads), self._device_id)
        self._shape = tuple(self._core.outputs[0][2])
        self._dtype = np.dtype(self._core.outputs[0][1])
        self._limits = SizeLimits.from_parameters(self.parameters)
        self._raises = self.parameters["on_error"] == "error"
        self._slices = self.parameters["tile"] != "0,0"

    def __repr__(self) -> str:
        size = "x".join(self.parameters["size"].split(","))
        return f"<Preprocessor {self._preset}, {size}, {self._dtype}, on {self.device}>"

    @property
    def parameters(self) -> dict[str, str]:
        """Every parameter and its value as text."""
        return {row.name: row.value for row in self.describe()}

    def describe(self) -> list[Parameter]:
        """Return every parameter with its meaning, the values it may have, and its value."""
        return [Parameter(*row) for row in self._core.parameters]

    @property
    def threads(self) -> int:
        """Images worked on, or on a GPU decoded, at the same time."""
        return self._core.threads

    @property
    def device(self) -> str:
        """``cpu`` or ``cuda:N``."""
        return "cpu" if self._device_id is None else f"cuda:{self._device_id}"

    def tiles(self, image: Image, *, pixel_format: str = "rgb") -> npt.NDArray[np.float32]:
        """Return the tiles of an image, float32 [T, 4] as of ``rois``; only its header is read.

        An image that cannot be read has one, which a call gives its error.

        Raises:
            InvalidArgumentError: the parameter ``tile`` is 0, or there are more tiles than
                ``max_rois`` or ``max_roi_bytes`` allow.
            OSError: a file that cannot be read.
        """
        opened = open_image(_only_image(image, "tiles"), pixel_format, self._limits)
        return self._core.tiles([to_buffer(opened, self._limits, None)])

    def __call__(
        self,
        images: Image | Sequence[Image],
        *,
        rois: npt.ArrayLike | None = None,
        out: Array | None = None,
        pixel_format: str = "rgb",
        stream: object = None,
    ) -> PreprocessResult:
        """Process one image, a list of images or an array of a batch; one image gives a batch of 1.

        With ``rois`` the one image gives a batch of its K regions. It is decoded once, and only as
        far down as the regions reach; damage below that is not seen. A region's tensor is that of
        its pixels cut out of the decoded image; ``decode="fast"`` does not apply. With the
        parameter ``tile`` the regions are the image's ``tiles``.

        On a GPU the tensors are made in the order of ``stream``, and the call does not wait for
        them; images in host memory may be changed when it returns.

        Args:
            images: encoded bytes (bytes-like, 1-D uint8), the path of a file of them, pixels
                (uint8 [H,W,3] or [H,W]), a Pillow image (its pixels as they are: EXIF is not
                applied) or YUV by ``nv12`` and ``planar_yuv``, or a list of these, or a batch of
                pixels as one array, uint8 [N,H,W,3]. Encoded bytes may be base64 text, see the
                parameter ``base64``. Arrays are read in place (a memory-mapped file must not shrink
                meanwhile); with ``device="cuda"`` pixels may be on that device, where one array
                costs less time than a list of N.
            rois: regions of the one image, real numbers [K, 4]: x1, y1, x2, y2 in its pixels after
                EXIF orientation, as a detector's boxes are. Each is rounded outward to whole pixels
                and clipped. On a GPU the part of the image that holds them is decoded by the CPU,
                whatever ``jpeg_decoder`` says; YUV must be in host memory.
            out: an array to write the tensors into, C-contiguous, of the result's shape and dtype;
                with ``device="cuda"`` on that device, by DLPack or the CUDA array interface.
            pixel_format: ``rgb``, ``bgr`` or ``gray``: what images given as arrays of pixels hold;
                Pillow images tell that themselves.
            stream: a CUDA stream: None for the legacy default stream, which is also what torch and
                CuPy use by default; a ``cudaStream_t`` as a number; or an object with
                ``__cuda_stream__``, ``cuda_stream`` (torch) or ``ptr`` (CuPy). The number 2 is
                another stream in every thread: a result made with it is for that thread alone.

        Raises:
            CorruptImageError, ImageLimitError, UnsupportedError: the first bad image, with its
                place in the batch, unless ``on_error`` is ``blank``.
            UnsupportedError: ``rois`` of YUV in GPU memory.
            InvalidArgumentError: an image, ``rois``, ``out`` or ``stream`` that cannot be used;
                more regions or tiles than ``max_rois``, or than ``max_roi_bytes`` of tensors; and,
                unless ``on_error`` is ``blank``, a region that is not finite, empty or outside the
                image.
            OSError: a file that cannot be read.
            CudaError: a CUDA call failed.
            OutOfMemoryError: the host's, or the device's.
            KeyboardInterrupt: Ctrl-C on the main thread ended the batch between two images.
        """
        if pixel_format not in ("rgb", "bgr", "gray"):
            raise InvalidArgumentError(f"pixel_format is {pixel_format!r}: give rgb, bgr or gray")
        rois_shape: tuple[int, ...] = getattr(rois, "shape", ())
        if len(rois_shape) == 2:
            self._core.check_rois(rois_shape[0])  # before a copy
        regions = None if rois is None else _to_rois(rois)
        if regions is not None:
            if self._slices:
                raise InvalidArgumentError("rois came with the parameter tile: give one of the two")
            self._core.check_rois(len(regions))
        if regions is not None or self._slices:
            batch = [_only_image(images, "tile" if self._slices else "rois")]
        else:
            batch = [images] if is_single_image(images) else list(images)
        batch = [open_image(image, pixel_format, self._limits) for image in batch]
        target = choose_target(self._device_id, stream)
        buffers = [to_buffer(image, self._limits, target) for image in batch]
        if self._slices:
            regions = self._core.tiles(buffers)
        count = image_count(buffers) if regions is None else len(regions)
        geometry, status = np.empty((count, 8), np.float32), np.empty(count, np.int32)
        tensors, memory = self._memory(out, (count, *self._shape), target)
        items = self._core.run(
            buffers,
            pixel_format,
            memory,
            geometry,
            status,
            regions,
            0 if target is None else target.stream,
        )
        if self._raises:
            raise_first(items)
        if regions is not None:
            items = items * count  # the one image is that of every region
        return PreprocessResult(
            tensors,
            geometry,
            status,
            decode_seconds=np.array([item[2] for item in items], np.float64) * 1e-9,
            decoders=tuple(item[3] for item in items),
        )

    def _memory(
        self, out: Array | None, shape: tuple[int, ...], target: Target | None
    ) -> tuple[Array, Any]:
        """Return the result's array, and its memory as the core takes it."""
        if target is None:
            tensors = _host_output(out, shape, self._dtype)
            return tensors, tensors
        memory = _cuda_output(out, shape, self._dtype, target)
        return CudaArray(memory) if out is None else out, memory


@list_parameters(PreprocessParameters)
def preprocess(
    images: Image | Sequence[Image],
    preset: str = "ultralytics",
    *,
    device: str = "cpu",
    rois: npt.ArrayLike | None = None,
    out: Array | None = None,
    threads: int | None = None,
    pixel_format: str = "rgb",
    stream: object = None,
    **fields: Unpack[PreprocessParameters],
) -> PreprocessResult:
    """Process one image, a list of images, or regions of one image.

    See Preprocessor and its call for the arguments and errors.
    """
    parameters = to_parameters(fields)
    preprocessor = _cached_preprocessor(preset, tuple(parameters), device, threads)
    return preprocessor(images, rois=rois, out=out, pixel_format=pixel_format, stream=stream)


@lru_cache(maxsize=4)
def _cached_preprocessor(
    preset: str, parameters: tuple[tuple[str, str], ...], device: str, threads: int | None
) -> Preprocessor:
    fields: dict[str, Any] = dict(parameters)
    return Preprocessor(preset, device=device, threads=threads, **fields)


def presets() -> list[str]:
    """Return the names of the presets."""
    return _core.preset_names()


Shape = tuple[int, ...]


def _host_output(out: Any, shape: Shape, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return ``out``, or an array for it where it is None.

    Raises:
        InvalidArgumentError: For an ``out`` that cannot be used, and OutOfMemoryError.
    """
    if out is None:
        return empty(shape, dtype)
    if not isinstance(out, np.ndarray):
        raise InvalidArgumentError(f"out is a {type(out).__name__}: give a NumPy array")
    _check_out(out.shape, out.dtype, out.flags.c_contiguous, shape, dtype)
    if not out.flags.writeable:
        raise InvalidArgumentError("out is read-only: give an array that can be written")
    return out


def _cuda_output(out: Any, shape: Shape, dtype: np.dtype[Any], target: Target) -> _core.CudaTensor:
    """Return ``out`` as memory of the target's device, or new memory where it is None.

    Raises:
        InvalidArgumentError: For an ``out`` that cannot be used, and OutOfMemoryError.
    """
    if out is None:
        return target.empty(shape, dtype)
    if find_device(out) is None:
        raise InvalidArgumentError(
            f"out is a {type(out).__name__} in host memory: give an array on "
            f"cuda:{target.device_id}"
        )
    tensor = target.borrow(out, "out")
    _check_out(tuple(tensor.shape), np.dtype(tensor.type_string), tensor.contiguous, shape, dtype)
    return tensor


def _check_out(
    shape: Shape, dtype: np.dtype[Any], contiguous: bool, wanted: Shape, wanted_dtype: np.dtype[Any]
) -> None:
    if shape != wanted or dtype != wanted_dtype or not contiguous:
        raise InvalidArgumentError(
            f"out is {dtype} {list(shape)}: give a C-contiguous {wanted_dtype} "
            f"array of shape {list(wanted)}"
        )


def _to_rois(rois: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Return regions as C-contiguous float32 [K, 4]; no region at all may have any shape.

    Raises:
        InvalidArgumentError: For anything that is not K rows of four real numbers.
    """
    with np.errstate(over="ignore"):  # what float32 cannot hold is infinite, which the core refuses
        array = to_array(rois, np.float32, "rois")
    if array.size == 0:
        return array.reshape(0, 4)
    if array.ndim != 2 or array.shape[1] != 4:
        raise InvalidArgumentError(
            f"rois has shape {list(array.shape)}: give [K, 4], a row x1, y1, x2, y2 for each region"
        )
    return array


def _only_image(images: Image, why: str) -> Image:
    """Return the one image that regions go with, or that is cut into tiles.

    Raises:
        InvalidArgumentError: For a sequence of images.
    """
    if not is_single_image(images):
        raise InvalidArgumentError(
            f"{why} came with a {type(images).__name__} of {len(images)} images: give one image, "
            "and call again for the next"
        )
    return images
