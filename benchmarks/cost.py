"""The prediction of preprocess times from headers: its coefficients, and its error.

    python -m benchmarks.cost fit      measures, writes csrc/preprocess/cost_coefficients.h
    python -m benchmarks.cost fit --terms turned_pixels oriented_pixels    these two alone
    python -m benchmarks.cost check    writes benchmarks/results/cost.json, after a build

`fit` encodes three photographs of scikit-image in many sizes, qualities and formats, measures their
CPU time on one thread, which other programs disturb less than the elapsed time, and takes the
coefficients, none of them negative, with the least squares of the relative errors. With --terms the
others keep their values: times are divided by what the images without these terms take in
proportion to their predictions, so that a term can be added on another machine, or a busy one.
`check` measures the photographs of the benchmark (benchmarks/images.py), which are others.
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
import re
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from benchmarks import images, machine, paths
from benchmarks.timing import one_cpu
from endcap import Preprocessor

HEADER = paths.ROOT / "csrc" / "preprocess" / "cost_coefficients.h"
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
_LEAST_S = 0.06  # of measurements of one image
_LEAST_RUNS = 5
_PASSES = 20_000

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Sample:
    """One image under one set of parameters."""

    photograph: str
    image: str
    parameters: str
    measured_ms: float
    predicted_ms: float
    terms: dict[str, float]


def encoded(photograph: Image.Image, size: tuple[int, int]) -> Iterator[tuple[str, bytes]]:
    """Yield files of a photograph scaled to a size, with their names."""
    picture = photograph.convert("RGB").resize(size, Image.Resampling.LANCZOS)
    ways: dict[str, tuple[str, dict[str, Any]]] = {
        "q60": ("JPEG", {"quality": 60}),
        "q90": ("JPEG", {"quality": 90}),
        "q95 4:4:4": ("JPEG", {"quality": 95, "subsampling": 0}),
        "q85 progressive": ("JPEG", {"quality": 85, "progressive": True}),
    }
    if size[0] <= 2000:
        for orientation in (3, 6):
            exif = Image.Exif()
            exif[0x0112] = orientation
            ways[f"q90 EXIF {orientation}"] = ("JPEG", {"quality": 90, "exif": exif})
        ways["PNG"] = ("PNG", {})
        ways["WebP"] = ("WEBP", {"quality": 85})
        ways["BMP"] = ("BMP", {})
        ways["GIF"] = ("GIF", {})
    for name, (kind, options) in ways.items():
        stream = io.BytesIO()
        picture.save(stream, kind, **options)
        yield f"{size[0]}x{size[1]} {name}", stream.getvalue()
    gray = io.BytesIO()
    picture.convert("L").save(gray, "JPEG", quality=90)
    yield f"{size[0]}x{size[1]} gray", gray.getvalue()


def measure(
    photograph: str, name: str, file: bytes, preprocessors: dict[str, Preprocessor]
) -> Iterator[Sample]:
    """Yield the samples of one file."""
    buffer = np.frombuffer(file, np.uint8)
    for parameters, preprocessor in preprocessors.items():
        preprocessor([buffer])
        times: list[float] = []
        while sum(times) < _LEAST_S or len(times) < _LEAST_RUNS:
            start = time.process_time()
            preprocessor([buffer])
            times.append(time.process_time() - start)
        core = preprocessor._core
        terms = core.cost_terms([buffer])
        predicted = core.predict_ms([buffer])
        yield Sample(photograph, name, parameters, 1e3 * statistics.median(times), predicted, terms)


def preprocessors() -> dict[str, Preprocessor]:
    """Return one of each set of parameters, on one thread."""
    every = "jpeg,png,webp,bmp,gif,y4m"
    return {
        name: Preprocessor(threads=1, formats=every, **fields)
        for name, fields in PARAMETERS.items()
    }


def solve(samples: list[Sample], fixed: dict[str, float]) -> dict[str, float]:
    """Return nanoseconds for one of each term: non-negative least squares by coordinate descent.

    Those of `fixed` keep theirs.
    """
    names = [name for name in samples[0].terms if name not in fixed]
    times = np.array([1e6 * sample.measured_ms for sample in samples])
    terms = np.array([[sample.terms[name] for name in names] for sample in samples])
    known = np.array([sum(s.terms[name] * fixed[name] for name in fixed) for s in samples])
    relative: Numbers = terms / times[:, None]
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


def read_header() -> dict[str, float]:
    """Return the coefficients by name."""
    rows = re.findall(r"^ +([\d.e+-]+), +// (\w+)$", HEADER.read_text(), re.MULTILINE)
    return {name: float(value) for value, name in rows}


def without_speed(samples: list[Sample], terms: Sequence[str]) -> list[Sample]:
    """Return the samples with any of the terms, as fast as the machine of the coefficients.

    Where there are no others, which would tell its speed, they stay as they are.
    """
    of_photograph = itertools.groupby(samples, lambda sample: sample.photograph)
    corrected: list[Sample] = []
    for _, group in of_photograph:
        own = list(group)
        others = [s for s in own if not any(s.terms[name] for name in terms)]
        ratios = [s.measured_ms / s.predicted_ms for s in others]
        factor = statistics.median(ratios) if ratios else 1.0
        corrected += [
            replace(s, measured_ms=s.measured_ms / factor) for s in own if s not in others
        ]
    return corrected


def write_header(coefficients: dict[str, float]) -> None:
    """Replace the numbers in the header."""
    text = HEADER.read_text()
    begin, end = text.index(" = {\n") + 5, text.index("};")
    rows = [f"    {value:.4g},  // {name}\n" for name, value in coefficients.items()]
    HEADER.write_text(text[:begin] + "".join(rows) + text[end:])


def errors(samples: list[Sample], factor: float) -> list[float]:
    """Return the relative errors of the predictions times `factor`, without sign."""
    return [abs(factor * s.predicted_ms / s.measured_ms - 1) for s in samples]


def summary(samples: list[Sample]) -> dict[str, float]:
    """Return the errors as predicted, and with one factor for all, as a server has."""
    factor = sum(s.measured_ms for s in samples) / sum(s.predicted_ms for s in samples)
    corrected = errors(samples, factor)
    return {
        "samples": len(samples),
        "factor": factor,
        "median_error": statistics.median(errors(samples, 1.0)),
        "median_error_corrected": statistics.median(corrected),
        "p90_error_corrected": float(np.percentile(corrected, 90)),
    }


def fit(terms: Sequence[str]) -> None:
    """Measure the photographs of the fit and write the coefficients, of some terms or of all."""
    ways = preprocessors()
    samples: list[Sample] = []
    with one_cpu():
        for photograph in PHOTOGRAPHS:
            with Image.open(images.source("scikit-image", photograph)) as opened:
                for size in SIZES:
                    for name, file in encoded(opened, size):
                        samples += measure(photograph, name, file, ways)
            print(f"{photograph}: {len(samples)} samples", flush=True)
    fixed: dict[str, float] = {}
    if terms:
        fixed = {name: value for name, value in read_header().items() if name not in terms}
        samples = without_speed(samples, terms)
    coefficients = solve(samples, fixed)
    fitted = [
        Sample(**{**asdict(s), "predicted_ms": 1e-6 * sum(
            coefficients[name] * value for name, value in s.terms.items())})
        for s in samples
    ]  # fmt: skip
    write_header(coefficients)
    print(json.dumps({**coefficients, **summary(fitted)}, indent=1))


def check() -> None:
    """Measure the benchmark's photographs and write the errors."""
    ways = preprocessors()
    samples: list[Sample] = []
    with one_cpu():
        for name in images.RECIPES:
            file = images.make(name, paths.IMAGES).encoded
            samples += measure(images.RECIPES[name].photograph, name, file, ways)
    by_parameters = {
        name: summary([s for s in samples if s.parameters == name]) for name in PARAMETERS
    }
    left_out = ("photograph", "terms")
    rows = [
        {key: value for key, value in asdict(s).items() if key not in left_out} for s in samples
    ]
    document = {
        "machine": machine.describe(),
        "all": summary(samples),
        "by_parameters": by_parameters,
        "samples": rows,
    }
    (paths.RESULTS / "cost.json").write_text(json.dumps(document, indent=1) + "\n")
    for row in rows:
        print(f"{row['image']:24} {row['parameters']:16} {row['measured_ms']:8.2f} ms, predicted "
              f"{row['predicted_ms']:8.2f}")  # fmt: skip
    print(json.dumps({"all": document["all"], **by_parameters}, indent=1))


def main() -> None:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    of_fit = commands.add_parser("fit")
    of_fit.add_argument("--terms", nargs="+", choices=list(read_header()), default=[])
    commands.add_parser("check")
    arguments = parser.parse_args()
    if arguments.command == "fit":
        fit(arguments.terms)
    else:
        check()


if __name__ == "__main__":
    main()
