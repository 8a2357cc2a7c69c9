"""DALI, and endcap's operators for it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import subprocess

from endcap._system.worker_command import worker_command
from endcap.tools.doctor.finding import Finding, Group, Problem, Severity, Topic, reason_of
from endcap.tools.doctor.subject import Subject

_ANSWERS_WITHIN_S = 120.0

DALI = Topic(
    name="dali",
    group=Group.GPU,
    title="DALI",
    meaning="NVIDIA's library of data pipelines, for models of the variant `detect_dali`: it can "
    "be imported, and endcap's operators for it are built and can be loaded.",
    problems={
        "absent": Problem(
            when="It is not installed.",
            severity=Severity.NOTE,
            remedy="only for DALI pipelines: `pip install 'endcap[dali]'`",
        ),
        "unusable": Problem(
            when="It cannot be imported, or is too old.",
            severity=Severity.WARNING,
            remedy="`pip install --upgrade 'endcap[dali]'`",
        ),
        "no_operators": Problem(
            when="endcap's operators are not built for it, or cannot be loaded.",
            severity=Severity.NOTE,
            remedy="only for DALI pipelines: `endcap dali build`",
        ),
    },
)


def check_dali(subject: Subject) -> Finding:
    """DALI and its version, and the operators; both are tried in a process of their own."""
    if not importlib.util.find_spec("nvidia") or not importlib.util.find_spec("nvidia.dali"):
        return DALI.problem("absent", "none", "nvidia.dali is not installed")
    found = _installed()
    tried = subprocess.run(
        worker_command("endcap.dali.report"),
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_ANSWERS_WITHIN_S,
        check=False,
    )
    if tried.returncode != 0:
        said = tried.stderr.strip().splitlines()[-1:] or [f"exit code {tried.returncode}"]
        return DALI.problem("unusable", found, f"importing it fails: {said[0]}")
    parts = {part["name"]: part for part in json.loads(tried.stdout.splitlines()[-1])}
    for name, key in (("DALI", "unusable"), ("operators", "no_operators")):
        if problem := parts[name]["problem"]:
            return DALI.problem(key, found, reason_of(Exception(problem)))
    return DALI.fine(f"{found}, operators in {parts['operators']['found']}")


def _installed() -> str:
    names = ((wheel.name.replace("_", "-"), wheel) for wheel in importlib.metadata.distributions())
    versions = {
        f"{name} {wheel.version}" for name, wheel in names if name.startswith("nvidia-dali-cuda")
    }
    return ", ".join(sorted(versions)) or "of unknown version"
