"""endcap's installation: compiled core and backends, and the packages of its extras."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import endcap
from endcap import _core
from endcap.tools.doctor.finding import Finding, Group, Problem, Severity, Topic, reason_of
from endcap.tools.doctor.libraries import NO_LDD, find_ldd, linked_libraries, missing_libraries
from endcap.tools.doctor.subject import Subject
from endcap.triton.errors import ServerError
from endcap.triton.installation import find_our_backends

if TYPE_CHECKING:  # the command line must start without it, to say that it is missing
    from packaging.requirements import Requirement

_OUR_LIBJPEG = "libendcap_jpeg.so"
_FORCE = "ENDCAP_FORCE_IMPLEMENTATION"
_REINSTALL = "`{reinstall}`"
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
    meaning="The implementations (`scalar`, `simd`, `cuda`) that this build has on this machine. "
    f"`{_FORCE}` forces one of them.",
    problems={
        "forced": Problem(
            when=f"`{_FORCE}` names an implementation that a stage does not have here.",
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
# Other distributions that hold the same module.
_ALSO_KNOWN_AS = {
    "onnxruntime": ("onnxruntime-gpu",),
    "opencv-python-headless": ("opencv-python", "opencv-contrib-python-headless"),
}
REQUIRED = Topic(
    name="packages",
    group=Group.ENDCAP,
    title="required packages",
    meaning="The packages without which endcap does not work.",
    problems={
        "missing": Problem(
            when="One is not installed, or too old.",
            severity=Severity.ERROR,
            remedy="`{install}`",
        ),
    },
)


def check_installation(subject: Subject) -> Finding:
    """Check the version and the kind of installation."""
    origin = importlib.metadata.distribution("endcap").read_text("direct_url.json")
    described = json.loads(origin) if origin else {}
    editable = described.get("dir_info", {}).get("editable", False)
    how = "editable, from" if editable else "installed in"
    place = described["url"].removeprefix("file://") if editable else Path(endcap.__path__[0])
    return INSTALLATION.ok(
        f"{endcap.__version__}, {how} {place}; Python {platform.python_version()}"
    )


def check_core(subject: Subject) -> Finding:
    """Check the compiled module and its libjpeg."""
    if find_ldd() is None:
        return CORE.skipped(NO_LDD)
    module = Path(str(_core.__file__))
    libjpegs = {
        name: file for name, file in linked_libraries(module).items() if "jpeg" in name and file
    }
    foreign = [
        f"{name} ({file})"
        for name, file in libjpegs.items()
        if file.resolve() != (module.parent / _OUR_LIBJPEG).resolve()
    ]
    if foreign:
        return CORE.problem(
            "foreign_libjpeg", str(module), f"{module.name} decodes with {', '.join(foreign)}"
        )
    return CORE.ok(f"{module.name} with {', '.join(libjpegs) or 'a libjpeg of its own'}")


def check_implementations(subject: Subject) -> Finding:
    """Check the available implementations, and the one that is forced."""
    rows = endcap.implementations()
    stages = {row.stage for row in rows}
    kinds = {row.kind for row in rows if row.available and row.kind != "cuda"}  # the CPU's
    everywhere = [
        kind
        for kind in sorted(kinds)
        if stages == {row.stage for row in rows if row.available and row.kind == kind}
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
    if "simd" in kinds:
        found += f"; simd takes {_core.simd_target()}"
    return IMPLEMENTATIONS.ok(found + (f"; {_FORCE} is {forced}" if forced else ""))


def check_backends(subject: Subject) -> Finding:
    """Check the libraries that the server loads."""
    try:
        folders = find_our_backends()
    except ServerError as error:
        return BACKENDS.problem("absent", "incomplete", reason_of(error))
    if find_ldd() is None:
        return BACKENDS.skipped(NO_LDD)
    for name, folder in folders.items():
        library = folder / f"libtriton_{name}.so"
        missing = missing_libraries(library)
        if missing:
            return BACKENDS.problem(
                "libraries",
                ", ".join(folders),
                f"{library} needs {', '.join(missing)}, which the loader does not find",
            )
    return BACKENDS.ok(", ".join(folders))


def _extra(name: str, group: Group, purpose: str) -> Topic:
    return Topic(
        name=f"{name}_packages",
        group=group,
        title=f"{name} packages",
        meaning=f"The packages of `endcap[{name}]`: {purpose}.",
        problems={
            "missing": Problem(
                when="One is not installed, or too old.",
                severity=Severity.NOTE,
                remedy=f"`{{install:{name}}}`",
            ),
        },
    )


# The packages of each extra; those without which endcap does not work under "".
PACKAGES = {
    "": REQUIRED,
    "client": _extra("client", Group.CLIENTS, "for `endcap infer` and `endcap demo`"),
    "evaluate": _extra("evaluate", Group.CLIENTS, "for `endcap evaluate`"),
    "init": _extra("init", Group.CLIENTS, "for `endcap init`"),
    "env": _extra("env", Group.PYTHON_MODELS, "for `endcap env pack`"),
    "server": _extra(
        "server",
        Group.PYTHON_MODELS,
        "for `endcap serve` and `endcap demo`; the server itself is none of them",
    ),
}


def check_packages(topic: Topic, extra: str, subject: Subject) -> Finding:
    """Check the packages of an extra, or with "" those that endcap always needs."""
    try:
        required = list(requirements("endcap", extra))
    except ModuleNotFoundError as error:
        return topic.problem("missing", "unknown", f"{error.name} is not installed")
    found: dict[str, str] = {}
    unmet: dict[str, str] = {}
    for requirement in required:  # a package may be required more than once
        name, version = _installed(requirement.name)
        if version is None:
            unmet[name] = f"{name} is not installed"
            continue
        found[name] = f"{name} {version}"
        if not requirement.specifier.contains(version, prereleases=True):
            unmet.setdefault(name, f"{name} is {version}, needed is {requirement.specifier}")
    listing = ", ".join(found.values())
    if unmet:
        return topic.problem("missing", listing or "none", ", ".join(unmet.values()))
    return topic.ok(listing)


def requirements(name: str, extra: str) -> Iterator[Requirement]:
    """Yield the requirements of a distribution's extra on this machine; "": those without one.

    The requirements of `package[part]` are included, unless the package is `name` itself.
    """
    from packaging.requirements import Requirement

    for line in importlib.metadata.requires(name) or ():
        requirement = Requirement(line)
        always = _holds(requirement, "")
        wanted = not always and _holds(requirement, extra) if extra else always
        if not wanted or requirement.name == name:
            continue
        yield requirement
        if _installed(requirement.name)[1] is not None:
            for part in sorted(requirement.extras):
                yield from requirements(requirement.name, part)


def _holds(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def _installed(name: str) -> tuple[str, str | None]:
    for each in (name, *_ALSO_KNOWN_AS.get(name, ())):
        try:
            return each, importlib.metadata.version(each)
        except importlib.metadata.PackageNotFoundError:
            continue
    return name, None
