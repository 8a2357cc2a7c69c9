"""The floor: a bare libjpeg-turbo decode, with the very library that endcap brings along."""

from __future__ import annotations

import ctypes
import importlib.util
import shutil
import subprocess
from pathlib import Path

from benchmarks.paths import COMPILED
from benchmarks.preprocess.peer import Single

NAME = "bare decode"
METHOD = "libjpeg-turbo alone, to RGB rows in one strip, nothing after it"
_SOURCE = Path(__file__).with_suffix(".c")
_LIBRARY = "libendcap_jpeg.so"


class BareDecodeError(Exception):
    """The floor cannot be measured here; the message says why."""


def single() -> Single:
    """Return a function that decodes one JPEG and gives the number of its rows.

    Raises:
        BareDecodeError: There is no C compiler, jpeglib.h or libjpeg of endcap.
    """
    decode = ctypes.CDLL(str(_compile())).bare_decode
    decode.argtypes = [ctypes.c_char_p, ctypes.c_ulong]
    decode.restype = ctypes.c_int

    def run(encoded: bytes) -> int:
        rows: int = decode(encoded, len(encoded))
        if rows == 0:
            raise BareDecodeError("libjpeg-turbo cannot read the image")
        return rows

    return run


def bundled_libjpeg() -> Path:
    """Return the libjpeg-turbo of the installed endcap package."""
    spec = importlib.util.find_spec("endcap._core")
    if spec is None or spec.origin is None:
        raise BareDecodeError("endcap's compiled core is not installed")
    library = Path(spec.origin).parent / _LIBRARY
    if not library.exists():
        raise BareDecodeError(f"there is no {_LIBRARY} beside {spec.origin}")
    return library


def _compile() -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        raise BareDecodeError("there is no C compiler `cc`")
    library = bundled_libjpeg()
    COMPILED.mkdir(parents=True, exist_ok=True)
    made = COMPILED / "libbare_decode.so"
    link = [str(library), f"-Wl,-rpath,{library.parent}"]
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(made), str(_SOURCE), *link]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BareDecodeError(f"bare_decode.c cannot be compiled: {done.stderr.strip()}")
    return made
