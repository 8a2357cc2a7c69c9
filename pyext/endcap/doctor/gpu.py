"""GPUs, and the libraries that can use them; serving works without any."""

from __future__ import annotations

import importlib.util
import json
import subprocess

import endcap
from endcap._pip_commands import install_command
from endcap._python_process import worker_command
from endcap.doctor.finding import Problem, Severity, Skipped
from endcap.doctor.subject import Subject
from endcap.server.private_server import installed_dali

_DALI_WITHIN_S = 120.0


def check_cuda(subject: Subject) -> str:
    """Check the driver, its GPUs, and the code for them."""
    state = endcap.cuda_state()
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
    """Check nvJPEG on the first GPU that endcap has code for."""
    cuda = endcap.cuda_state()
    if not cuda.available:
        raise Skipped("no GPU can be used")
    state = endcap.nvjpeg_state(next(device.id for device in cuda.devices if device.covered))
    found = f"{state.version}, {state.library_path}" if state.library_path else "none"
    if not state.available:
        raise Problem(found, state.reason, Severity.NOTE)
    return found


def check_dali(subject: Subject) -> str:
    """Check DALI and the operators, in a separate process."""
    needing = [m.path.name for m in subject.models if m.runs_dali and not m.is_optional]
    missing = Severity.ERROR if needing else Severity.NOTE
    needed = f" ({', '.join(needing)} cannot be loaded)" if needing else ""
    if not importlib.util.find_spec("nvidia") or not importlib.util.find_spec("nvidia.dali"):
        message = f"DALI is not installed{needed}; for DALI pipelines: `{install_command('dali')}`"
        raise Problem("none", message, missing)
    found = ", ".join(installed_dali()).replace("==", " ") or "of unknown version"
    report = subprocess.run(
        worker_command("endcap.dali.report"),
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_DALI_WITHIN_S,
        check=False,
    )
    if report.returncode != 0:
        reason = report.stderr.strip().splitlines()[-1:] or [f"exit code {report.returncode}"]
        remedy = f"`{install_command('dali', '--upgrade')}`"
        message = f"importing it fails: {reason[0]}{needed}; {remedy}"
        raise Problem(found, message, max(missing, Severity.WARNING))
    parts = {part["name"]: part for part in json.loads(report.stdout.splitlines()[-1])}
    for name, least in (("DALI", Severity.WARNING), ("operators", Severity.NOTE)):
        if problem := parts[name]["problem"]:
            raise Problem(found, problem, max(missing, least))
    return f"{found}, operators in {parts['operators']['found']}"
