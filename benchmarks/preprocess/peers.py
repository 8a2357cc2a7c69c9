"""The peers in the order of the tables."""

from __future__ import annotations

from benchmarks.preprocess import dali, opencv, ours, pillow, torchvision_peer

PEERS = (
    ours.EXACT,
    ours.FAST,
    opencv.PEER,
    opencv.PLAIN,
    pillow.PEER,
    torchvision_peer.PEER,
    dali.PEER,
)
