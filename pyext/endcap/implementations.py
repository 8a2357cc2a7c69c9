"""Implementations of the stages, by name."""

from __future__ import annotations

from dataclasses import dataclass

import endcap._core as _core


@dataclass(frozen=True)
class Implementation:
    """One implementation of one stage.

    Attributes:
        name: stage and kind, for example ``nms_scalar``.
        stage: ``decode``, ``preprocess``, ``box_decode``, ``nms`` or ``masks``.
        kind: ``scalar``, ``simd`` or ``cuda``.
        available: whether this machine can run it.
        reason: why it cannot; empty when it can.
        ran_last: whether the stage's most recent run in this process took it.
    """

    name: str
    stage: str
    kind: str
    available: bool
    reason: str
    ran_last: bool


def implementations() -> list[Implementation]:
    """List every implementation, by stage in the order of the data flow.

    Those named ``cuda`` are for ``device="cuda"``. To know whether they are available, this starts
    the driver where there is one; processes that fork should do so first.
    """
    return [Implementation(*row) for row in _core.implementations()]


def force_implementation(kind: str) -> None:
    """Force ``scalar``, ``simd`` or ``cuda`` for every stage; ``auto`` ends that.

    The environment variable ``ENDCAP_FORCE_IMPLEMENTATION`` does the same from the start. A stage
    that lacks it raises UnsupportedError when it runs; on the CPU none has
    ``cuda``, which is for ``device="cuda"``.

    Raises:
        InvalidArgumentError: an unknown kind.
    """
    _core.force_implementation(kind)
