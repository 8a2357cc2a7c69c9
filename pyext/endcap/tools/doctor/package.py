"""endcap itself: the installation, the compiled core, and the compiled backends."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
from pathlib import Path

import endcap
from endcap import _core
from endcap.tools.doctor.finding import Finding, Group, Problem, Severity, Topic, reason_of
from endcap.tools.doctor.libraries import NO_LDD, find_ldd, linked_libraries, missing_libraries
from endcap.tools.doctor.subject import Subject
from endcap.triton.errors import ServerError
from endcap.triton.installation import find_our_backends

_OUR_LIBJPEG = "libendcap_jpeg.so"
_FORCE = "ENDCAP_FORCE_IMPLEMENTATION"
_REINSTALL = "`pip install --force-reinstall --no-deps endcap`"

INSTALLATION = Topic(
    name="endcap",
    group=Group.ENDCAP,
    title="version",
    meaning="The version, how it is installed (from a wheel, or editable from its sources), and "
    "the Python that runs it.",
)

CORE = Topic(
    name="core",
    group=Group.ENDCAP,
    title="compiled core",
    meaning="The compiled module loads, and decodes with the libjpeg that came with it. Pixels "
    "are those of libjpeg-turbo only with that one.",
    problems={
        "foreign_libjpeg": Problem(
            when="The core takes another libjpeg than its own.",
            severity=Severity.WARNING,
            remedy=f"unset LD_LIBRARY_PATH and LD_PRELOAD, or reinstall: {_REINSTALL}",
        ),
    },
)

IMPLEMENTATIONS = Topic(
    name="implementations",
    group=Group.ENDCAP,
    title="implementations",
    meaning="The paths (`scalar`, `simd`, `cuda`) that this build has on this machine. "
    f"`{_FORCE}` forces one of them.",
    problems={
        "forced": Problem(
            when=f"`{_FORCE}` names a path that a stage does not have here.",
            severity=Severity.ERROR,
            remedy=f"`unset {_FORCE}`, or set it to {{allowed}}",
        ),
    },
)

BACKENDS = Topic(
    name="backends",
    group=Group.ENDCAP,
    title="compiled backends",
    meaning="The Triton backends of endcap are there, and the loader finds every library that they "
    "need. The backends' libjpeg lies beside them.",
    problems={
        "absent": Problem(
            when="A backend's library is not in the installation.",
            severity=Severity.ERROR,
            remedy=f"reinstall: {_REINSTALL}",
        ),
        "libraries": Problem(
            when="A library that a backend needs is not found.",
            severity=Severity.ERROR,
            remedy=f"reinstall: {_REINSTALL}; where a GLIBC version is named, use Debian 12, "
            "Ubuntu 22.04 or later",
        ),
    },
)


def check_installation(subject: Subject) -> Finding:
    """Which endcap this is."""
    origin = importlib.metadata.distribution("endcap").read_text("direct_url.json")
    described = json.loads(origin) if origin else {}
    editable = described.get("dir_info", {}).get("editable", False)
    how = "editable, from" if editable else "installed in"
    place = described["url"].removeprefix("file://") if editable else Path(endcap.__path__[0])
    return INSTALLATION.fine(
        f"{endcap.__version__}, {how} {place}; Python {platform.python_version()}"
    )


def check_core(subject: Subject) -> Finding:
    """The compiled module and its libjpeg."""
    if find_ldd() is None:
        return CORE.not_looked_at(NO_LDD)
    module = Path(str(_core.__file__))
    libjpegs = {
        name: file for name, file in linked_libraries(module).items() if "jpeg" in name and file
    }
    strangers = [
        f"{name} ({file})"
        for name, file in libjpegs.items()
        if file.resolve() != (module.parent / _OUR_LIBJPEG).resolve()
    ]
    if strangers:
        return CORE.problem(
            "foreign_libjpeg", str(module), f"{module.name} decodes with {', '.join(strangers)}"
        )
    return CORE.fine(f"{module.name} with {', '.join(libjpegs) or 'a libjpeg of its own'}")


def check_implementations(subject: Subject) -> Finding:
    """The paths there are, and the one that is forced."""
    rows = endcap.implementations()
    stages = {row.stage for row in rows}
    paths = {row.path for row in rows if row.available and row.path != "cuda"}  # the CPU's
    everywhere = [
        path
        for path in sorted(paths)
        if stages == {row.stage for row in rows if row.available and row.path == path}
    ]
    forced = os.environ.get(_FORCE, "")
    found = ", ".join(row.name for row in rows if row.available)
    if forced and forced not in ("auto", *everywhere):
        return IMPLEMENTATIONS.problem(
            "forced",
            found,
            f"{_FORCE} is '{forced}', which not every stage has here",
            allowed=" or ".join(["auto", *everywhere]),
        )
    if "simd" in paths:
        found += f"; simd takes {_core.simd_target()}"
    return IMPLEMENTATIONS.fine(found + (f"; {_FORCE} is {forced}" if forced else ""))


def check_backends(subject: Subject) -> Finding:
    """The libraries that the server loads."""
    try:
        folders = find_our_backends()
    except ServerError as error:
        return BACKENDS.problem("absent", "incomplete", reason_of(error))
    if find_ldd() is None:
        return BACKENDS.not_looked_at(NO_LDD)
    for name, folder in folders.items():
        library = folder / f"libtriton_{name}.so"
        missing = missing_libraries(library)
        if missing:
            return BACKENDS.problem(
                "libraries",
                ", ".join(folders),
                f"{library} needs {', '.join(missing)}, which the loader does not find",
            )
    return BACKENDS.fine(", ".join(folders))
