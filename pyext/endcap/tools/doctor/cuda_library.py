"""endcap's own GPU code, and whether it goes with the driver and the GPUs."""

from __future__ import annotations

import endcap
from endcap.tools.doctor.finding import Finding, Group, Problem, Severity, Topic, reason_of
from endcap.tools.doctor.gpu import written_cuda
from endcap.tools.doctor.subject import Subject

CUDA_LIBRARY = Topic(
    name="cuda_library",
    group=Group.GPU,
    title="GPU code",
    meaning='The library `libendcap_cuda.so`, which `device="cuda"` and GPU instances of the '
    "backends take: the CUDA that it was built with, and the compute capabilities that its code is "
    "for (`90-virtual` is PTX, for 9.0 and all later ones).",
    problems={
        "absent": Problem(
            when="This installation has none.",
            severity=Severity.NOTE,
            remedy="nothing, where there is no GPU; else install endcap from a wheel, or build it "
            "where CUDA 13 is",
        ),
        "uncovered": Problem(
            when="It has no code for one of the GPUs.",
            severity=Severity.NOTE,
            remedy="hide the GPU by CUDA_VISIBLE_DEVICES, or build endcap with "
            "`-DENDCAP_CUDA_ARCHITECTURES=...`",
        ),
        "unusable": Problem(
            when="There is a driver, but the code cannot be used.",
            severity=Severity.WARNING,
            remedy="`nvidia-smi` shows what the driver sees; the other findings below GPU say more",
        ),
        "broken": Problem(
            when="The library is there, but cannot be loaded.",
            severity=Severity.ERROR,
            remedy="`unset ENDCAP_CUDA_LIBRARY`, or reinstall: "
            "`pip install --force-reinstall --no-deps endcap`",
        ),
    },
)


def check_cuda_library(subject: Subject) -> Finding:
    """What the library says of itself and of the GPUs."""
    state = endcap.cuda_state()
    if not state.runtime_version:
        key = "broken" if state.library_path else "absent"
        return CUDA_LIBRARY.problem(key, "none", reason_of(Exception(state.reason)))
    found = f"CUDA {written_cuda(state.runtime_version)} for {state.architectures}"
    if state.available:
        uncovered = [device for device in state.devices if not device.covered]
        if not uncovered:
            return CUDA_LIBRARY.fine(found)
        names = ", ".join(f"cuda:{device.id} ({device.name})" for device in uncovered)
        return CUDA_LIBRARY.problem("uncovered", found, f"there is no code for {names}")
    if not state.driver_version:
        return CUDA_LIBRARY.note(f"{found}, without a driver")
    return CUDA_LIBRARY.problem("unusable", found, reason_of(Exception(state.reason)))
