"""Recipes of preprocessing: everything that endcap's parameters say, and what other libraries do.

A recipe has no normalisation and no pad value, which are computed from the tensors, and no
layout or data type, which are read off them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from endcap.errors import InvalidArgumentError
from endcap.tools.parity.resampling import Resampling

# The part of the short side that libraries crop: torchvision's and timm's usual ones.
_CROP_SHARES = (224 / 256, 0.875, 0.9, 0.95, 0.96, 0.965, 1.0, 224 / 232, 0.94, 0.985, 0.8)
_CROP_STEPS = (-32, -16, -8, -4, -2, -1, 1, 2, 4, 8, 16, 32)
# To begin with, short sides in parts of the crop.
_CROP_SCALES = (1.0, 1.07, 8 / 7, 1.25, 1.4, 1.6, 1.8, 2.0, 2.3, 2.6, 3.0)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How an image becomes the pixels of a tensor.

    Attributes:
        size: Height and width of the tensor.
        exif: apply or ignore.
        decoder: exact (libjpeg-turbo's default), scaled (`decode: fast`), fast_idct, or
            plain_chroma (each chroma sample is repeated instead of interpolated).
        matrix: From YCbCr to RGB: jpeg (BT.601, full range), limited (BT.601, 16 to 235) or bt709.
        color: rgb, bgr or gray.
        fit: letterbox, stretch or center_crop.
        resize_shorter: Of center_crop.
        sides: How the resized sides become whole numbers: nearest, truncate or ceil.
        upscale: letterbox may enlarge.
        pad_align: center or top_left; letterbox.
        offset: Where an odd pixel of padding goes or from where the crop is taken: before (the
            image moves by one), after, or even (half to even).
        interpolation, antialias, centers, first_pass, rounding: As in `Resampling`.
    """

    size: tuple[int, int]
    exif: str = "apply"
    decoder: str = "exact"
    matrix: str = "jpeg"
    color: str = "rgb"
    fit: str = "letterbox"
    resize_shorter: int = 256
    sides: str = "nearest"
    upscale: bool = True
    pad_align: str = "center"
    offset: str = "after"
    interpolation: str = "bilinear"
    antialias: bool = False
    centers: str = "half_pixel"
    first_pass: str = "columns"
    rounding: str = "nearest"

    @property
    def resampling(self) -> Resampling:
        """The part of it that resizes."""
        return Resampling(
            interpolation=self.interpolation,
            antialias=self.antialias,
            centers=self.centers,
            first_pass=self.first_pass,
            rounding=self.rounding,
        )

    @property
    def is_possible(self) -> bool:
        """Whether its values go together."""
        if self.fit == "center_crop" and self.resize_shorter < max(self.size):
            return False
        return self.interpolation != "nearest" or not self.antialias

    @property
    def has_own_geometry(self) -> bool:
        """Whether preprocess can resize and place images so."""
        return (
            self.sides == native_sides(self.fit)
            and self.offset == native_offset(self.fit)
            and self.has_own_resampling
        )

    @property
    def has_own_resampling(self) -> bool:
        """Whether preprocess can resize so."""
        return (
            self.centers == "half_pixel"
            and self.first_pass == "columns"
            and self.rounding != "truncate"
            and self.interpolation != "lanczos"
        )

    @property
    def unsupported(self) -> tuple[str, ...]:
        """The names of the fields whose values preprocess does not have."""
        wrong = {
            "decoder": self.decoder in ("fast_idct", "plain_chroma"),
            "matrix": self.matrix != "jpeg",
            "sides": self.sides != native_sides(self.fit),
            "offset": self.offset != native_offset(self.fit),
            "interpolation": self.interpolation == "lanczos",
            "centers": self.centers != "half_pixel",
            "first_pass": self.first_pass != "columns",
            "rounding": self.rounding == "truncate",
        }
        return tuple(name for name, is_wrong in wrong.items() if is_wrong)

    def parameters(self) -> dict[str, str]:
        """Return it as parameters of preprocess, without what preprocess does not have."""
        return {
            "size": f"{self.size[0]},{self.size[1]}",
            "exif": self.exif,
            "decode": "fast" if self.decoder == "scaled" else "exact",
            "color": self.color,
            "fit": self.fit,
            "resize_shorter": str(self.resize_shorter),
            "upscale": "true" if self.upscale else "false",
            "pad_align": self.pad_align,
            "interpolation": "bicubic" if self.interpolation == "lanczos" else self.interpolation,
            "antialias": "true" if self.antialias else "false",
            "quantize": "none" if self.rounding == "none" else "uint8",
        }

    def changed_fields(self, other: Recipe) -> list[str]:
        """Return the names of the fields that differ from another recipe.

        What does not matter to this recipe's fit is left out, and what belongs to another fit is
        compared with how preprocess does it for this one.
        """
        values = {each.name: getattr(other, each.name) for each in fields(self)}
        values |= {"sides": native_sides(self.fit), "offset": native_offset(self.fit)}
        if self.fit != other.fit:
            values["resize_shorter"] = self.resize_shorter
        return [
            name
            for name, value in values.items()
            if getattr(self, name) != value and name in _relevant(self.fit)
        ]


def native_sides(fit: str) -> str:
    """Return how preprocess makes whole numbers of the resized sides."""
    return "truncate" if fit == "center_crop" else "nearest"


def native_offset(fit: str) -> str:
    """Return where preprocess puts an image whose offset is no whole number."""
    return "even" if fit == "center_crop" else "after"


def _relevant(fit: str) -> set[str]:
    of_others = {
        "letterbox": {"resize_shorter"},
        "center_crop": {"upscale", "pad_align"},
        "stretch": {"resize_shorter", "upscale", "pad_align", "sides", "offset"},
    }
    return {each.name for each in fields(Recipe)} - of_others[fit]


def recipe_of(parameters: Mapping[str, str], size: tuple[int, int]) -> Recipe:
    """Return the recipe that parameters of preprocess mean, for a tensor of this size."""
    fit = parameters["fit"]
    return Recipe(
        size=size,
        exif=parameters["exif"],
        decoder="scaled" if parameters["decode"] == "fast" else "exact",
        color=parameters["color"],
        fit=fit,
        resize_shorter=max(int(parameters["resize_shorter"]), *size),
        sides=native_sides(fit),
        upscale=parameters["upscale"] == "true",
        pad_align=parameters["pad_align"],
        offset=native_offset(fit),
        interpolation=parameters["interpolation"],
        antialias=parameters["antialias"] == "true",
        rounding="none" if parameters["quantize"] == "none" else "nearest",
    )


_LEVELS: dict[str, tuple[object, ...]] = {
    "exif": ("apply", "ignore"),
    "decoder": ("exact", "scaled", "fast_idct", "plain_chroma"),
    "matrix": ("jpeg", "limited", "bt709"),
    "color": ("rgb", "bgr"),
    "interpolation": ("nearest", "bilinear", "bicubic", "area", "lanczos"),
    "antialias": (False, True),
    "centers": ("half_pixel", "corners", "asymmetric"),
    "first_pass": ("columns", "rows"),
    "rounding": ("nearest", "truncate", "none"),
}
_LETTERBOX_LEVELS: dict[str, tuple[object, ...]] = {
    "upscale": (True, False),
    "pad_align": ("center", "top_left"),
    "sides": ("nearest", "truncate", "ceil"),
    "offset": ("after", "before"),
}
_CROP_LEVELS: dict[str, tuple[object, ...]] = {
    "sides": ("nearest", "truncate"),
    "offset": ("even", "after", "before"),
}


def neighbours(recipe: Recipe) -> Iterator[Recipe]:
    """Yield the recipes that differ in one thing."""
    levels = dict(_LEVELS)
    if recipe.fit == "letterbox":
        levels |= _LETTERBOX_LEVELS
    elif recipe.fit == "center_crop":
        levels |= _CROP_LEVELS
    if recipe.color == "gray":
        levels.pop("color")
        levels.pop("matrix")
    for name, values in levels.items():
        for value in values:
            if value != getattr(recipe, name):
                changed = with_field(recipe, name, value)
                if changed.interpolation == "nearest":  # which does not widen
                    changed = replace(changed, antialias=False)
                if changed != recipe:
                    yield changed
    for fit in ("letterbox", "stretch", "center_crop"):
        if fit != recipe.fit:
            yield _with_fit(recipe, fit)
    if recipe.fit == "center_crop":
        sides = {round(min(recipe.size) / share) for share in _CROP_SHARES}
        sides |= {recipe.resize_shorter + step for step in _CROP_STEPS}
        for side in sorted(sides - {recipe.resize_shorter}):
            if side >= max(recipe.size):
                yield replace(recipe, resize_shorter=side)


def with_field(recipe: Recipe, name: str, value: object) -> Recipe:
    """Return a recipe with one field changed."""
    changes: dict[str, Any] = {name: value}
    return replace(recipe, **changes)


def starting_points(recipe: Recipe) -> Iterator[Recipe]:
    """Yield the recipe, and all combinations of what moves or mixes up an image as a whole."""
    for fit in ("letterbox", "stretch", "center_crop"):
        fitted = recipe if fit == recipe.fit else _with_fit(recipe, fit)
        for align in ("center", "top_left") if fit == "letterbox" else (fitted.pad_align,):
            for exif in ("apply", "ignore"):
                for color in ("rgb", "bgr") if recipe.color != "gray" else ("gray",):
                    yield replace(fitted, pad_align=align, exif=exif, color=color)
    cropped = _with_fit(recipe, "center_crop")
    for scale in _CROP_SCALES:
        for exif in ("apply", "ignore"):
            yield replace(cropped, exif=exif, resize_shorter=round(max(recipe.size) * scale))


def revert(recipe: Recipe, own: Recipe, name: str) -> Recipe:
    """Return a recipe with one field as endcap's own, and what belongs to the fit with it."""
    if name in ("sides", "offset"):
        native = native_sides(recipe.fit) if name == "sides" else native_offset(recipe.fit)
        return with_field(recipe, name, native)
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


def _with_fit(recipe: Recipe, fit: str) -> Recipe:
    shorter = max(recipe.resize_shorter, *recipe.size)
    return replace(
        recipe,
        fit=fit,
        resize_shorter=shorter,
        sides=native_sides(fit),
        offset=native_offset(fit),
    )


def check_color(color: str, channels: int) -> str:
    """Return the color that a tensor with so many channels has.

    Raises:
        InvalidArgumentError: It has neither 1 nor 3.
    """
    if channels not in (1, 3):
        raise InvalidArgumentError(
            f"the training pipeline's tensor has {channels} channels; 1 or 3 are expected"
        )
    if channels == 1:
        return "gray"
    return "rgb" if color == "gray" else color
