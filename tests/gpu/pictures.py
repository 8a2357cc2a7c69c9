"""JPEG files of many kinds, small enough for the emulation."""

from __future__ import annotations

import numpy as np

from tests.support import jpegs

FILES = {
    "4:2:0": jpegs.encode(jpegs.photo(61, 83, seed=1)),
    "4:2:2": jpegs.encode(jpegs.photo(48, 65, seed=2), subsampling="4:2:2"),
    "4:4:4": jpegs.encode(jpegs.photo(33, 40, seed=3), subsampling="4:4:4"),
    "gray": jpegs.encode(jpegs.photo(50, 31, channels=1, seed=4)),
    "progressive": jpegs.encode(jpegs.photo(40, 72, seed=5), progressive=True),
    "restarts": jpegs.encode(jpegs.photo(64, 64, seed=6), restart_blocks=3),
    "rgb": jpegs.encode(jpegs.photo(20, 30, seed=7), keep_rgb=True),
    "cmyk": jpegs.encode(jpegs.photo(24, 18, channels=4, seed=8)),
    "one pixel": jpegs.encode(jpegs.photo(1, 1, seed=9)),
    "wide": jpegs.encode(jpegs.photo(3, 200, seed=10)),
    "tall": jpegs.encode(jpegs.photo(200, 3, seed=11)),
    "orientation": jpegs.encode(jpegs.photo(45, 70, seed=26), orientation=6),
}
PIXELS = [
    np.ascontiguousarray(jpegs.photo(37, 52, seed=30)),
    jpegs.photo(80, 90, seed=31)[5:70, 7:80],  # rows apart
    jpegs.photo(16, 16, channels=1, seed=32)[..., 0],
]
BAD = [b"", b"not a picture", FILES["4:2:0"][:300], FILES["progressive"][:-400] + b"\xff\xd9"]
