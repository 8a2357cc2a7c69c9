"""Search for the recipe that explains a training pipeline's tensors.

Starting from endcap's own recipe, recipes that differ in one thing are tried; the best few go on.
At the end each change without which the tensors are explained as well is taken back, so that what
the images do not show is not reported.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap.evaluation.errors import EvaluationError
from endcap.tools.parity.imitation import Grid, Imitator
from endcap.tools.parity.normalization import Line, Normalization, fit_line, snap
from endcap.tools.parity.recipe import Recipe, neighbours, revert, starting_points

_BEAM = 4
_MOST_CHANGES = 8
# In 8-bit steps. What an image may differ without counting, for the logarithm of the cost; what a
# normalisation costs that no library uses.
_NOISE = 0.05
# Below this in the mean the tensors are the same.
_SAME_STEPS = 1e-3
_UNKNOWN_NORMALIZATION = 0.3
# An explanation is one when it leaves so many 8-bit steps in the mean, or this part of what there
# was before; and a normalisation that no library uses only where pixels and numbers lie on a line
# that leaves little.
SMALL_STEPS = 0.25
_SMALL_PART = 0.35
_STRAIGHT, _UNKNOWN_STEPS = 0.98, 1.0
# The slopes of images that are normalised each by itself differ by this part.
_OTHER_SLOPE = 0.03
# A change is one when it lowers the mean logarithm by this, and some image's difference by so many
# 8-bit steps.
_LEAST_GAIN = 0.08
_LEAST_STEPS = 0.04
# For equal fits: what preprocess can do first, then fewer changes.
_UNSUPPORTED_COST, _CHANGE_COST = 0.02, 0.005
_MOST_PIXELS = 30_000
_LEAST_PIXELS = 64


@dataclass(frozen=True)
class Sample:
    """An image, and the training pipeline's tensor of it, float [H, W, C]."""

    imitator: Imitator
    tensor: NDArray[np.float32]


@dataclass(frozen=True)
class Explanation:
    """How well a recipe explains the tensors.

    Attributes:
        recipe: The recipe.
        normalization: That of the tensors, by this recipe.
        is_known: Whether it is one that libraries use.
        residuals: Of each image, the mean difference of its pixels in 8-bit steps.
        pad_values: Pixel values of the padding per channel; None without padding.
        pad_spread: Mean difference of the padding from these, in 8-bit steps.
        correlation: Of pixels and numbers, in the image where it is best.
        cost: Mean logarithm of the residuals, and a little for each change.
        inside_steps: The mean of the residuals without padding.
        is_per_image: Whether each image is normalised by itself.
        is_good: Whether it explains the tensors; where it does not, it is endcap's own recipe.
    """

    recipe: Recipe
    normalization: Normalization
    is_known: bool
    residuals: tuple[float, ...]
    pad_values: tuple[float, ...] | None
    pad_spread: float
    correlation: float
    cost: float
    inside_steps: float = 0.0
    is_per_image: bool = False
    is_good: bool = True

    @property
    def steps(self) -> float:
        """The mean of the residuals."""
        return float(np.mean(self.residuals))


class Explainer:
    """Finds the recipe behind tensors.

    Args:
        samples: Images and tensors, all of one size.
        own: Endcap's recipe at the tensors' size.
        normalization: Endcap's.
        on_step: Is called after each recipe that was tried.

    Attributes:
        lacks_decoder: Whether recipes with faster decoders could not be tried, for FASTER_DECODER
            is not installed.
    """

    def __init__(
        self,
        samples: Sequence[Sample],
        own: Recipe,
        normalization: Normalization,
        *,
        on_step: Callable[[], None] = lambda: None,
    ) -> None:
        self._samples, self._own, self._normalization = samples, own, normalization
        self._grid = Grid.of(own.size, _MOST_PIXELS)
        self._targets = [self._grid.take(sample.tensor).astype(np.float64) for sample in samples]
        self._known: dict[Recipe, Explanation | None] = {}
        self._on_step = on_step
        self.lacks_decoder = False

    def explain(self) -> Explanation:
        """Return the simplest recipe that explains the tensors best."""
        unchanged = self._with_normalization(self._own, self._normalization)
        if unchanged.steps < _SAME_STEPS:
            return unchanged
        best = self._best(starting_points(self._own))
        for _ in range(_MOST_CHANGES):
            tried = [near for each in best for near in neighbours(each.recipe)]
            after = self._best([*(each.recipe for each in best), *tried])
            is_done = after[0].cost > best[0].cost - _LEAST_GAIN / 4
            best = after
            if is_done:
                break
        found = self._simplified(best[0])
        limit = max(SMALL_STEPS, _SMALL_PART * unchanged.steps)
        if found.steps > SMALL_STEPS:
            for each in (unchanged, found):
                if (by_image := self._per_image(each)) is not None:
                    return by_image
        is_good = min(found.steps, found.inside_steps) <= limit and (
            found.is_known or (found.correlation > _STRAIGHT and found.steps < _UNKNOWN_STEPS)
        )
        return found if is_good else replace(unchanged, is_good=False)

    def measure(self, recipe: Recipe) -> Explanation | None:
        """Return how well a recipe explains the tensors; None where it cannot be tried."""
        if recipe not in self._known:
            self._known[recipe] = self._measure(recipe)
            self._on_step()
        return self._known[recipe]

    def _best(self, recipes: Any) -> list[Explanation]:
        measured = {each: found for each in recipes if (found := self.measure(each)) is not None}
        return sorted(measured.values(), key=lambda each: each.cost)[:_BEAM]

    def _simplified(self, found: Explanation) -> Explanation:
        """Take back the changes that explain nothing, the least useful first."""
        while True:
            without = [
                simpler
                for name in found.recipe.changed_fields(self._own)
                if (simpler := self._without(found.recipe, name)) is not None
                and not is_gain(simpler, found)
            ]
            if not without:
                return found
            found = min(without, key=lambda each: each.cost)

    def _without(self, recipe: Recipe, name: str) -> Explanation | None:
        """Return a recipe with one field as endcap's own."""
        return self.measure(revert(recipe, self._own, name))

    def _per_image(self, found: Explanation) -> Explanation | None:
        """Return an explanation by normalising each image by itself; None where it is none."""
        pixels = [each.imitator.pixels(found.recipe, self._grid) for each in self._samples]
        lines = self._lines(pixels)
        if len(lines) < len(pixels) or min(line.correlation for line in lines) < _STRAIGHT:
            return None
        slopes = np.array([line.slopes for line in lines])
        if (slopes.max(axis=0) / slopes.min(axis=0) - 1).max() < _OTHER_SLOPE:
            return None
        residuals = [
            _residual(each, (target - line.shifts) / line.slopes).mean
            for each, target, line in zip(pixels, self._targets, lines, strict=True)
        ]
        if float(np.mean(residuals)) > SMALL_STEPS:
            return None
        return replace(found, residuals=tuple(residuals), is_per_image=True, pad_values=None)

    def _lines(self, pixels: Sequence[NDArray[np.float32]]) -> list[Line]:
        """Return the lines of the images that have one which rises."""
        lines = [_line(each, target) for each, target in zip(pixels, self._targets, strict=True)]
        return [line for line in lines if line is not None and (line.slopes > 0).all()]

    def _measure(self, recipe: Recipe) -> Explanation | None:
        if not recipe.is_possible:
            return None
        try:
            pixels = [each.imitator.pixels(recipe, self._grid) for each in self._samples]
        except EvaluationError:  # a package is missing
            self.lacks_decoder = True
            return None
        own = self._explanation(recipe, pixels, self._normalization, True, 0.0)
        lines = self._lines(pixels)
        if not lines:
            return own
        line = max(lines, key=lambda each: each.correlation)
        normalization, is_known = snap(line, self._normalization)
        if normalization == self._normalization:
            return replace(own, correlation=line.correlation)
        found = self._explanation(recipe, pixels, normalization, is_known, line.correlation)
        return found if found.cost < own.cost else own

    def _with_normalization(self, recipe: Recipe, normalization: Normalization) -> Explanation:
        pixels = [each.imitator.pixels(recipe, self._grid) for each in self._samples]
        return self._explanation(recipe, pixels, normalization, True, 0.0)

    def _explanation(
        self,
        recipe: Recipe,
        pixels: Sequence[NDArray[np.float32]],
        normalization: Normalization,
        is_known: bool,
        correlation: float,
    ) -> Explanation:
        measured = [
            _residual(each, normalization.undo(target))
            for each, target in zip(pixels, self._targets, strict=True)
        ]
        pads = [each.pad for each in measured if each.pad is not None]
        extra = 0.0 if is_known else _UNKNOWN_NORMALIZATION
        residuals = tuple(each.mean for each in measured)
        cost = float(np.mean(np.log(np.array(residuals) + extra + _NOISE)))
        cost += _UNSUPPORTED_COST * len(recipe.unsupported)
        cost += _CHANGE_COST * len(recipe.changed_fields(self._own))
        return Explanation(
            recipe,
            normalization,
            is_known,
            residuals,
            tuple(np.median(pads, axis=0).tolist()) if pads else None,
            max((each.pad_spread for each in measured), default=0.0),
            correlation,
            cost,
            float(np.mean([each.inside for each in measured])),
        )


def is_gain(before: Explanation, after: Explanation) -> bool:
    """Return whether a change explains the tensors better by more than noise."""
    one, other = np.array(before.residuals), np.array(after.residuals)
    penalties = [0.0 if each.is_known else _UNKNOWN_NORMALIZATION for each in (before, after)]
    gain = np.mean(np.log(one + penalties[0] + _NOISE) - np.log(other + penalties[1] + _NOISE))
    return bool(
        gain > _LEAST_GAIN and (one + penalties[0] - other - penalties[1]).max() > _LEAST_STEPS
    )


def _line(pixels: NDArray[np.float32], target: NDArray[np.float64]) -> Line | None:
    """Return the line of the image inside its padding; None where too little is to see."""
    inside = ~np.isnan(pixels[..., 0])
    count = np.count_nonzero(inside)
    if count < _LEAST_PIXELS:
        return None
    if count == inside.size:
        channels = pixels.shape[-1]
        return fit_line(pixels.reshape(-1, channels), target.reshape(-1, channels))
    return fit_line(pixels[inside], target[inside])


@dataclass(frozen=True)
class _Residual:
    """Mean differences in 8-bit steps: of all, without padding, and of the padding from `pad`."""

    mean: float
    inside: float
    pad: NDArray[np.float64] | None = None
    pad_spread: float = 0.0


def _residual(pixels: NDArray[np.float32], target: NDArray[np.float64]) -> _Residual:
    """Return the difference of an image; padding differs by what is not constant in it."""
    difference = np.abs(target - pixels)
    mean = float(difference.mean())
    padding = np.isnan(pixels[..., 0]) if math.isnan(mean) else None
    if padding is None or not padding.any():
        return _Residual(mean, mean)
    pad = np.median(target[padding], axis=0)
    difference[padding] = np.abs(target[padding] - pad)
    inside = difference[~padding]
    return _Residual(
        float(difference.mean()),
        float(inside.mean()) if inside.size else 0.0,
        pad,
        float(difference[padding].mean()),
    )
