"""Every way of doing every stage, by name."""

from __future__ import annotations

from dataclasses import dataclass

from endcap import _core


@dataclass(frozen=True)
class Implementation:
    """One path of one stage.

    Attributes:
        name: stage and path, for example ``nms_scalar``.
        stage: ``decode``, ``preprocess``, ``box_decode`` or ``nms``.
        path: ``scalar``, ``simd`` or ``cuda``.
        available: whether this machine can run it.
        reason: why not, ; empty when it can.
        ran_last: whether the stage's most recent run in this process took it.
    """

    name: str
    stage: str
    path: str
    available: bool
    reason: str
    ran_last: bool


def implementations() -> list[Implementation]:
    """List every path, stages in the order of the data's way.

    Those named ``cuda`` are for ``device="cuda"``. To know whether they are available, this starts
    the driver where there is one; processes that fork should do so first.
    """
    return [Implementation(*row) for row in _core.implementations()]


def force_implementation(path: str) -> None:
    """Force every stage onto one path, ``scalar``, ``simd`` or ``cuda``; ``auto`` ends that.

    The environment variable ``ENDCAP_FORCE_IMPLEMENTATION`` does the same from the start. A stage
    that cannot take the path raises UnsupportedError when it runs; on the CPU none can take
    ``cuda``, which ``device="cuda"`` asks for.

    Raises:
        InvalidArgumentError: an unknown path.
    """
    _core.force_implementation(path)
