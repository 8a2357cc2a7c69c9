"""GPUs, and the libraries that can use them; serving works without any."""

from __future__ import annotations

from endcap.cuda import cuda_state, nvjpeg_state
from endcap.doctor.finding import Problem, Severity, Skipped
from endcap.doctor.subject import Subject
from endcap.errors import ServerError
from endcap.server.backends import find_operators


def check_cuda(subject: Subject) -> str:
    """Check the driver, its GPUs, and the code for them.

    The NVIDIA driver (580 or later), its GPUs, and endcap's code for them. Without a GPU
    everything runs on the CPU.
    """
    state = cuda_state()
    if not state.runtime_version:
        is_broken = bool(state.library_path)
        raise Problem("none", state.reason, Severity.ERROR if is_broken else Severity.NOTE)
    found = f"CUDA {_version(state.runtime_version)} for {state.architectures}"
    if not state.available:
        severity = Severity.WARNING if state.driver_version else Severity.NOTE
        raise Problem(found, state.reason, severity)
    names = ", ".join(f"cuda:{device.id} {device.name}" for device in state.devices)
    found = f"{found}; driver with CUDA {_version(state.driver_version)}; {names}"
    uncovered = [f"cuda:{device.id}" for device in state.devices if not device.covered]
    if uncovered:
        raise Problem(
            found,
            f"there is no code for {', '.join(uncovered)}; hide it by CUDA_VISIBLE_DEVICES, or "
            "build endcap with `-DENDCAP_CUDA_ARCHITECTURES=...`",
            Severity.NOTE,
        )
    return found


def _version(number: int) -> str:
    """Return "12.4" for 12040, as CUDA counts versions."""
    return f"{number // 1000}.{number % 1000 // 10}"


def check_nvjpeg(subject: Subject) -> str:
    """Check nvJPEG on the first GPU that endcap has code for.

    NVIDIA's library for the JPEG engine of data center GPUs, which only `decode: fast` uses.
    """
    cuda = cuda_state()
    if not cuda.available:
        raise Skipped("no GPU can be used")
    state = nvjpeg_state(next(device.id for device in cuda.devices if device.covered))
    found = f"{state.version}, {state.library_path}" if state.library_path else "none"
    if not state.available:
        raise Problem(found, state.reason, Severity.NOTE)
    return found


def check_dali(subject: Subject) -> str:
    """Check DALI and the operators, in a separate process.

    NVIDIA's library of data pipelines, for models such as `preprocess_dali`: it can be
    imported, and endcap's operators for it are built and can be loaded.
    """
    try:
        return str(find_operators())
    except ServerError as error:
        needing = [m.path.name for m in subject.models if m.runs_dali and not m.is_optional]
        if not needing:
            raise Problem("none", str(error), Severity.NOTE) from error
        raise Problem("none", f"{', '.join(needing)} cannot be loaded: {error}") from error
