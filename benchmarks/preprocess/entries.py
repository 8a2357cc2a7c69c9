"""Loads the peers once, and verifies each on every image before it may be timed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from benchmarks.images import Photograph
from benchmarks.preprocess import SIZE, bare_decode, ours
from benchmarks.preprocess.peer import Peer, Single
from benchmarks.preprocess.peers import PEERS
from benchmarks.preprocess.verify import compare
from benchmarks.rows import Ready, Row, load
from benchmarks.timing import Case

FAST_FROM_FACTOR = 2.0  # DCT scaling halves at least: nothing to gain on smaller images


@dataclass(frozen=True)
class Loaded:
    """A peer whose library is there."""

    peer: Peer
    run: Single


def load_peers() -> dict[str, Loaded | Row]:
    """Every peer by name, ready for one image at a time on one thread."""
    loaded: dict[str, Loaded | Row] = {}
    for peer in PEERS:
        run = load(peer.single)
        loaded[peer.name] = run if isinstance(run, Row) else Loaded(peer, run)
    return loaded


def load_floor() -> Single | Row:
    """The bare decode."""
    try:
        return bare_decode.single()
    except bare_decode.BareDecodeError as error:
        return Row("not available", str(error))


def ready_for(
    image: Photograph, peers: dict[str, Loaded | Row], floor: Single | Row
) -> dict[str, Ready | Row]:
    """Each peer on one image: ready to be timed, or the row that says why not."""
    encoded = image.encoded
    entries: dict[str, Ready | Row] = {
        name: each if isinstance(each, Row) else _verified(each, image, encoded)
        for name, each in peers.items()
    }
    entries[bare_decode.NAME] = ready_floor(floor, encoded)
    return entries


def ready_floor(floor: Single | Row, encoded: bytes) -> Ready | Row:
    """The bare decode of one file."""
    if isinstance(floor, Row):
        return floor
    return Ready(_case(floor, encoded), f"{floor(encoded)} rows")


def _verified(loaded: Loaded, image: Photograph, encoded: bytes) -> Ready | Row:
    peer = loaded.peer
    if peer is ours.FAST and not image.is_at_least(FAST_FROM_FACTOR, SIZE):
        return Row("not applicable", f"smaller than {FAST_FROM_FACTOR:g} times the target")
    agreement = compare(loaded.run(encoded), _expected(peer.compared_with, encoded), peer.psnr_db)
    if not agreement.passed:
        return Row("not verified", agreement.text)
    return Ready(_case(loaded.run, encoded), agreement.text)


def _expected(fields: tuple[tuple[str, object], ...], encoded: bytes) -> Any:
    return _reference(fields)(encoded)


@cache
def _reference(fields: tuple[tuple[str, object], ...]) -> Single:
    return ours.single(**dict(fields))


def _case(run: Callable[[bytes], Any], encoded: bytes) -> Case:
    return Case(run=run, prepare=lambda: encoded)
