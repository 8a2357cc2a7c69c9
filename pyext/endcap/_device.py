"""Where results are computed and kept."""

from __future__ import annotations

import operator
from dataclasses import dataclass

from endcap.errors import InvalidArgumentError

_MAX_THREADS = 1024


@dataclass(frozen=True)
class Target:
    """Where GPU work goes: a device and a stream of it.

    Attributes:
        device_id: the number N in ``cuda:N``.
        stream: a ``cudaStream_t`` as a number; 0 is the legacy default stream.
        stream_owner: the object that the stream came from; results keep it.
    """

    device_id: int
    stream: int = 0
    stream_owner: object = None


def cuda_device(device: str) -> int | None:
    """Return the number of a CUDA device, None for ``cpu``.

    Raises:
        InvalidArgumentError: any other name.
    """
    if device == "cpu":
        return None
    if isinstance(device, str):
        kind, colon, number = device.partition(":")
        if kind == "cuda" and number.isascii() and (number.isdecimal() or not colon):
            return int(number or 0)
    raise InvalidArgumentError(f"device is {device!r}: give 'cpu', 'cuda' or 'cuda:N'")


def cuda_target(device_id: int, stream: object) -> Target:
    """Return the target of one call.

    Args:
        device_id: a CUDA device.
        stream: None for the legacy default stream, a handle as a number, or an object that has
            ``__cuda_stream__``, ``cuda_stream`` (torch) or ``ptr`` (CuPy).

    Raises:
        InvalidArgumentError: anything else as a stream.
    """
    return Target(device_id, _stream_handle(stream), stream)


def refuse_stream(stream: object) -> None:
    """Raise InvalidArgumentError for a stream that came with ``device="cpu"``."""
    if stream is not None:
        raise InvalidArgumentError("stream was given with device='cpu': it is for device='cuda'")


def thread_count(threads: int | None) -> int:
    """Return the number of threads for the core; 0 stands for all CPUs.

    Raises:
        InvalidArgumentError: not a whole number that fits.
    """
    try:
        count = operator.index(0 if threads is None else threads)
    except TypeError as error:
        raise InvalidArgumentError(f"threads is {threads!r}: give a whole number") from error
    if not 0 <= count <= _MAX_THREADS:
        raise InvalidArgumentError(f"threads is {count}: give 1 to {_MAX_THREADS}, or 0 for all")
    return count


def _stream_handle(stream: object) -> int:
    if stream is None:
        return 0
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        # (version, handle): https://nvidia.github.io/cuda-python/cuda-core
        handle = (protocol() if callable(protocol) else protocol)[1]
    else:
        handle = getattr(stream, "cuda_stream", getattr(stream, "ptr", stream))
    if isinstance(handle, int) and not isinstance(handle, bool) and handle >= 0:
        return handle
    raise InvalidArgumentError(
        f"stream is {stream!r}: give None, a handle as a number, or an object with "
        "__cuda_stream__, cuda_stream or ptr"
    )
