"""The library that networks on endcap_onnx run on."""

from __future__ import annotations

import os
from pathlib import Path

from endcap.server.onnxruntime_library import BACKEND, VARIABLE, find_onnxruntime
from endcap.tools.doctor.finding import Finding, Group, Problem, Severity, Topic
from endcap.tools.doctor.subject import Subject

LIBRARY = Topic(
    name="onnxruntime",
    group=Group.REPOSITORY,
    title="ONNX Runtime",
    meaning=f"The library that models of the backend `{BACKEND}` run on: that of {VARIABLE}, of "
    "the Python package `onnxruntime` beside endcap, or of the server's own backend.",
    problems={
        "absent": Problem(
            when="Models need it, and there is none.",
            severity=Severity.ERROR,
            remedy="`pip install onnxruntime` (for instances on a GPU `onnxruntime-gpu`), or name "
            f"the file of another build: `export {VARIABLE}=/path/to/libonnxruntime.so`",
        ),
        "named_absent": Problem(
            when=f"{VARIABLE} names a file that is not there.",
            severity=Severity.ERROR,
            remedy=f"`unset {VARIABLE}`, or name the library's file",
        ),
    },
)


def check_library(subject: Subject) -> Finding:
    """Whether the networks that need it would find it."""
    users = [model.path.name for model in subject.models if model.backend == BACKEND]
    if not users:
        return LIBRARY.not_looked_at(f"no model runs in {BACKEND}")
    named = os.environ.get(VARIABLE)
    if named:
        if not Path(named).is_file():
            return LIBRARY.problem("named_absent", named, f"{named} is no file")
        return LIBRARY.fine(named)
    if subject.installation is None:
        return LIBRARY.not_looked_at("there is no server")
    found = find_onnxruntime(subject.installation)
    if found is None:
        return LIBRARY.problem(
            "absent", "none", f"{', '.join(users)} run in {BACKEND}, which needs ONNX Runtime"
        )
    return LIBRARY.fine(str(found))
