"""Search for the recipe that explains a training pipeline's tensors.

Starting from endcap's own recipe, recipes that differ in one thing are tried; the best few go on.
At the end each change without which the tensors are explained as well is taken back, so that what
the images do not show is not reported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap.evaluation.errors import EvaluationError
from endcap.tools.parity.imitation import Grid, Imitator
from endcap.tools.parity.normalization import Line, Normalization, fit_line, snap
from endcap.tools.parity.recipe import Recipe, neighbours, starting_points, with_field

_BEAM = 4
_MOST_CHANGES = 8
# In 8-bit steps. What an image may differ without counting, for the logarithm of the cost; what a
# normalisation costs that no library uses; and a tensor that is on no line with the pixels at all.
_NOISE = 0.05
_UNKNOWN_NORMALIZATION = 0.3
_NO_LINE = 200.0
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
        cost: Mean logarithm of the residuals, and a little for each change.
    """

    recipe: Recipe
    normalization: Normalization
    is_known: bool
    residuals: tuple[float, ...]
    pad_values: tuple[float, ...] | None
    cost: float


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
        best = self._best(starting_points(self._own))
        for _ in range(_MOST_CHANGES):
            tried = [near for each in best for near in neighbours(each.recipe)]
            after = self._best([*(each.recipe for each in best), *tried])
            is_done = after[0].cost > best[0].cost - _LEAST_GAIN / 4
            best = after
            if is_done:
                break
        return self._simplified(best[0])

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

    def _measure(self, recipe: Recipe) -> Explanation | None:
        if not recipe.is_possible:
            return None
        try:
            pixels = [each.imitator.pixels(recipe, self._grid) for each in self._samples]
        except EvaluationError:  # a package is missing
            self.lacks_decoder = True
            return None
        lines = [_line(each, target) for each, target in zip(pixels, self._targets, strict=True)]
        line = max(filter(None, lines), key=lambda each: each.correlation, default=None)
        if line is None or (line.slopes <= 0).any():
            normalization, is_known, residuals = self._normalization, False, [_NO_LINE] * len(lines)
            pads: list[NDArray[np.float64]] = []
        else:
            normalization, is_known = snap(line, self._normalization)
            measured = [
                _residual(each, normalization.undo(target))
                for each, target in zip(pixels, self._targets, strict=True)
            ]
            residuals = [residual for residual, _ in measured]
            pads = [pad for _, pad in measured if pad is not None]
        extra = 0.0 if is_known else _UNKNOWN_NORMALIZATION
        cost = float(np.mean(np.log(np.array(residuals) + extra + _NOISE)))
        cost += _UNSUPPORTED_COST * len(recipe.unsupported)
        cost += _CHANGE_COST * len(recipe.changed_fields(self._own))
        return Explanation(
            recipe,
            normalization,
            is_known,
            tuple(residuals),
            tuple(np.median(pads, axis=0).tolist()) if pads else None,
            cost,
        )


def revert(recipe: Recipe, own: Recipe, name: str) -> Recipe:
    """Return a recipe with one field as endcap's own, and what belongs to the fit with it."""
    if name != "fit":
        return with_field(recipe, name, getattr(own, name))
    return replace(
        recipe,
        fit=own.fit,
        resize_shorter=own.resize_shorter,
        sides=own.sides,
        offset=own.offset,
        pad_align=own.pad_align,
        upscale=own.upscale,
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
    if inside.sum() < _LEAST_PIXELS:
        return None
    return fit_line(pixels[inside], target[inside])


def _residual(
    pixels: NDArray[np.float32], target: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64] | None]:
    """Return the mean difference in 8-bit steps, and the value of the padding per channel.

    Padding differs by what is not constant in it.
    """
    padding = np.isnan(pixels[..., 0])
    difference = np.abs(target - np.nan_to_num(pixels))
    if not padding.any():
        return float(difference.mean()), None
    pad = np.median(target[padding], axis=0)
    difference[padding] = np.abs(target[padding] - pad)
    return float(difference.mean()), pad
