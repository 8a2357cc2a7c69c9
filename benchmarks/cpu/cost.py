"""Prediction of preprocess times from headers: its errors, and the fit of its coefficients.

    python -m benchmarks.cpu.cost [--terms turned_pixels oriented_pixels]

measures three photographs of scikit-image in many sizes, qualities and formats and writes
csrc/preprocess/cost_coefficients.h: the coefficients, none of them negative, with the least squares
of the relative errors of the CPU time on one thread, which other programs disturb less than the
elapsed time. With --terms the others keep their values, and times are divided by what the images
without these terms take in proportion to their predictions, so that a term can be added on another
machine. `make bench` shows the errors for the benchmark's photographs, which are others.
"""

from __future__ import annotations

import argparse
import io
import itertools
import re
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from PIL import Image

from benchmarks import ROOT, images
from benchmarks.images import Photograph
from benchmarks.results import Table
from benchmarks.timing import one_cpu, summarize
from endcap import Preprocessor

HEADER = ROOT / "csrc" / "preprocess" / "cost_coefficients.h"
PHOTOGRAPHS = ("astronaut.png", "motorcycle_left.png", "ihc.png")
SIZES = ((320, 240), (640, 480), (1280, 960), (2000, 1500), (4000, 3000))
PARAMETERS: dict[str, dict[str, Any]] = {
    "ultralytics": {"preset": "ultralytics"},
    "320x320 uint8": {"preset": "ultralytics", "size": 320, "dtype": "uint8", "layout": "nhwc"},
    "1280x1280": {"preset": "ultralytics", "size": 1280},
    "fast": {"preset": "ultralytics", "decode": "fast"},
    "torchvision": {"preset": "torchvision"},
    "bicubic": {"preset": "ultralytics", "interpolation": "bicubic", "quantize": "none"},
}
_MIN_S = 0.06  # of measurements of one image
_MIN_RUNS = 5
_PASSES = 20_000


@dataclass(frozen=True)
class Sample:
    """One image under one set of parameters."""

    photograph: str
    parameters: str
    measured_ms: float
    predicted_ms: float
    terms: dict[str, float]


def measure(photograph: str, file: bytes) -> Iterator[Sample]:
    """Yield a sample of one file for each set of parameters."""
    buffer = np.frombuffer(file, np.uint8)
    for name, parameters in PARAMETERS.items():
        preprocess = Preprocessor(threads=1, formats="jpeg,png,webp,bmp,gif,y4m", **parameters)
        preprocess([buffer])
        times: list[float] = []
        while sum(times) < _MIN_S or len(times) < _MIN_RUNS:
            start = time.process_time()
            preprocess([buffer])
            times.append(time.process_time() - start)
        core, measured = preprocess._core, 1e3 * statistics.median(times)
        predicted, terms = core.predict_ms([buffer]), core.cost_terms([buffer])
        yield Sample(photograph, name, measured, predicted, terms)


def errors(pictures: Sequence[Photograph]) -> Table:
    """Return the errors of the predictions, and those with one factor for all, as a server has."""
    with one_cpu():
        samples = [each for image in pictures for each in measure(image.name, image.encoded)]
    factor = sum(s.measured_ms for s in samples) / sum(s.predicted_ms for s in samples)
    columns = ["as predicted", f"times {factor:.3g}"]
    table = Table(f"Errors of predicted times of {len(pictures)} photographs", "%", columns)
    for name in ("all", *PARAMETERS):
        own = [s for s in samples if name in ("all", s.parameters)]
        table.rows[name] = [
            summarize([100 * abs(by * s.predicted_ms / s.measured_ms - 1) for s in own])
            for by in (1.0, factor)
        ]
    return table


def encode(photograph: Image.Image, size: tuple[int, int]) -> Iterator[bytes]:
    """Yield files of a photograph scaled to a size, of all kinds."""
    picture = photograph.convert("RGB").resize(size, Image.Resampling.LANCZOS)
    kinds: list[tuple[str, dict[str, Any]]] = [
        ("JPEG", {"quality": 60}),
        ("JPEG", {"quality": 90}),
        ("JPEG", {"quality": 95, "subsampling": 0}),
        ("JPEG", {"quality": 85, "progressive": True}),
    ]
    if size[0] <= 2000:
        for orientation in (3, 6):
            exif = Image.Exif()
            exif[0x0112] = orientation
            kinds.append(("JPEG", {"quality": 90, "exif": exif}))
        kinds += [("PNG", {}), ("WEBP", {"quality": 85}), ("BMP", {}), ("GIF", {})]
    everything = [(picture, kind, options) for kind, options in kinds]
    for image, kind, options in [*everything, (picture.convert("L"), "JPEG", {"quality": 90})]:
        stream = io.BytesIO()
        image.save(stream, kind, **options)
        yield stream.getvalue()


def solve(samples: list[Sample], fixed: dict[str, float]) -> dict[str, float]:
    """Return nanoseconds for one of each term: non-negative least squares by coordinate descent.

    Those of `fixed` keep theirs.
    """
    names = [name for name in samples[0].terms if name not in fixed]
    times = np.array([1e6 * sample.measured_ms for sample in samples])
    terms = np.array([[sample.terms[name] for name in names] for sample in samples])
    known = np.array([sum(s.terms[name] * fixed[name] for name in fixed) for s in samples])
    relative = terms / times[:, None]
    scales = np.linalg.norm(relative, axis=0)
    scales[scales == 0] = 1  # of a term that no sample has
    relative /= scales
    gram, wanted = relative.T @ relative, relative.T @ (1 - known / times)
    found = np.zeros(len(names))
    for _ in range(_PASSES):
        for i in range(len(names)):
            if gram[i, i] > 0:
                found[i] = max(0.0, found[i] + (wanted[i] - gram[i] @ found) / gram[i, i])
    solved = dict(zip(names, (found / scales).tolist(), strict=True))
    return {name: fixed.get(name, solved.get(name, 0.0)) for name in samples[0].terms}


def without_speed(samples: list[Sample], terms: Sequence[str]) -> list[Sample]:
    """Return the samples with any of the terms, as fast as the machine of the coefficients.

    Where there are no others, which would tell its speed, they stay unmodified.
    """
    corrected: list[Sample] = []
    for _, group in itertools.groupby(samples, lambda sample: sample.photograph):
        own = list(group)
        others = [s for s in own if not any(s.terms[name] for name in terms)]
        ratios = [s.measured_ms / s.predicted_ms for s in others]
        factor = statistics.median(ratios) if ratios else 1.0
        corrected += [
            replace(s, measured_ms=s.measured_ms / factor) for s in own if s not in others
        ]
    return corrected


def read_header() -> dict[str, float]:
    """Return the coefficients by name."""
    rows = re.findall(r"^ +([\d.e+-]+), +// (\w+)$", HEADER.read_text(), re.MULTILINE)
    return {name: float(value) for value, name in rows}


def main() -> None:
    """Measure the photographs of the fit and write the coefficients, of some terms or of all."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cpu.cost",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--terms", nargs="+", choices=list(read_header()), default=[])
    terms = parser.parse_args().terms
    samples: list[Sample] = []
    with one_cpu():
        for photograph in PHOTOGRAPHS:
            with Image.open(images.source("scikit-image", photograph)) as opened:
                for size in SIZES:
                    for file in encode(opened, size):
                        samples += measure(photograph, file)
            print(f"{photograph}: {len(samples)} samples", flush=True)
    fixed: dict[str, float] = {}
    if terms:
        fixed = {name: value for name, value in read_header().items() if name not in terms}
        samples = without_speed(samples, terms)
    text = HEADER.read_text()
    begin, end = text.index(" = {\n") + 5, text.index("};")
    rows = [f"    {value:.4g},  // {name}\n" for name, value in solve(samples, fixed).items()]
    HEADER.write_text(text[:begin] + "".join(rows) + text[end:])
    print(f"written: {HEADER}")


if __name__ == "__main__":
    main()
