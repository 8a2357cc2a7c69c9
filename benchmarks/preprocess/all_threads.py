"""Throughput: a batch of images over all CPUs, each peer on threads in its natural way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.images import Photograph
from benchmarks.preprocess import SIZE, entries, ours
from benchmarks.preprocess.entries import compare
from benchmarks.preprocess.peer import Batch, Peer
from benchmarks.preprocess.peers import PEERS
from benchmarks.timing import Budget, Case, Ready, Row, comparison, cpu_count, load


@dataclass(frozen=True)
class AllThreads:
    """One batch: milliseconds a batch, and images a second by entry."""

    threads: int
    batch: list[str]
    rows: dict[str, Row]
    images_per_second: dict[str, float]


def run(images: Sequence[Photograph], batch_size: int, budget: Budget) -> AllThreads:
    """Time one batch that goes through the images in turn until it is full."""
    threads = cpu_count()
    chosen = [images[index % len(images)] for index in range(batch_size)]
    encoded = [image.encoded for image in chosen]
    rows = comparison(
        {peer.name: _entry(peer, chosen, encoded, threads) for peer in PEERS},
        ours.EXACT.name,
        budget,
    )
    rates = {
        name: 1e3 * batch_size / row.timing.median_ms
        for name, row in rows.items()
        if row.timing is not None
    }
    return AllThreads(threads, [image.name for image in chosen], rows, rates)


def _entry(
    peer: Peer, chosen: Sequence[Photograph], encoded: list[bytes], threads: int
) -> Ready | Row:
    if peer is ours.FAST and not any(
        image.is_at_least(entries.FAST_FROM_FACTOR, SIZE) for image in chosen
    ):
        return Row("not applicable", "no image is large enough")
    batch = load(lambda: peer.batch(threads))
    if isinstance(batch, Row):
        return batch
    return _verified(peer, batch, encoded)


def _verified(peer: Peer, batch: Batch, encoded: list[bytes]) -> Ready | Row:
    reference = ours.single(**dict(peer.compared_with))
    tensors = batch(encoded)
    agreements = [
        compare(tensors[index], reference(image), peer.psnr_db)
        for index, image in enumerate(encoded)
    ]
    for index, agreement in enumerate(agreements):
        if not agreement.passed:
            return Row("not verified", f"image {index} of the batch: {agreement.text}")
    farthest = max(agreements, key=lambda agreement: agreement.differing)
    return Ready(Case(run=batch, prepare=lambda: encoded), farthest.text)
