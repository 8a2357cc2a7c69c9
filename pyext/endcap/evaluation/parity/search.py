"""Search for the parameters of preprocess that make a training pipeline's tensors.

Each parameter is changed alone; the few best go on. At the end each change without which the
tensors are explained as well is taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap.errors import InvalidArgumentError
from endcap.evaluation.parity.normalization import Line
from endcap.preprocess import Preprocessor
from endcap.repository.input_normalization import Normalization

Floats = NDArray[np.float32]

# Mean difference in 8-bit steps that an explanation may leave, or this part of what there was.
SMALL_STEPS = 0.25
_SMALL_PART = 0.35
# A normalisation that no library uses is worse by that many steps, and must leave little.
_UNKNOWN_NORMALIZATION = 0.3
_STRAIGHT, _UNKNOWN_STEPS = 0.98, 1.0
# A change counts when it lowers the mean logarithm of the differences, to which this noise is
# added, by the least gain, and the difference of an image to this part and by that many steps.
_NOISE, _MIN_GAIN, _MAX_PART, _MIN_STEPS = 0.05, 0.08, 0.6, 0.04
_CHANGE_COST = 0.005  # for equal fits, fewer changes
_BEAM, _MAX_CHANGES = 4, 8
_MAX_PIXELS = 30_000  # of a tensor that are compared
_MIN_PIXELS = 64

_TRIED = (
    *("exif", "alpha", "decode", "color", "fit", "upscale", "pad_align"),
    *("interpolation", "antialias", "quantize"),
)
_OF_LETTERBOX = ("upscale", "pad_align")
# The part of the short side that libraries crop, steps from there, and what to begin with.
_CROP_SHARES = (224 / 256, 0.875, 0.9, 0.95, 0.96, 0.965, 1.0, 224 / 232, 0.94, 0.985, 0.8)
_CROP_STEPS = (-32, -16, -8, -4, -2, -1, 1, 2, 4, 8, 16, 32)
_CROP_SCALES = (1.0, 1.07, 8 / 7, 1.25, 1.4, 1.6, 1.8, 2.0, 2.3, 2.6, 3.0)


@dataclass(frozen=True)
class Explanation:
    """How well parameters explain the tensors.

    Attributes:
        changes: Parameters that differ from endcap's own, but for the normalisation and pad_value.
        normalization: That of the tensors.
        is_known: Whether libraries use it.
        residuals: The mean difference of each image in 8-bit steps.
        pad_values: Pixel values of the padding per channel; None without padding.
        correlation: Of pixels and numbers, in the image where it is best.
        cost: Mean logarithm of the residuals, and a little for each change.
    """

    changes: dict[str, str]
    normalization: Normalization
    is_known: bool
    residuals: NDArray[np.float64]
    pad_values: tuple[float, ...] | None
    correlation: float
    cost: float

    @property
    def steps(self) -> float:
        """The mean of the residuals."""
        return float(self.residuals.mean())

    @property
    def is_exact(self) -> bool:
        """Whether no change can count, see `_is_gain`."""
        return self.is_known and bool((self.residuals < _MIN_STEPS).all())


class Explainer:
    """Finds the parameters behind tensors.

    Args:
        encoded: Images.
        tensors: The training pipeline's of these, float32 [H, W, C], all of one size.
        own: All of endcap's parameters of preprocess, with the tensors' size and color.
        on_step: Is called after each set of parameters that was tried.

    Attributes:
        own: The parameters with which the search begins: a short side that the size allows.
    """

    def __init__(
        self,
        encoded: Sequence[bytes],
        tensors: Sequence[Floats],
        own: Mapping[str, str],
        on_step: Callable[[], None],
    ) -> None:
        height, width, channels = tensors[0].shape
        self._size, self._on_step = (height, width), on_step
        self._step = max(1, int(np.ceil(np.sqrt(height * width / _MAX_PIXELS))))
        self._targets = [self._thin(each).astype(np.float64) for each in tensors]
        self._encoded = encoded
        shorter = max(int(own["resize_shorter"]), height, width)
        self.own = {**own, "resize_shorter": str(shorter)}
        self._normalization = Normalization.from_parameters(own, channels)
        self._levels = {
            row.name: row.allowed.removeprefix("one of ").replace(" or ", ", ").split(", ")
            for row in Preprocessor().describe()
            if row.name in _TRIED
        }
        self._levels["color"] = ["rgb", "bgr"] if channels == 3 else ["gray"]
        self._measured: dict[tuple[str, ...], Explanation | None] = {}

    def explain(self) -> Explanation | None:
        """Return the simplest parameters that explain the tensors; None where none do."""
        unchanged = self._measure(self.own, self._normalization)
        if unchanged is None or unchanged.is_exact:
            return unchanged
        best = self._best(self._starting_points())
        for _ in range(_MAX_CHANGES):
            if best[0].is_exact:
                break
            before = best[0].cost
            tried = [near for each in best for near in self._neighbours(each.changes)]
            best = self._best([*(each.changes for each in best), *tried])
            if best[0].cost > before - _MIN_GAIN / 4:
                break
        found = self._simplify(best[0])
        is_close = found.steps <= max(SMALL_STEPS, _SMALL_PART * unchanged.steps)
        is_line = found.correlation > _STRAIGHT and found.steps < _UNKNOWN_STEPS
        return found if is_close and (found.is_known or is_line) else None

    def _starting_points(self) -> Iterator[dict[str, str]]:
        """Yield all combinations of what moves or mixes up an image as a whole."""
        names = ("fit", "pad_align", "exif", "color")
        for values in product(*(self._levels[name] for name in names)):
            yield self._changes(dict(zip(names, values, strict=True)))
        for scale, exif in product(_CROP_SCALES, self._levels["exif"]):
            shorter = str(round(max(self._size) * scale))
            yield self._changes({"fit": "center_crop", "resize_shorter": shorter, "exif": exif})

    def _neighbours(self, changes: dict[str, str]) -> Iterator[dict[str, str]]:
        """Yield the parameters that differ in one thing."""
        now = {**self.own, **changes}
        for name, values in self._levels.items():
            if name in _OF_LETTERBOX and now["fit"] != "letterbox":
                continue
            for value in values:
                yield self._changes({**changes, name: value})
        if now["fit"] == "center_crop":
            shorter = int(now["resize_shorter"])
            sides = {round(min(self._size) / share) for share in _CROP_SHARES}
            for side in sorted(sides | {shorter + step for step in _CROP_STEPS}):
                yield self._changes({**changes, "resize_shorter": str(side)})

    def _changes(self, values: Mapping[str, str]) -> dict[str, str]:
        """Return the values that are not endcap's own."""
        if values.get("interpolation") == "nearest":  # which does not widen
            values = {**values, "antialias": "false"}
        return {name: value for name, value in values.items() if value != self.own[name]}

    def _best(self, candidates: Iterable[dict[str, str]]) -> list[Explanation]:
        found = {}
        for changes in candidates:
            key = tuple(changes.get(name, self.own[name]) for name in (*_TRIED, "resize_shorter"))
            if key not in self._measured:
                self._measured[key] = self._measure({**self.own, **changes}, None)
                self._on_step()
            found[key] = self._measured[key]
        known = [each for each in found.values() if each is not None]
        return sorted(known, key=lambda each: each.cost)[:_BEAM]

    def _simplify(self, found: Explanation) -> Explanation:
        """Take back the changes that explain nothing, the least useful first."""
        while True:
            without = []
            for name in found.changes:
                fewer = {other: value for other, value in found.changes.items() if other != name}
                without += [each for each in self._best([fewer]) if not _is_gain(each, found)]
            if not without:
                return found
            found = min(without, key=lambda each: each.cost)

    def _measure(
        self, parameters: Mapping[str, str], normalization: Normalization | None
    ) -> Explanation | None:
        """Return how well parameters explain the tensors; None where preprocess refuses them.

        Args:
            parameters: All of preprocess.
            normalization: That of the tensors; None finds it.
        """
        try:
            pixels = self._pixels(parameters)
        except InvalidArgumentError:  # values that do not go together
            return None
        changes = self._changes(parameters)
        own = self._explanation(changes, pixels, self._normalization, is_known=True)
        if normalization is not None:
            return own
        lines = [
            line
            for each, target in zip(pixels, self._targets, strict=True)
            if (inside := ~np.isnan(each[..., 0])).sum() >= _MIN_PIXELS
            and ((line := Line.fit(each[inside], target[inside])).slopes > 0).all()
        ]
        if not lines:
            return own
        line = max(lines, key=lambda each: each.correlation)
        nearest, is_known = line.nearest(self._normalization)
        found = self._explanation(changes, pixels, nearest, is_known=is_known)
        return replace(min(own, found, key=lambda e: e.cost), correlation=line.correlation)

    def _pixels(self, parameters: Mapping[str, str]) -> list[Floats]:
        """Return pixels [rows, columns, C] of each image in 8-bit steps, NaN for its padding."""
        raw = {"layout": "nhwc", "dtype": "float32", "scale": "1", "mean": "0", "std": "1"}
        fields: dict[str, Any] = {**parameters, **raw}
        made = Preprocessor(**fields)(self._encoded)
        pixels = []
        for image, geometry in zip(made.images, made.geometry, strict=True):
            scale_x, scale_y, left, top, width, height = geometry[:6].tolist()
            padded = np.full(image.shape, np.nan, np.float32)
            rows, columns = (
                slice(max(0, round(first)), max(0, round(first + side * scale)))
                for first, side, scale in ((top, height, scale_y), (left, width, scale_x))
            )
            padded[rows, columns] = image[rows, columns]
            pixels.append(self._thin(padded))
        return pixels

    def _thin(self, tensor: Floats) -> Floats:
        return tensor[:: self._step, :: self._step]

    def _explanation(
        self,
        changes: dict[str, str],
        pixels: Sequence[Floats],
        normalization: Normalization,
        *,
        is_known: bool,
    ) -> Explanation:
        residuals, pads = [], []
        for each, target in zip(pixels, self._targets, strict=True):
            wanted = normalization.undo(target)
            difference = np.abs(wanted - each)
            padding = np.isnan(each[..., 0])
            if padding.any():  # which differs by what is not constant in it
                pads.append(np.median(wanted[padding], axis=0))
                difference[padding] = np.abs(wanted[padding] - pads[-1])
            residuals.append(float(difference.mean()))
        known = np.array(residuals) + (0.0 if is_known else _UNKNOWN_NORMALIZATION)
        return Explanation(
            changes,
            normalization,
            is_known,
            np.array(residuals),
            tuple(np.median(pads, axis=0).tolist()) if pads else None,
            0.0,
            float(np.log(known + _NOISE).mean()) + _CHANGE_COST * len(changes),
        )


def _is_gain(before: Explanation, after: Explanation) -> bool:
    """Return whether a change explains the tensors better by more than noise."""
    one, other = (
        each.residuals + (0.0 if each.is_known else _UNKNOWN_NORMALIZATION)
        for each in (before, after)
    )
    gain = (np.log(one + _NOISE) - np.log(other + _NOISE)).mean()
    is_closer = (other < _MAX_PART * one) & (one - other > _MIN_STEPS)
    return bool(gain > _MIN_GAIN and is_closer.any())
