"""Peers that turn the bytes of a JPEG into a letterboxed float32 [3, 640, 640].

RGB, 0 to 1, padded with 114 / 255. Each peer imports its library when it is made, runs on one
thread, and reuses its tensor where the library allows it.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps

from benchmarks import BUILD

SIZE = 640
PAD = 114
_SCALE = np.float32(1 / 255)
Tensor = npt.NDArray[np.float32]
# Bytes to the tensor; the next call may overwrite it.
Run = Callable[[bytes], Any]


@dataclass(frozen=True)
class Peer:
    """One library.

    Attributes:
        make: Returns the function to time; imports the library.
        psnr_db: How close its tensor must be to endcap's; None asks for equal 8-bit steps.
        reference: Parameters of the endcap tensor that it is compared with.
        min_side: Longer side from which on it is measured.
    """

    make: Callable[[], Run]
    psnr_db: float | None = None
    reference: Mapping[str, object] = field(default_factory=dict)
    min_side: int = 0


class Placement(NamedTuple):
    """A resized picture inside the square, in pixels."""

    width: int
    height: int
    left: int
    top: int


def letterbox(width: int, height: int) -> Placement:
    """Return the placement of ultralytics' LetterBox: rounded sides, an odd pixel goes behind."""
    ratio = min(SIZE / width, SIZE / height)
    width, height = round(width * ratio), round(height * ratio)
    return Placement(
        width, height, round((SIZE - width) / 2 - 0.1), round((SIZE - height) / 2 - 0.1)
    )


def endcap(**parameters: Any) -> Run:
    """Return endcap's Preprocessor."""
    preprocess = import_module("endcap").Preprocessor(size=SIZE, threads=1, **parameters)
    tensor = np.empty((1, 3, SIZE, SIZE), np.float32)
    return lambda encoded: preprocess(encoded, out=tensor).images[0]


def _opencv() -> Run:
    """Return the fastest code known to us, which resizes into the padded square."""
    cv2 = _cv2()
    write = _square_writer(cv2)
    return lambda encoded: write(_decode(cv2, encoded))


def _square_writer(cv2: Any) -> Callable[[Any], Tensor]:
    """Return the part of `_opencv` behind the decoder; it takes BGR pixels."""
    square = np.empty((SIZE, SIZE, 3), np.uint8)
    tensor = np.empty((3, SIZE, SIZE), np.float32)

    def write(picture: Any) -> Tensor:
        width, height, left, top = letterbox(picture.shape[1], picture.shape[0])
        rows, columns = slice(top, top + height), slice(left, left + width)
        for border in (square[:top], square[rows.stop :]):
            border[:] = PAD
        for border in (square[rows, :left], square[rows, columns.stop :]):
            border[:] = PAD
        cv2.resize(picture, (width, height), dst=square[rows, columns])
        for plane, out in zip(cv2.split(square), tensor[::-1], strict=True):
            np.multiply(plane, _SCALE, out=out, dtype=np.float32)
        return tensor

    return write


def _opencv_numpy() -> Run:
    cv2 = _cv2()
    return lambda encoded: normalize_with_numpy(letterbox_with_opencv(cv2, encoded)[0])


def _opencv_blob() -> Run:
    cv2 = _cv2()

    def run(encoded: bytes) -> Any:
        square, _, _ = letterbox_with_opencv(cv2, encoded)
        return cv2.dnn.blobFromImage(square, scalefactor=1 / 255, swapRB=True)[0]

    return run


def letterbox_with_opencv(cv2: Any, encoded: bytes) -> tuple[Any, int, int]:
    """Return the square, uint8 BGR [SIZE, SIZE, 3], and width and height of the image.

    This is the code that most Python models have.

    Raises:
        ValueError: OpenCV cannot decode the image.
    """
    picture = _decode(cv2, encoded)
    if picture is None:
        raise ValueError("the image cannot be decoded")
    height, width = picture.shape[:2]
    place = letterbox(width, height)
    if (place.width, place.height) != (width, height):
        picture = cv2.resize(picture, (place.width, place.height), interpolation=cv2.INTER_LINEAR)
    below, right = SIZE - place.top - place.height, SIZE - place.left - place.width
    borders = (place.top, below, place.left, right)
    square = cv2.copyMakeBorder(picture, *borders, cv2.BORDER_CONSTANT, value=(PAD, PAD, PAD))
    return square, width, height


def normalize_with_numpy(square: Any) -> Tensor:
    """Return the tensor of a BGR square: channels reversed, transposed, divided by 255."""
    planes = np.ascontiguousarray(square[..., ::-1].transpose(2, 0, 1))
    tensor: Tensor = planes.astype(np.float32) / 255
    return tensor


def _pillow() -> Run:
    tensor = np.empty((3, SIZE, SIZE), np.float32)

    def run(encoded: bytes) -> Tensor:
        picture: Image.Image = Image.open(BytesIO(encoded))
        ImageOps.exif_transpose(picture, in_place=True)
        if picture.mode != "RGB":
            picture = picture.convert("RGB")
        width, height, left, top = letterbox(*picture.size)
        square = Image.new("RGB", (SIZE, SIZE), (PAD, PAD, PAD))
        square.paste(picture.resize((width, height), Image.Resampling.BILINEAR), (left, top))
        for plane, out in zip(square.split(), tensor, strict=True):
            np.multiply(np.asarray(plane), _SCALE, out=out, dtype=np.float32)
        return tensor

    return run


def _torchcodec() -> Run:
    """Return torchcodec's decoder followed by torchvision's resize."""
    torch = one_torch_thread()
    decode_jpeg = import_module("torchcodec.decoders").decode_jpeg
    resize = import_module("torchvision.transforms.v2.functional").resize
    array = np.empty((3, SIZE, SIZE), np.float32)
    tensor = torch.from_numpy(array)

    def run(encoded: bytes) -> Tensor:
        picture = decode_jpeg(encoded, mode="RGB")
        width, height, left, top = letterbox(picture.shape[2], picture.shape[1])
        rows, columns = slice(top, top + height), slice(left, left + width)
        for border in (tensor[:, :top], tensor[:, rows.stop :]):
            border[:] = PAD / 255
        for border in (tensor[:, rows, :left], tensor[:, rows, columns.stop :]):
            border[:] = PAD / 255
        resized = resize(picture, [height, width], antialias=False)
        torch.mul(resized, 1 / 255, out=tensor[:, rows, columns])
        return array

    return run


def _simplejpeg() -> Run:
    """Return simplejpeg's decoder in the place of OpenCV's, otherwise `_opencv`."""
    decode = import_module("simplejpeg").decode_jpeg
    write = _square_writer(_cv2())
    return lambda encoded: write(decode(encoded, "BGR"))


def decode_alone() -> Run:
    """Return libjpeg-turbo's decoding to RGB alone, by simplejpeg: a floor, and not a peer."""
    decode = import_module("simplejpeg").decode_jpeg
    return lambda encoded: decode(encoded, "RGB")


def _ultralytics() -> Run:
    """Return what its predictor does: imdecode, LetterBox, then a tensor divided by 255."""
    torch = one_torch_thread()
    cv2 = _cv2()
    place = import_module("ultralytics.data.augment").LetterBox((SIZE, SIZE), auto=False)

    def run(encoded: bytes) -> Any:
        square = place(image=_decode(cv2, encoded))
        planes = np.ascontiguousarray(square[..., ::-1].transpose(2, 0, 1))
        return (torch.from_numpy(planes).float() / 255).numpy()

    return run


def _dali() -> Run:
    """Return a pipeline of three operators on the CPU, fed with bytes."""
    dali: Any = import_module("nvidia.dali")
    fn, types = import_module("nvidia.dali.fn"), import_module("nvidia.dali.types")
    pipeline = dali.Pipeline(
        batch_size=1,
        num_threads=1,
        device_id=None,
        prefetch_queue_depth=1,
        exec_async=False,
        exec_pipelined=False,
    )
    with pipeline:
        encoded = fn.external_source(name="encoded", dtype=types.UINT8, ndim=1, no_copy=True)
        picture = fn.decoders.image(encoded, output_type=types.RGB, jpeg_fancy_upsampling=True)
        resized = fn.resize(
            picture,
            size=[SIZE, SIZE],
            mode="not_larger",
            interp_type=types.INTERP_LINEAR,
            antialias=False,
        )
        tensors = fn.crop_mirror_normalize(
            resized,
            crop=(SIZE, SIZE),
            rounding="truncate",  # an odd pixel of padding goes behind, as in the others
            out_of_bounds_policy="pad",
            fill_values=[PAD / 255.0] * 3,
            std=[255.0] * 3,
            dtype=types.FLOAT,
            output_layout="CHW",
        )
        pipeline.set_outputs(tensors)
    pipeline.build()

    def run(encoded: bytes) -> Any:
        pipeline.feed_input("encoded", [np.frombuffer(encoded, np.uint8)])
        (tensors,) = pipeline.run()
        return tensors.as_array()[0]

    return run


def one_torch_thread() -> Any:
    """Return torch, set to one thread."""
    # The settings of ultralytics go to the build folder, not into the home directory.
    os.environ.setdefault("YOLO_CONFIG_DIR", str(BUILD))
    warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
    torch = import_module("torch")
    torch.set_num_threads(1)
    return torch


def _cv2() -> Any:
    cv2 = import_module("cv2")
    cv2.setNumThreads(1)
    return cv2


def _decode(cv2: Any, encoded: bytes) -> Any:
    return cv2.imdecode(np.frombuffer(encoded, np.uint8), cv2.IMREAD_COLOR)


EXACT, FAST, DECODE_ALONE = "endcap", "endcap fast", "decoding alone"
PEERS: Mapping[str, Peer] = {
    EXACT: Peer(endcap),
    # DCT scaling gains little on images of less than twice the size.
    FAST: Peer(lambda: endcap(decode="fast"), psnr_db=25.0, min_side=2 * SIZE),
    "OpenCV": Peer(_opencv),
    "OpenCV, NumPy": Peer(_opencv_numpy),
    "OpenCV, blob": Peer(_opencv_blob),
    "ultralytics": Peer(_ultralytics),
    "Pillow": Peer(_pillow, reference={"antialias": True}),
    "torchcodec": Peer(_torchcodec, psnr_db=50.0),
    "simplejpeg": Peer(_simplejpeg),
    "DALI CPU": Peer(_dali, psnr_db=50.0),
}
