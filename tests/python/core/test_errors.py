"""Bad input: a typed error with a message, no crash, no memory on a header's word."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import endcap
from tests.support import jpegs, tolerances
from tests.support.bad_jpegs import BadFile, bad_files, bomb

BAD_FILES = bad_files()
GOOD = jpegs.photo_jpeg(48, 64)
SIZE = (32, 32)


@pytest.mark.parametrize("bad", BAD_FILES, ids=str)
def test_a_bad_file_is_its_typed_error_and_leaves_its_neighbours(bad: BadFile) -> None:
    for call in (endcap.decode, lambda image: endcap.preprocess(image, size=SIZE)):
        with pytest.raises(endcap.EndcapError) as caught:
            call(bad.data)
        assert caught.type is bad.error
        assert len(str(caught.value)) > 15
    with pytest.raises(bad.error, match="image index 1 of 3: "):
        endcap.preprocess([GOOD, bad.data, GOOD], size=SIZE)
    batch = endcap.preprocess([GOOD, bad.data, GOOD], size=SIZE, on_error="blank")
    assert batch.status.tolist() == [0, bad.status, 0]
    assert not batch.images[1].any()
    assert batch.geometry[1].tolist() == [1, 1, 0, 0, 0, 0, 1, 1]
    alone = endcap.preprocess(GOOD, size=SIZE)
    for i in (0, 2):
        np.testing.assert_array_equal(batch.images[i], alone.images[0])
        np.testing.assert_array_equal(batch.geometry[i, :7], alone.geometry[0, :7])


def test_blank_overwrites_what_was_in_out() -> None:
    out = np.full((1, 3, *SIZE), 7, np.float32)
    endcap.preprocess(b"", size=SIZE, on_error="blank", out=out)
    assert not out.any()


@pytest.mark.parametrize(
    ("name", "builtin"),
    [
        ("CorruptImageError", ValueError),
        ("ImageLimitError", ValueError),
        ("UnsupportedError", NotImplementedError),
        ("InvalidArgumentError", ValueError),
        ("CudaError", RuntimeError),
    ],
)
def test_errors_are_the_nearest_builtin_too(name: str, builtin: type[Exception]) -> None:
    error = getattr(endcap, name)
    assert error is getattr(endcap.errors, name)
    assert issubclass(error, endcap.EndcapError)
    assert issubclass(error, builtin)


def test_status_codes_are_the_contract() -> None:
    names = "ok corrupt_image image_limit unsupported invalid_argument cuda out_of_memory internal"
    expected = {name.upper(): value for value, name in enumerate(names.split())}
    assert {s.name: s.value for s in endcap.Status} == expected


REFUSE_IN_LITTLE_MEMORY = """
import resource, sys
import endcap

data = sys.stdin.buffer.read()
preprocessor = endcap.Preprocessor(threads=1)
preprocessor(open(sys.argv[1], "rb").read())  # what is allocated once is there now
def resident_kib():
    return int(next(l for l in open("/proc/self/status") if l.startswith("VmHWM")).split()[1])
mapped = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (mapped + (32 << 20), resource.RLIM_INFINITY))
before = resident_kib()
for call in (endcap.decode, preprocessor):
    try:
        call(data)
    except endcap.EndcapError as error:
        print(type(error).__name__)
print(resident_kib() - before)
"""


def large_files() -> dict[str, tuple[bytes, str]]:
    """Small files of large pictures, and the errors that they are."""
    small = jpegs.encode(jpegs.photo(32, 32), progressive=True)
    sizes = {(64250, 64250): "ImageLimitError", (9000, 9000): "CorruptImageError"}
    sizes |= {(65500, 1366): "CorruptImageError"}
    files = {f"{h}x{w}": (bomb(h, w), error) for (h, w), error in sizes.items()}
    for (h, w), error in sizes.items():
        files[f"progressive {h}x{w}"] = (jpegs.with_size(small, h, w), error)
    (coefficients,) = (bad.data for bad in BAD_FILES if bad.name == "coefficient_bomb")
    return {**files, "coefficients of 544 MiB": (coefficients, "ImageLimitError")}


LARGE = large_files()


@pytest.mark.parametrize("name", LARGE)
def test_no_memory_for_what_a_header_claims(name: str, tmp_path: Path) -> None:
    data, error = LARGE[name]
    good = tmp_path / "good.jpg"
    good.write_bytes(GOOD)
    child = subprocess.run(
        [sys.executable, "-c", REFUSE_IN_LITTLE_MEMORY, str(good)],
        input=data,
        capture_output=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr.decode()
    first, second, grown_kib = child.stdout.decode().split()
    assert first == second == error
    assert int(grown_kib) < tolerances.REFUSED_HEADER_MIB * 1024


def test_scans_times_pixels_are_bounded() -> None:
    progressive = jpegs.encode(jpegs.photo(96, 128), progressive=True)
    data = jpegs.repeat_last_scan(progressive, 100)
    with pytest.raises(endcap.ImageLimitError, match="in all scans together"):
        endcap.decode(data, max_pixels=96 * 128)
    endcap.decode(progressive, max_pixels=96 * 128)


@pytest.mark.parametrize(
    "call",
    [
        lambda: endcap.preprocess(b"", pixel_format=5),
        lambda: endcap.preprocess(b"", pixel_format="hsv"),
        lambda: endcap.preprocess(b"", device=3),
        lambda: endcap.Preprocessor(threads="two"),
        lambda: endcap.Preprocessor(threads=10**12),
        lambda: endcap.Postprocessor(threads=1.5),
        lambda: endcap.nms(np.zeros((1, 4)), np.zeros(1), "x"),
        lambda: endcap.Postprocessor(num_classes=1)(np.zeros((5, 1), np.float32), "abc"),
        lambda: endcap.Postprocessor(num_classes=1)(np.zeros((5, 1), np.float32), None, [2**32]),
        lambda: endcap.Postprocessor(num_classes=1)(np.zeros((5, 1), np.float32), None, [0.5]),
        lambda: endcap.Postprocessor(num_classes=1)(
            np.zeros((5, 1), np.float32), [1, 1, 0, 0, -5, 5, 1, 0]
        ),
    ],
)
def test_wrong_types_are_errors_of_ours_and_short(call: Callable[[], object]) -> None:
    with pytest.raises(endcap.InvalidArgumentError) as caught:
        call()
    assert len(str(caught.value)) < 300
