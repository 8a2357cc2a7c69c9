"""Makes pyext/endcap/drawing/letters.ttf: the letters of Latin, Greek and Cyrillic of DejaVu Sans.

    pip install fonttools==4.68.0
    python scripts/label_font.py DejaVuSans.ttf

The font is that of release 2.37, which matplotlib's wheels have in matplotlib/mpl-data/fonts/ttf,
too. The same fonttools makes the same bytes of it.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from fontTools.subset import main as subset

_SHA256 = "3fdf69cabf06049ea70a00b5919340e2ce1e6d02b0cc3c4b44fb6801bd1e0d22"
_TARGET = Path(__file__).parents[1] / "pyext/endcap/drawing/letters.ttf"
_CHARACTERS = (
    "U+0020-007E,U+00A0-024F",  # Latin
    "U+0370-03FF,U+0400-045F,U+0490-0491",  # Greek, Cyrillic
    "U+1E00-1EFF",  # Latin of Vietnamese and others
    "U+2010-2027,U+2030-203A,U+20AC,U+2116,U+2122",  # dashes, quotes, the euro
)


def main() -> None:
    """Write the font."""
    source = Path(sys.argv[1])
    if hashlib.sha256(source.read_bytes()).hexdigest() != _SHA256:
        sys.exit(f"{source} is not DejaVuSans.ttf of release 2.37")
    subset(
        [
            str(source),
            f"--unicodes={','.join(_CHARACTERS)}",
            "--layout-features=",
            "--no-hinting",
            "--notdef-outline",
            "--drop-tables+=FFTM",
            f"--output-file={_TARGET}",
        ]
    )


if __name__ == "__main__":
    main()
