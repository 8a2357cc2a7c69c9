"""Where results are computed and kept."""

from __future__ import annotations

import operator

from endcap.errors import CudaError, InvalidArgumentError

_MOST_THREADS = 1024


def require_cpu(device: str) -> None:
    """Accept ``cpu``.

    Raises:
        CudaError: ``cuda`` or ``cuda:N``, which this build cannot serve.
        InvalidArgumentError: any other name.
    """
    if device == "cpu":
        return
    if not isinstance(device, str):
        raise InvalidArgumentError(f"device is {device!r}: give 'cpu', 'cuda' or 'cuda:N'")
    kind, _, number = device.partition(":")
    if kind == "cuda" and (not number or number.isdecimal()):
        raise CudaError(f"device is {device!r}: this build has no CUDA part, use device='cpu'")
    raise InvalidArgumentError(f"device is {device!r}: give 'cpu', 'cuda' or 'cuda:N'")


def thread_count(threads: int | None) -> int:
    """Return how many threads the core is asked for; 0 stands for all CPUs.

    Raises:
        InvalidArgumentError: not a whole number that fits.
    """
    try:
        count = operator.index(0 if threads is None else threads)
    except TypeError as error:
        raise InvalidArgumentError(f"threads is {threads!r}: give a whole number") from error
    if not 0 <= count <= _MOST_THREADS:
        raise InvalidArgumentError(f"threads is {count}: give 1 to {_MOST_THREADS}, or 0 for all")
    return count
