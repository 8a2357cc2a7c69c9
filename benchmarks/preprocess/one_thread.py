"""Latency: one image at a time, one thread, one CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.images import Photograph
from benchmarks.preprocess import bare_decode, ours
from benchmarks.preprocess.entries import load_floor, load_peers, ready_for
from benchmarks.timing import Budget, Row, comparison, geometric_mean, one_cpu


@dataclass(frozen=True)
class ImageRows:
    """One image: the rows by entry, and the share of endcap's time beyond the bare decode."""

    name: str
    width: int
    height: int
    encoded_bytes: int
    rows: dict[str, Row]
    share_beyond_decode: float | None


@dataclass(frozen=True)
class OneThread:
    """All images.

    Geometric means over the images where both were timed, how many times the time of endcap a peer
    takes: `ratios` against exact, `ratios_to_fast` against fast.
    """

    images: list[ImageRows]
    ratios: dict[str, float]
    ratios_to_fast: dict[str, float]
    share_beyond_decode: float | None  # mean over the images


def run(images: Sequence[Photograph], budget: Budget, done: Callable[[str], None]) -> OneThread:
    """Verify and times every peer on every image; `done` is called after each image."""
    with one_cpu():
        peers, floor = load_peers(), load_floor()
        results = []
        for image in images:
            rows = comparison(ready_for(image, peers, floor), ours.EXACT.name, budget)
            results.append(_image_rows(image, rows))
            done(image.name)
    shares = [each.share_beyond_decode for each in results if each.share_beyond_decode is not None]
    return OneThread(
        images=results,
        ratios=ratios_to(ours.EXACT.name, [each.rows for each in results]),
        ratios_to_fast=ratios_to(ours.FAST.name, [each.rows for each in results]),
        share_beyond_decode=sum(shares) / len(shares) if shares else None,
    )


def ratios_to(baseline: str, tables: Sequence[dict[str, Row]]) -> dict[str, float]:
    """Geometric mean of time / baseline's time, over the tables where both were timed."""
    ratios: dict[str, list[float]] = {}
    for rows in tables:
        base = rows[baseline].timing if baseline in rows else None
        for name, row in rows.items():
            if base is not None and row.timing is not None:
                ratios.setdefault(name, []).append(row.timing.median_ms / base.median_ms)
    return {name: geometric_mean(values) for name, values in ratios.items()}


def _image_rows(image: Photograph, rows: dict[str, Row]) -> ImageRows:
    exact, floor = rows[ours.EXACT.name].timing, rows[bare_decode.NAME].timing
    share = None
    if exact is not None and floor is not None:
        share = (exact.median_ms - floor.median_ms) / exact.median_ms
    return ImageRows(image.name, image.width, image.height, len(image.encoded), rows, share)
