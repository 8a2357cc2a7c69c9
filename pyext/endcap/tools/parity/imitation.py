"""Pixels of a tensor as a recipe makes them."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from endcap.decode import decode
from endcap.drawing.orientation import (
    NOT_A_PICTURE,
    open_picture,
    oriented,
    read_orientation,
)
from endcap.evaluation.errors import import_package
from endcap.preprocess import Preprocessor, PreprocessResult
from endcap.tools.parity.recipe import Recipe
from endcap.tools.parity.resampling import resample

Floats = NDArray[np.float32]
Pixels = NDArray[np.uint8]

# The package that decodes as trainings with TurboJPEG's fast flags do.
FASTER_DECODER = "simplejpeg"
_MOST_DECODED_BYTES = 256 << 20  # of an image, decoded in several ways
_FIRST_SIDEWAYS = 5  # EXIF orientation
# Weights of red and blue in the luma; the ranges of luma and chroma; the luma of black.
_MATRICES = {
    "limited": (0.299, 0.114, (219, 224), 16),
    "bt709": (0.2126, 0.0722, (255, 255), 0),
}
_LUMA = np.array([0.299, 0.587, 0.114], np.float32)


@dataclass(frozen=True)
class Grid:
    """The rows and columns of a tensor that are compared."""

    rows: NDArray[np.intp]
    columns: NDArray[np.intp]

    @classmethod
    def of(cls, size: tuple[int, int], most: int) -> Grid:
        """Return a regular grid over a tensor, of at most about `most` pixels."""
        step = max(1, int(np.ceil(np.sqrt(size[0] * size[1] / most))))
        return cls(np.arange(0, size[0], step), np.arange(0, size[1], step))

    def take(self, tensor: NDArray[Any]) -> NDArray[Any]:
        """Return these pixels of a tensor [H, W, C]."""
        return tensor[self.rows].take(self.columns, axis=1)


@dataclass(frozen=True)
class _Placement:
    """The resized image's height and width, and where its first pixel lies in the tensor."""

    height: int
    width: int
    top: int
    left: int


class Imitator:
    """Makes the pixels of tensors of one image by any recipe.

    Args:
        path: The image.

    Raises:
        OSError: It cannot be read. What cannot be decoded raises at the first call.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.encoded = path.read_bytes()
        self._decoded: dict[tuple[str, str, str], Pixels] = {}
        self.kind = kind = read_kind(self.encoded)
        self.is_turned, self.is_ycc = kind.is_turned, kind.is_jpeg and kind.mode == "RGB"

    def pixels(self, recipe: Recipe, grid: Grid) -> Floats:
        """Return pixels [rows, columns, C] in 8-bit steps; NaN where the tensor is padding.

        Raises:
            EndcapError: The image cannot be decoded.
        """
        if recipe.has_own_geometry and (recipe.color != "gray" or not recipe.unsupported):
            values, placement = self._by_preprocess(recipe)
            values = grid.take(values)
        else:
            values, placement = self._by_numpy(recipe, grid)
        rows = (grid.rows >= placement.top) & (grid.rows < placement.top + placement.height)
        columns = (grid.columns >= placement.left) & (
            grid.columns < placement.left + placement.width
        )
        pixels = np.array(values, np.float32)
        pixels[~rows] = np.nan
        pixels[:, ~columns] = np.nan
        return pixels

    def size(self, *, exif: str) -> tuple[int, int]:
        """Return the height and width of the decoded image.

        Raises:
            EndcapError: It cannot be decoded.
        """
        kind = self.kind
        if not kind.mode:  # only endcap reads it
            height, width = self._decode(exif, "exact", "jpeg").shape[:2]
            return height, width
        is_swapped = kind.swaps_sides and exif == "apply"
        return (kind.width, kind.height) if is_swapped else (kind.height, kind.width)

    def geometry(self, recipe: Recipe) -> Floats:
        """Return how the image lies in the tensor, float32 [8] as preprocess gives it.

        Raises:
            EndcapError: It cannot be decoded.
        """
        height, width = self.size(exif=recipe.exif)
        if recipe.has_own_geometry:
            geometry: Floats = self._run_preprocess(recipe).geometry[0]
            return geometry
        placement = _place(height, width, recipe)
        scale = placement.width / width, placement.height / height
        place = (*scale, placement.left, placement.top, width, height, 1, 0)
        return np.array(place, np.float32)

    def _by_preprocess(self, recipe: Recipe) -> tuple[Floats, _Placement]:
        result = self._run_preprocess(recipe)
        scale_x, scale_y, pad_x, pad_y, width, height = result.geometry[0, :6].tolist()
        placement = _Placement(
            height=round(height * scale_y),
            width=round(width * scale_x),
            top=round(pad_y),
            left=round(pad_x),
        )
        return result.images[0], placement

    def _run_preprocess(self, recipe: Recipe) -> PreprocessResult:
        by_file = recipe.decoder == "scaled" or recipe.color == "gray"
        source: Any = (
            self.encoded if by_file else self._decode(recipe.exif, recipe.decoder, recipe.matrix)
        )
        return _preprocessor(tuple(recipe.parameters().items()))(source)

    def _by_numpy(self, recipe: Recipe, grid: Grid) -> tuple[Floats, _Placement]:
        pixels = self._decode(recipe.exif, recipe.decoder, recipe.matrix)
        placement = _place(pixels.shape[0], pixels.shape[1], recipe)
        rows = np.clip(grid.rows - placement.top, 0, placement.height - 1)
        columns = np.clip(grid.columns - placement.left, 0, placement.width - 1)
        size = placement.height, placement.width
        if recipe.has_own_resampling:  # the very arithmetic that the tensor has elsewhere
            stretched = replace(recipe, fit="stretch", size=size, color="rgb", decoder="exact")
            values = _preprocessor(tuple(stretched.parameters().items()))(pixels).images[0]
            values = values[np.ix_(rows, columns)]
        else:
            values = resample(pixels, size, recipe.resampling, rows=rows, columns=columns)
        if recipe.color == "gray":
            return (values @ _LUMA)[..., None], placement
        return values[..., ::-1] if recipe.color == "bgr" else values, placement

    def _decode(self, exif: str, decoder: str, matrix: str) -> Pixels:
        if not self.is_turned:
            exif = "ignore"
        if not self.is_ycc:
            decoder, matrix = "exact", "jpeg"
        key = (exif, decoder, matrix)
        if key not in self._decoded:
            kept = sum(each.nbytes for each in self._decoded.values())
            if kept > _MOST_DECODED_BYTES:
                self._decoded.clear()
            self._decoded[key] = self._decode_now(exif, decoder, matrix)
        return self._decoded[key]

    def _decode_now(self, exif: str, decoder: str, matrix: str) -> Pixels:
        decoded: Pixels | None = None
        if matrix != "jpeg":
            decoded = _by_matrix(self.encoded, matrix)
        elif decoder in ("fast_idct", "plain_chroma"):
            decoded = _by_simplejpeg(self.encoded, decoder)
        if decoded is None:
            return decode(self.encoded, exif=exif, formats="jpeg,png,webp,bmp,gif")
        return self._oriented(decoded) if exif == "apply" else decoded

    def _oriented(self, pixels: Pixels) -> Pixels:
        with open_picture(io.BytesIO(self.encoded)) as image:
            stored = Image.fromarray(pixels)
            for name in ("exif",):
                if name in image.info:
                    stored.info[name] = image.info[name]
            return np.asarray(oriented(stored))


@dataclass(frozen=True)
class ImageKind:
    """What a file's header says.

    Attributes:
        is_jpeg: Whether it is a JPEG.
        mode: Pillow's; "" of a file that Pillow does not read.
        width, height: As it is stored; 0 of such a file.
        is_turned: Whether EXIF turns or mirrors it.
        swaps_sides: Whether EXIF makes its width the height.
        has_alpha: Whether it may have transparent pixels.
    """

    is_jpeg: bool
    mode: str = ""
    width: int = 0
    height: int = 0
    is_turned: bool = False
    swaps_sides: bool = False
    has_alpha: bool = False


def read_kind(encoded: bytes) -> ImageKind:
    """Return what the header of an image file says."""
    is_jpeg = encoded.startswith(b"\xff\xd8")
    try:
        with open_picture(io.BytesIO(encoded)) as image:
            has_alpha = image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info
            orientation = read_orientation(image)
            return ImageKind(
                is_jpeg,
                image.mode,
                image.width,
                image.height,
                is_turned=orientation > 1,
                swaps_sides=orientation >= _FIRST_SIDEWAYS,
                has_alpha=has_alpha,
            )
    except NOT_A_PICTURE:
        return ImageKind(is_jpeg)


@lru_cache(maxsize=256)
def _preprocessor(parameters: tuple[tuple[str, str], ...]) -> Preprocessor:
    fields: dict[str, Any] = dict(parameters)
    return Preprocessor(
        "ultralytics",
        threads=1,
        layout="nhwc",
        dtype="float32",
        scale=1.0,
        mean=0.0,
        std=1.0,
        formats="jpeg,png,webp,bmp,gif",
        **fields,
    )


def _place(height: int, width: int, recipe: Recipe) -> _Placement:
    free: Callable[[int, int], int]
    tensor_height, tensor_width = recipe.size
    if recipe.fit == "stretch":
        return _Placement(tensor_height, tensor_width, 0, 0)
    if recipe.fit == "center_crop":
        ratio_of = recipe.resize_shorter / min(height, width)
        resized = [
            recipe.resize_shorter if side == min(height, width) else _whole(side * ratio_of, recipe)
            for side in (height, width)
        ]
        free = _crop_offset
    else:
        ratio = min(tensor_height / height, tensor_width / width)
        if not recipe.upscale:
            ratio = min(ratio, 1.0)
        resized = [
            min(max(1, _whole(side * ratio, recipe)), tensor)
            for side, tensor in zip((height, width), recipe.size, strict=True)
        ]
        free = _pad_offset
    if recipe.fit == "letterbox" and recipe.pad_align == "top_left":
        return _Placement(resized[0], resized[1], 0, 0)
    kind = {"even": 0, "before": 1, "after": -1}[recipe.offset]
    return _Placement(
        resized[0],
        resized[1],
        free(tensor_height - resized[0], kind),
        free(tensor_width - resized[1], kind),
    )


def _whole(side: float, recipe: Recipe) -> int:
    if recipe.sides == "truncate":
        return int(side + 1e-6)  # 224.99999999 stands for 225
    return int(np.ceil(side - 1e-6)) if recipe.sides == "ceil" else round(side)


def _pad_offset(free: int, kind: int) -> int:
    """Return half the padding; of an odd number, before (1) puts the larger half first."""
    return (free + 1) // 2 if kind == 1 else free // 2


def _crop_offset(free: int, kind: int) -> int:
    """Return where the resized image begins, 0 or less: half, by even (0), floor (-1), ceil (1)."""
    cut = -free
    if kind == 0:
        return -round(cut / 2)
    return -(cut // 2) if kind == -1 else -((cut + 1) // 2)


def _by_simplejpeg(encoded: bytes, decoder: str) -> Pixels | None:
    """Return RGB by libjpeg-turbo's faster and less exact ways; None for what it does not read."""
    simplejpeg: Any = import_package("simplejpeg", package=FASTER_DECODER)
    try:
        decoded: Pixels = simplejpeg.decode_jpeg(
            encoded,
            colorspace="RGB",
            fastdct=decoder == "fast_idct",
            fastupsample=decoder == "plain_chroma",
        )
    except ValueError:  # damage that endcap's decoder accepts
        return None
    return decoded


def _by_matrix(encoded: bytes, matrix: str) -> Pixels | None:
    """Return RGB by another matrix than JPEG's; None for what is no YCbCr JPEG."""
    try:
        with open_picture(io.BytesIO(encoded)) as image:
            image.draft("YCbCr", None)
            if image.mode != "YCbCr":
                return None
            ycc = np.asarray(image, np.float32)
    except NOT_A_PICTURE:
        return None
    kr, kb, scale, offset = _MATRICES[matrix]
    kg = 1 - kr - kb
    luma, chroma = 255 / scale[0], 255 / scale[1]
    of_cr, of_cb = 2 * (1 - kr) * chroma, 2 * (1 - kb) * chroma
    weights = np.array(
        [
            [luma, 0, of_cr],
            [luma, -of_cb * kb / kg, -of_cr * kr / kg],
            [luma, of_cb, 0],
        ],
        np.float32,
    )
    ycc -= np.array([offset, 128, 128], np.float32)
    rgb: Floats = ycc @ weights.T
    np.clip(np.rint(rgb, out=rgb), 0, 255, out=rgb)
    return rgb.astype(np.uint8)
