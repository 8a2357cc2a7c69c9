"""Causes of a difference: what a training pipeline does otherwise, what it costs, what to set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap.tools.parity.imitation import Grid
from endcap.tools.parity.normalization import Normalization, number
from endcap.tools.parity.recipe import Recipe, native_offset, native_sides, revert
from endcap.tools.parity.search import Explanation, Sample

_MOST_PIXELS = 100_000
# Pixel values of padding that count as equal, in 8-bit steps.
_SAME_PAD = 0.6
# From this mean difference on padding has no value of its own.
_CONSTANT_SPREAD = 2.0


@dataclass(frozen=True, kw_only=True)
class Cause:
    """One thing that a training pipeline does otherwise.

    Attributes:
        name: Of a field of `Recipe`, or size, layout, dtype, scale, mean, std or pad_value.
        title: For people.
        training, endcap: What each of the two does.
        mean_steps, max_steps: The difference that this alone makes, over all pixels of the images,
            in 8-bit steps; None where tensors cannot be compared.
        parameters: What to set so that endcap does the same; empty where it cannot.
        advice: What to do where it cannot, or what is to know.
    """

    name: str
    title: str
    training: str
    endcap: str
    mean_steps: float | None = None
    max_steps: float | None = None
    parameters: dict[str, str] = field(default_factory=dict)
    advice: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return it as an object of JSON."""
        return {
            "name": self.name,
            "title": self.title,
            "training": self.training,
            "endcap": self.endcap,
            "mean_steps": self.mean_steps,
            "max_steps": self.max_steps,
            "parameters": self.parameters,
            "advice": self.advice,
        }


_TITLES = {
    "exif": "EXIF orientation",
    "decoder": "JPEG decoder",
    "matrix": "matrix from YCbCr to RGB",
    "color": "order of the channels",
    "fit": "how the image fits the tensor",
    "resize_shorter": "short side before the crop",
    "sides": "rounding of the resized sides",
    "upscale": "enlarging of small images",
    "pad_align": "place of the image in its padding",
    "offset": "rounding of the image's place",
    "interpolation": "interpolation",
    "antialias": "antialias when shrinking",
    "centers": "pixel centres of the resize",
    "first_pass": "order of the resize's axes",
    "rounding": "rounding of resized pixels",
}
_PARAMETERS = {
    "exif": "exif",
    "decoder": "decode",
    "color": "color",
    "fit": "fit",
    "resize_shorter": "resize_shorter",
    "upscale": "upscale",
    "pad_align": "pad_align",
    "interpolation": "interpolation",
    "antialias": "antialias",
    "rounding": "quantize",
}
_WORDS: dict[str, dict[object, str]] = {
    "exif": {"apply": "applied", "ignore": "ignored"},
    "decoder": {
        "exact": "exact",
        "scaled": "DCT scaling (decode: fast)",
        "fast_idct": "fast inverse DCT (JDCT_IFAST)",
        "plain_chroma": "chroma repeated, not interpolated",
    },
    "matrix": {"jpeg": "BT.601, full range", "limited": "BT.601, 16 to 235", "bt709": "BT.709"},
    "sides": {"nearest": "nearest", "truncate": "truncated", "ceil": "rounded up"},
    "upscale": {True: "enlarged", False: "left small"},
    "offset": {"after": "rounded down", "before": "rounded up", "even": "half to even"},
    "antialias": {True: "yes", False: "no"},
    "centers": {
        "half_pixel": "half-pixel",
        "corners": "corners aligned",
        "asymmetric": "asymmetric (no half pixel)",
    },
    "first_pass": {"columns": "columns first", "rows": "rows first"},
    "rounding": {"nearest": "to 8 bits", "truncate": "truncated", "none": "none (float)"},
}
_ADVICE = {
    "decoder": "endcap decodes exactly; let the training decode so, too (TensorFlow: "
    "dct_method='INTEGER_ACCURATE'; TurboJPEG: without the fast flags)",
    "matrix": "endcap uses the matrix of the JPEG standard, as all common readers do; look at how "
    "the training converts YCbCr",
    "sides": "endcap rounds as Ultralytics (letterbox) and torchvision (center_crop) do; use "
    "round() for letterbox, and whole division for center_crop",
    "offset": "endcap places as Ultralytics (letterbox) and torchvision (center_crop) do",
    "interpolation": "endcap has no Lanczos filter; bicubic is the nearest",
    "centers": "endcap resizes by half-pixel centres, as PyTorch with align_corners=False, "
    "TensorFlow 2, OpenCV and Pillow do; nearest is Pillow's",
    "first_pass": "endcap resizes columns first, as Pillow before version 13",
    "rounding": "endcap rounds to the nearest or not at all; round before the conversion to uint8",
}
_WORST_FIRST = -1.0


def find_causes(
    found: Explanation,
    own: Recipe,
    normalization: Normalization,
    pad_value: int,
    samples: Sequence[Sample],
) -> list[Cause]:
    """Return the causes that an explanation has, the largest effect first.

    Args:
        found: What explains the training pipeline's tensors.
        own: Endcap's recipe, at the size of these tensors.
        normalization: Endcap's.
        pad_value: Endcap's.
        samples: The images by which effects are measured.
    """
    if not found.is_good:
        return []
    measure = _Effects(found, own, samples)
    causes = [
        _recipe_cause(name, found.recipe, own, *measure.of_field(name))
        for name in found.recipe.changed_fields(own)
    ]
    causes += _normalization_causes(found, normalization, measure)
    pad = _pad_cause(found, pad_value, measure)
    if pad is not None:
        causes.append(pad)
    return sorted(causes, key=lambda each: _WORST_FIRST * (each.mean_steps or 0.0))


class _Effects:
    """Differences that single changes make, in 8-bit steps: their mean and maximum."""

    def __init__(self, found: Explanation, own: Recipe, samples: Sequence[Sample]) -> None:
        self._found, self._own, self._samples = found, own, samples
        self._grid = Grid.of(own.size, _MOST_PIXELS)
        self.pixels = [each.imitator.pixels(found.recipe, self._grid) for each in samples]

    def of_field(self, name: str) -> tuple[float | None, float | None]:
        """Return what a field of the recipe makes."""
        other = revert(self._found.recipe, self._own, name)
        if not other.is_possible:
            return None, None
        return self.between(
            self.pixels,
            [each.imitator.pixels(other, self._grid) for each in self._samples],
        )

    def between(
        self, ours: Sequence[NDArray[np.float32]], theirs: Sequence[NDArray[np.float32]]
    ) -> tuple[float, float]:
        """Return the mean and the maximum over all images; padding has its value."""
        pad = self._found.pad_values or (114.0,)
        differences = [
            np.abs(np.where(np.isnan(a), pad, a) - np.where(np.isnan(b), pad, b))
            for a, b in zip(ours, theirs, strict=True)
        ]
        return (
            float(np.mean([each.mean() for each in differences])),
            float(max(each.max() for each in differences)),
        )

    def padding_share(self) -> float:
        """Return the part of the tensors that is padding."""
        return float(np.mean([np.isnan(each[..., 0]).mean() for each in self.pixels]))


def _recipe_cause(
    name: str, found: Recipe, own: Recipe, mean: float | None, largest: float | None
) -> Cause:
    can_be_set = name in _PARAMETERS and name not in found.unsupported
    values = found.parameters()
    parameters = {_PARAMETERS[name]: values[_PARAMETERS[name]]} if can_be_set else {}
    if name == "fit" and found.fit == "center_crop":
        parameters["resize_shorter"] = values["resize_shorter"]
    words = _WORDS.get(name, {})
    native = {"sides": native_sides(found.fit), "offset": native_offset(found.fit)}
    return Cause(
        name=name,
        title=_TITLES[name],
        training=_word(words, getattr(found, name)),
        endcap=_word(words, native.get(name, getattr(own, name))),
        mean_steps=mean,
        max_steps=largest,
        parameters=parameters,
        advice="" if can_be_set else _ADVICE[name],
    )


def _word(words: dict[object, str], value: object) -> str:
    return words.get(value, str(value))


def _normalization_causes(found: Explanation, own: Normalization, measure: _Effects) -> list[Cause]:
    theirs = found.normalization
    if found.is_per_image:
        return [
            Cause(
                name="normalization",
                title="normalisation",
                training="of each image by its own mean and deviation",
                endcap=_line_text(own, ("scale", "mean", "std")),
                advice="endcap normalises all images alike; move this step into the network",
            )
        ]
    if theirs == own or (
        np.allclose(theirs.slopes, own.slopes, rtol=1e-4)
        and np.allclose(theirs.shifts, own.shifts, rtol=1e-4, atol=1e-4)
    ):
        return []
    values, ours = theirs.parameters(), own.parameters()
    changed = [name for name in ("scale", "mean", "std") if values[name] != ours[name]]
    both = [theirs.apply(np.nan_to_num(each, nan=114.0)) for each in measure.pixels]
    as_pixels = [np.asarray(own.undo(each), np.float32) for each in both]
    mean, largest = measure.between(
        [np.nan_to_num(each, nan=114.0) for each in measure.pixels], as_pixels
    )
    reverse = own.mean[::-1], own.std[::-1]
    is_reversed = reverse == (theirs.mean, theirs.std) != (own.mean, own.std)
    return [
        Cause(
            name="normalization",
            title="normalisation",
            training=_line_text(theirs, changed),
            endcap=_line_text(own, changed),
            mean_steps=mean,
            max_steps=largest,
            parameters={name: values[name] for name in changed},
            advice="mean and std are in the reverse order of the channels" if is_reversed else "",
        )
    ]


def _line_text(normalization: Normalization, names: Sequence[str]) -> str:
    texts = {
        "scale": _scale_text(normalization.scale),
        "mean": _short(normalization.mean),
        "std": _short(normalization.std),
    }
    return ", ".join(f"{name} {texts[name]}" for name in names)


def _scale_text(scale: float) -> str:
    whole = round(1 / scale) if 0 < scale < 1 else 0
    return f"1/{whole}" if whole and abs(1 / whole - scale) < 1e-9 else f"{scale:.4g}"


def _short(values: Sequence[float]) -> str:
    texts = [f"{value:.4g}" for value in values]
    return texts[0] if len(set(texts)) == 1 else ",".join(texts)


def _pad_cause(found: Explanation, own: int, measure: _Effects) -> Cause | None:
    pads = found.pad_values
    if pads is None:
        return None
    if found.pad_spread > _CONSTANT_SPREAD:
        return Cause(
            name="pad_value",
            title="padding",
            training="not constant",
            endcap=str(own),
            advice="endcap pads with one value; the training repeats or mirrors the image there",
        )
    if all(abs(value - own) < _SAME_PAD for value in pads):
        return None
    share = measure.padding_share()
    steps = np.abs(np.array(pads) - own)
    nearest = round(float(np.mean(pads)))
    is_whole = all(abs(value - nearest) < _SAME_PAD for value in pads)
    return Cause(
        name="pad_value",
        title="value of the padding",
        training=_short(pads) if not is_whole else str(nearest),
        endcap=str(own),
        mean_steps=float(steps.mean() * share),
        max_steps=float(steps.max()),
        parameters={"pad_value": number(float(min(max(nearest, 0), 255)))} if is_whole else {},
        advice="" if is_whole else "the training pads after the normalisation, endcap before it",
    )
