"""State of CUDA and of nvJPEG on this machine."""

from __future__ import annotations

from dataclasses import dataclass

import endcap._core as _core


@dataclass(frozen=True)
class CudaDevice:
    """One GPU that this process can use.

    Attributes:
        id: the number N in ``cuda:N``.
        name: as its driver says it.
        compute_capability: major and minor.
        multiprocessors: how many it has.
        memory_bytes: all of its memory.
        covered: whether the library has code for it.
    """

    id: int
    name: str
    compute_capability: tuple[int, int]
    multiprocessors: int
    memory_bytes: int
    covered: bool


@dataclass(frozen=True)
class CudaState:
    """Whether ``device="cuda"`` works here, and with what.

    Attributes:
        available: the library is loaded, its driver works, there is a device that it has code for.
        reason: why not, and what to do; empty when available.
        library_path: the path of ``libendcap_cuda.so``; empty where there is none.
        driver_version: newest CUDA that the driver can run, 1000 * major + 10 * minor; 0 unknown.
        runtime_version: CUDA that the library was built with, written alike.
        architectures: what its code is for, such as ``90-real``, or as PTX ``90-virtual``.
        devices: the GPUs.
    """

    available: bool
    reason: str
    library_path: str
    driver_version: int
    runtime_version: int
    architectures: str
    devices: tuple[CudaDevice, ...]


@dataclass(frozen=True)
class NvjpegState:
    """Whether ``jpeg_decoder="nvjpeg"`` works on a GPU, and with which nvJPEG.

    Attributes:
        available: CUDA is available, nvJPEG is loaded, and the GPU has a JPEG engine.
        reason: why not, and what to do; empty when available.
        library_path: ``libnvjpeg.so`` as it was loaded; empty where there is none, or no CUDA.
        version: of nvJPEG, such as ``13.0.1``; empty where it is unknown.
    """

    available: bool
    reason: str
    library_path: str
    version: str


def cuda_state() -> CudaState:
    """Return what there is of CUDA; looked for once per process. Never raises."""
    available, reason, library_path, driver_version, runtime_version, architectures, devices = (
        _core.cuda_state()
    )
    return CudaState(
        available,
        reason,
        library_path,
        driver_version,
        runtime_version,
        architectures,
        devices=tuple(
            CudaDevice(number, name, (major, minor), multiprocessors, memory_bytes, covered)
            for number, name, major, minor, multiprocessors, memory_bytes, covered in devices
        ),
    )


def nvjpeg_state(device_id: int = 0) -> NvjpegState:
    """Return the state of nvJPEG on one GPU; a missing library or engine is not an error.

    Starts the driver where there is one, as ``cuda_state`` does.

    Args:
        device_id: the number N in ``cuda:N``.

    Returns:
        The state; with ``available`` False and a reason for a GPU that does not exist.
    """
    available, reason, library_path, version = _core.nvjpeg_state(device_id)
    return NvjpegState(available, reason, library_path, version)
