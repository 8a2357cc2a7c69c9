"""Measurements of every kind of difference, and of the pipelines (b) and (c) as wholes."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

import endcap
from benchmarks.dali import pipelines
from benchmarks.dali.kinds import KINDS, Kind
from benchmarks.dali.pipelines import CPU_PIPELINES
from benchmarks.images import Photograph

Pixels = npt.NDArray[np.uint8]

# height, width: sides that shrink and grow by whole and by odd factors; none whose letterbox ends
# in half a pixel, which is a kind of difference of its own.
SIZES = ((640, 640), (1280, 960), (999, 1001), (872, 1000), (37, 1000), (311, 203), (9, 7))
HALF_A_PIXEL = (641, 1280)  # at half size 320.5 rows


def noise(height: int, width: int) -> Pixels:
    """Every value at random: what is hardest for a filter."""
    values: Pixels = np.random.default_rng(height).integers(0, 256, (height, width, 3), np.uint8)
    return values


def edges(height: int, width: int) -> Pixels:
    """Return a chessboard of fields of three pixels, black and white."""
    y, x = np.mgrid[0:height, 0:width]
    board = ((y // 3 + x // 3) % 2 * 255).astype(np.uint8)
    return np.repeat(board[..., None], 3, axis=2)


def ramp(height: int, width: int) -> Pixels:
    """Colours that grow slowly along either axis."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    across, down = 255 * x / width, 255 * y / height
    colours = [across, down, 255 - (across + down) / 2]
    picture: Pixels = np.rint(np.stack(colours, axis=2)).astype(np.uint8)
    return picture


def pictures() -> dict[str, Pixels]:
    """All of them by name."""
    return {
        f"{make.__name__} {width}x{height}": make(height, width)
        for make in (noise, edges, ramp)
        for height, width in SIZES
    }


def jpegs() -> dict[str, bytes]:
    """Return the pictures as files, and one of each kind of file that Pillow writes."""
    files = {name: encode(pixels) for name, pixels in pictures().items()}
    picture = ramp(431, 653) // 2 + noise(431, 653) // 2
    for name, subsampling in (("4:4:4", 0), ("4:2:2", 1), ("4:2:0", 2)):
        files[name] = encode(picture, subsampling=subsampling)
    files["progressive"] = encode(picture, progressive=True)
    files["quality 30"] = encode(picture, quality=30)
    files["gray"] = encode(picture[..., 0])
    return files


def cmyk() -> dict[str, bytes]:
    """Files of four inks."""
    inks = [
        np.dstack([make(431, 653), noise(653, 431).transpose(1, 0, 2)[..., :1]])
        for make in (noise, ramp)
    ]
    return {f"CMYK {index}": encode(each, mode="CMYK") for index, each in enumerate(inks)}


def encode(pixels: Pixels, mode: str | None = None, **options: Any) -> bytes:
    """Return a JPEG of quality 90 unless told otherwise."""
    mode = mode or ("L" if pixels.ndim == 2 else "RGB")
    size = (pixels.shape[1], pixels.shape[0])
    picture = Image.frombytes(mode, size, np.ascontiguousarray(pixels).tobytes())
    file = io.BytesIO()
    picture.save(file, "JPEG", **{"quality": 90, **options})
    return file.getvalue()


Json = dict[str, Any]


@dataclass(frozen=True)
class Difference:
    """Between pictures of one shape, in 8-bit steps; of several pictures the worst of each."""

    largest: float
    mean: float  # of the absolute differences
    share: float  # of the values that differ
    where: str = ""  # the picture of the largest one

    @staticmethod
    def of(theirs: Any, ours: Any, name: str = "") -> Difference:
        """Raise ValueError where the shapes differ."""
        if theirs.shape != ours.shape:
            raise ValueError(f"{name}: {list(theirs.shape)} and {list(ours.shape)}")
        steps = np.abs(theirs.astype(np.float64) - ours.astype(np.float64))
        return Difference(
            float(steps.max()),
            float(steps.mean()),
            float(np.count_nonzero(steps) / steps.size),
            name,
        )


def worst(differences: Iterable[Difference]) -> Difference:
    """Return the largest of each figure."""
    every = list(differences)
    farthest = max(every, key=lambda each: each.largest)
    return Difference(
        farthest.largest,
        max(each.mean for each in every),
        max(each.share for each in every),
        farthest.where,
    )


def measured(kind: Kind, inputs: Mapping[str, Any]) -> Difference:
    """One kind over several inputs."""
    return worst(
        Difference.of(kind.theirs(each), kind.ours(each), name) for name, each in inputs.items()
    )


def pipeline(key: str, files: Mapping[str, bytes]) -> Difference:
    """Return a pipeline of CPU_PIPELINES against endcap.preprocess, the images in 8-bit steps."""
    (chosen,) = (each for each in CPU_PIPELINES if each.key == key)
    theirs, ours = pipelines.make(chosen, 1, 1), pipelines.make(CPU_PIPELINES[0], 1, 1)
    found = []
    for name, file in files.items():
        encoded = [np.frombuffer(file, np.uint8)]
        tensors = theirs.arrays(encoded)[0], ours.arrays(encoded)[0]
        found.append(Difference.of(_steps(tensors[0]), _steps(tensors[1]), name))
    return worst(found)


def run(pictures: Iterable[Photograph], done: Callable[[str], None]) -> list[Json]:
    """Return a row for each kind and pipeline; one that needs a GPU where there is none says so."""
    photographs = {picture.name: picture.encoded for picture in pictures}
    rows = []
    for kind in KINDS:
        rows.append(_row(kind, photographs))
        done(kind.name)
    for each in CPU_PIPELINES[2:]:
        found = {
            "photographs": vars(pipeline(each.key, photographs)),
            "synthetic": vars(pipeline(each.key, jpegs())),
        }
        rows.append({"name": f"pipeline {each.key}", "reason": "the steps above", **found})
        done(each.key)
    return rows


def steps() -> int:
    """How often `run` will say that something is done."""
    return len(KINDS) + len(CPU_PIPELINES[2:])


def _steps(tensor: Any) -> Any:
    return np.rint(tensor * 255)


def _row(kind: Kind, photographs: Mapping[str, bytes]) -> Json:
    row: Json = {"name": kind.name, "reason": kind.reason, "photographs": None, "synthetic": None}
    if kind.needs_gpu and not endcap.cuda_state().available:
        return row
    for group, inputs in _inputs(kind, photographs).items():
        row[group] = vars(measured(kind, inputs))
    return row


def _inputs(kind: Kind, photographs: Mapping[str, bytes]) -> dict[str, Mapping[str, Any]]:
    if kind.inputs == "files":
        return {"photographs": photographs, "synthetic": jpegs()}
    if kind.inputs == "CMYK files":
        return {"synthetic": cmyk()}
    if kind.inputs == "half a pixel":
        return {"synthetic": {"noise": noise(*HALF_A_PIXEL)}}
    decoded = {name: np.asarray(endcap.decode(file)) for name, file in photographs.items()}
    return {"photographs": decoded, "synthetic": pictures()}
