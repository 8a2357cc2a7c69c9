"""Peers, each loaded once and verified on every image before it may be timed.

Two bars. A peer with the same arithmetic must give the same 8-bit steps: none off by more than
MOST_STEPS, and EQUAL_SHARE of them equal; implementations in one library differ that much among
CPUs. A peer that resizes or decodes by another definition must show the same picture, by a PSNR of
its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from benchmarks.images import Photograph
from benchmarks.preprocess import SIZE, bare_decode, ours
from benchmarks.preprocess.peer import Peer, Single
from benchmarks.preprocess.peers import PEERS
from benchmarks.timing import Case, Ready, Row, load

MOST_STEPS = 1
EQUAL_SHARE = 0.999


@dataclass(frozen=True)
class Agreement:
    """How near two tensors are, in 8-bit steps (0 to 255)."""

    largest_step: int
    differing: int
    values: int
    psnr_db: float | None  # None where the tensors are equal
    passed: bool

    @property
    def text(self) -> str:
        """In a few words, for a table."""
        if self.differing == 0:
            return "equal"
        share = 100.0 * self.differing / self.values
        return f"{share:.3g} % differ, at most {self.largest_step}, {self.psnr_db:.1f} dB"


def compare(tensor: Any, reference: Any, psnr_db: float | None) -> Agreement:
    """Hold a tensor [3, SIZE, SIZE] against endcap's; psnr_db is the bar, None the exact one."""
    ours = _steps(reference)
    theirs = _steps(tensor)
    difference = np.abs(theirs - ours)
    differing = int(np.count_nonzero(difference))
    largest = int(difference.max())
    mean_square = float(np.square(difference, dtype=np.float64).mean())
    psnr = None if mean_square == 0 else float(10 * np.log10(255**2 / mean_square))
    if psnr_db is None:
        passed = largest <= MOST_STEPS and differing <= (1 - EQUAL_SHARE) * ours.size
    else:
        passed = psnr is None or psnr >= psnr_db
    return Agreement(largest, differing, ours.size, psnr, passed)


def _steps(tensor: Any) -> Any:
    array = np.asarray(tensor)
    if array.shape != (3, SIZE, SIZE) or array.dtype != np.float32:
        raise ValueError(f"a peer gave {array.dtype} {list(array.shape)}")
    if not np.isfinite(array).all():
        raise ValueError("a peer gave values that are no numbers")
    return np.rint(array * 255).astype(np.int32)


FAST_FROM_FACTOR = 2.0  # DCT scaling gains little on smaller images, and nothing below 1.6


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
    """Return the bare decode."""
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
    """Return the bare decode of one file."""
    if isinstance(floor, Row):
        return floor
    return Ready(_case(floor, encoded), f"{floor(encoded)} rows")


def _verified(loaded: Loaded, image: Photograph, encoded: bytes) -> Ready | Row:
    peer = loaded.peer
    if peer is ours.FAST and not image.is_at_least(FAST_FROM_FACTOR, SIZE):
        return Row("not applicable", f"smaller than {FAST_FROM_FACTOR:g} times the target")
    agreement = compare(loaded.run(encoded), reference(peer.compared_with)(encoded), peer.psnr_db)
    if not agreement.passed:
        return Row("not verified", agreement.text)
    return Ready(_case(loaded.run, encoded), agreement.text)


@cache
def reference(fields: tuple[tuple[str, object], ...]) -> Single:
    """Return endcap with these parameters, whose tensor a peer's is compared with."""
    return ours.single(**dict(fields))


def _case(run: Callable[[bytes], Any], encoded: bytes) -> Case:
    return Case(run=run, prepare=lambda: encoded)
