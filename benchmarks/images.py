"""Photographs of the benchmark, and versions of them made here.

`python -m benchmarks.images NAME...` makes them in build/bench-images and prints their paths.

The photographs are read from installed Python packages and never copied into git: scikit-learn's
china.jpg and flower.jpg (CC BY 2.0); scikit-image's rocket.jpg and hubble_deep_field.jpg (public
domain, SpaceX and NASA), retina.jpg, coffee.png and chelsea.png (CC0); ultralytics' bus.jpg and
zidane.jpg (part of an AGPL-3.0 package). The packages need not be importable.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from PIL import Image

from benchmarks import BUILD

IMAGES = BUILD / "bench-images"


class SourceMissingError(Exception):
    """A package that ships a wanted photograph is not installed; the message names it."""


def source(package: str, name: str) -> Path:
    """Return the file `name` of an installed package.

    Raises:
        SourceMissingError: The package is not installed, or lacks the file.
    """
    try:
        shipped = files(package) or []
    except PackageNotFoundError:
        raise SourceMissingError(f"{package} is not installed") from None
    for file in shipped:
        if file.name == name:
            return Path(str(file.locate()))
    raise SourceMissingError(f"{package} ships no {name}")


_ORIENTATION = 0x0112
_WHOLE_444, _HALVED_420 = 0, 2  # chroma, in Pillow's numbers


@dataclass(frozen=True)
class Recipe:
    """A picture: the unmodified photograph, or scaled to `size` and encoded with `options`."""

    package: str
    photograph: str
    size: tuple[int, int] | None = None  # width, height
    options: Mapping[str, object] = field(default_factory=dict)
    mode: str = "RGB"
    orientation: int = 1

    @property
    def is_original(self) -> bool:
        """Whether the bytes are those of the package."""
        return self.size is None and not self.options


def _jpeg(quality: int = 90, subsampling: int = _HALVED_420, **more: object) -> dict[str, object]:
    return {"quality": quality, "subsampling": subsampling, **more}


# Name -> recipe; the name says the size as stored, and what is special.
RECIPES: dict[str, Recipe] = {
    "512x600": Recipe("scikit-image", "chelsea.png", (512, 600), _jpeg(85)),
    "640x427": Recipe("scikit-image", "rocket.jpg"),
    "640x427 detailed": Recipe("scikit-learn", "china.jpg"),
    "640x427 gray": Recipe("scikit-learn", "flower.jpg", (640, 427), _jpeg(), mode="L"),
    "810x1080": Recipe("ultralytics", "bus.jpg"),
    "1000x872 4:4:4": Recipe(
        "scikit-image", "hubble_deep_field.jpg", (1000, 872), _jpeg(92, _WHOLE_444)
    ),
    "1280x720": Recipe("ultralytics", "zidane.jpg"),
    "1411x1411": Recipe("scikit-image", "retina.jpg"),
    "1600x1068 EXIF 6": Recipe("scikit-learn", "flower.jpg", (1600, 1068), _jpeg(), orientation=6),
    "1920x1080": Recipe("scikit-image", "coffee.png", (1920, 1080), _jpeg()),
    "1920x1281 progressive": Recipe(
        "scikit-learn", "china.jpg", (1920, 1281), _jpeg(progressive=True)
    ),
    "4000x3000": Recipe("ultralytics", "bus.jpg", (4000, 3000), _jpeg()),
}
QUICK = ("640x427 detailed", "1411x1411", "4000x3000")


@dataclass(frozen=True)
class Photograph:
    """One picture of the benchmark."""

    name: str
    path: Path
    width: int  # as stored, before the EXIF orientation is applied
    height: int

    @property
    def encoded(self) -> bytes:
        """The file."""
        return self.path.read_bytes()


def make(name: str) -> Photograph:
    """Make one picture of RECIPES in IMAGES, or take it from there.

    Raises:
        SourceMissingError: The package that ships the photograph is not installed.
    """
    recipe = RECIPES[name]
    path = IMAGES / f"{name.replace(' ', '_').replace(':', '')}.jpg"
    if not path.exists():
        original = source(recipe.package, recipe.photograph)
        IMAGES.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".part")
        if recipe.is_original:
            shutil.copyfile(original, unfinished)
        else:
            _encode(recipe, original, unfinished)
        unfinished.rename(path)
    with Image.open(path) as opened:
        return Photograph(name, path, *opened.size)


def _encode(recipe: Recipe, original: Path, path: Path) -> None:
    with Image.open(original) as opened:
        picture = opened.convert(recipe.mode)
    if recipe.size is not None:
        picture = picture.resize(recipe.size, Image.Resampling.LANCZOS)
    exif = Image.Exif()
    if recipe.orientation != 1:
        exif[_ORIENTATION] = recipe.orientation
    picture.save(path, "JPEG", exif=exif, **recipe.options)


if __name__ == "__main__":
    for each in sys.argv[1:]:
        print(make(each).path)
