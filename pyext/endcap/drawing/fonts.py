"""Fonts that have the letters of a text.

Pillow's own has those of ASCII, `letters.ttf` beside this file those of Latin, Greek and Cyrillic.
For others fontconfig, where the system has it, names a font.
"""

from __future__ import annotations

import functools
import subprocess
import warnings
from pathlib import Path

from PIL import ImageFont

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont
_Source = tuple[str, int]  # a file, and the number of a font in it

_PILLOW: _Source = ("", 0)
_LETTERS: _Source = (str(Path(__file__).with_name("letters.ttf")), 0)
_NO_CHARACTER = "\U0010ffff"  # that no font has
_COMPARED_SIZE = 16.0
_FONTCONFIG_WITHIN_S = 10
_CACHED = 1024  # captions of a video repeat from frame to frame

_told: set[str] = set()  # characters that a warning has named


@functools.lru_cache(maxsize=_CACHED)
def font_for(text: str, size: float) -> Font:
    """Return the first font that has all characters of a text, else one that has the most.

    Warns once of each character that is drawn as a box.
    """
    return _load(_choose(text), size)


@functools.lru_cache(maxsize=_CACHED)
def _choose(text: str) -> _Source:
    if text.isascii():
        return _PILLOW
    best, lacking = _PILLOW, _lacking(_PILLOW, text)
    if lacking:
        fewest = _lacking(_LETTERS, text)
        best, lacking = (_LETTERS, fewest) if len(fewest) < len(lacking) else (best, lacking)
    if lacking and (found := _ask_fontconfig("".join(sorted(lacking)))) is not None:
        fewest = _lacking(found, text)
        best, lacking = (found, fewest) if len(fewest) < len(lacking) else (best, lacking)
    untold = "".join(sorted(lacking - _told))
    if untold:
        _told.update(untold)
        warnings.warn(
            f"no font here has {untold!a} ({untold}), drawn as boxes: install one, for example by "
            "`apt-get install fonts-noto-cjk fontconfig`",
            stacklevel=2,
        )
    return best


def _lacking(source: _Source, text: str) -> set[str]:
    """Return the characters that a font draws as it does one that it cannot have."""
    font = _load(source, _COMPARED_SIZE)
    box = _pixels(font, _NO_CHARACTER)
    return {each for each in set(text) if each.isprintable() and _pixels(font, each) == box}


def _pixels(font: Font, character: str) -> tuple[tuple[int, int], bytes]:
    mask = font.getmask(character)
    return mask.size, bytes(mask)


@functools.lru_cache(maxsize=64)
def _load(source: _Source, size: float) -> Font:
    file, number = source
    return ImageFont.truetype(file, size, number) if file else ImageFont.load_default(size)


@functools.lru_cache(maxsize=_CACHED)
def _ask_fontconfig(characters: str) -> _Source | None:
    """Return the system's font for some characters; None without one that Pillow can draw with."""
    pattern = ":charset=" + " ".join(f"{ord(each):x}" for each in characters)
    command = ["fc-match", "--format=%{index} %{file}", pattern]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_FONTCONFIG_WITHIN_S, check=True
        )
        number, _, file = done.stdout.partition(" ")
        # Of a variable font fontconfig numbers the instances in the upper half.
        source = (file, int(number) & 0xFFFF)
        _load(source, _COMPARED_SIZE)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return source
