"""Whether a peer kept what endcap keeps, before anybody times it.

torchvision follows the same definition: its kept boxes must be the same ones. Peers that move the
boxes of each class apart by an offset (OpenCV, ultralytics) round the coordinates on the way, so a
pair at the very threshold may fall either way: OFFSET_SHARE of the boxes must agree.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

OFFSET_SHARE = 0.99


@dataclass(frozen=True)
class KeptAgreement:
    """Two sets of kept boxes."""

    kept: int  # by the reference
    only_one: int  # kept by one and not by the other
    passed: bool

    @property
    def text(self) -> str:
        """In a few words, for a table."""
        if self.only_one == 0:
            return f"same {self.kept} kept"
        return f"{self.kept} kept, {self.only_one} differ"


def compare(theirs: Iterable[object], ours: Iterable[object], share: float = 1.0) -> KeptAgreement:
    """Hold the kept items (indices, or pairs of anchor and class) against endcap's, as sets."""
    first, second = list(theirs), list(ours)
    if len(set(first)) != len(first):
        raise ValueError("a peer kept a box twice")
    only_one = len(set(first) ^ set(second))
    in_union = len(set(first) | set(second))
    passed = bool(second) and only_one <= (1 - share) * in_union
    return KeptAgreement(len(second), only_one, passed)
