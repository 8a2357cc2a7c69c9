"""Where results are computed and kept."""

from __future__ import annotations

from endcap.errors import CudaError, InvalidArgumentError


def require_cpu(device: str) -> None:
    """Accept ``cpu``.

    Raises:
        CudaError: ``cuda`` or ``cuda:N``, which this build cannot serve.
        InvalidArgumentError: any other name.
    """
    if device == "cpu":
        return
    kind, _, number = device.partition(":")
    if kind == "cuda" and (not number or number.isdecimal()):
        raise CudaError(f"device is {device!r}: this build has no CUDA part, use device='cpu'")
    raise InvalidArgumentError(f"device is {device!r}: give 'cpu', 'cuda' or 'cuda:N'")
