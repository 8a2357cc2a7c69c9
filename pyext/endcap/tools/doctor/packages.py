"""The Python packages that endcap and its extras ask for, as its own metadata lists them."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from typing import TYPE_CHECKING

from endcap.tools.doctor.finding import Finding, Group, Problem, Severity, Topic
from endcap.tools.doctor.subject import Subject

if TYPE_CHECKING:  # the command line must start without it, to say that it is missing
    from packaging.requirements import Requirement

# Other distributions that hold the same module.
_ALSO_KNOWN_AS = {
    "onnxruntime": ("onnxruntime-gpu",),
    "opencv-python-headless": ("opencv-python", "opencv-contrib-python-headless"),
}


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
                remedy=f"`pip install 'endcap[{name}]'`",
            ),
        },
    )


REQUIRED = Topic(
    name="packages",
    group=Group.ENDCAP,
    title="required packages",
    meaning="The packages without which endcap does not work.",
    problems={
        "missing": Problem(
            when="One is not installed, or too old.",
            severity=Severity.ERROR,
            remedy="`pip install --upgrade endcap`",
        ),
    },
)
CLIENT = _extra("client", Group.CLIENTS, "for `endcap infer` and `endcap demo`")
EVALUATE = _extra("evaluate", Group.CLIENTS, "for `endcap evaluate`")
INIT = _extra("init", Group.CLIENTS, "for `endcap init`")
ENV = _extra("env", Group.PYTHON_MODELS, "for `endcap env pack`")
SERVER = _extra(
    "server",
    Group.PYTHON_MODELS,
    "for `endcap serve` and `endcap demo`; the server itself is none of them",
)


def check_required(subject: Subject) -> Finding:
    """What endcap always needs."""
    return _check(REQUIRED, "")


def check_client(subject: Subject) -> Finding:
    """What the client needs."""
    return _check(CLIENT, "client")


def check_evaluate(subject: Subject) -> Finding:
    """What the evaluation needs."""
    return _check(EVALUATE, "evaluate")


def check_init(subject: Subject) -> Finding:
    """What writing a repository needs."""
    return _check(INIT, "init")


def check_env(subject: Subject) -> Finding:
    """What packing environments needs."""
    return _check(ENV, "env")


def check_server(subject: Subject) -> Finding:
    """What serving needs."""
    return _check(SERVER, "server")


def _check(topic: Topic, extra: str) -> Finding:
    try:
        wanted = list(requirements("endcap", extra))
    except ModuleNotFoundError as error:
        return topic.problem("missing", "unknown", f"{error.name} is not installed")
    found: dict[str, str] = {}
    unmet: dict[str, str] = {}
    for requirement in wanted:  # a package may be wanted more than once
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
    return topic.fine(listing)


def requirements(name: str, extra: str) -> Iterator[Requirement]:
    """Yield what a distribution needs for an extra on this machine; for "" what it always needs.

    For `package[part]` also what that part needs, unless the package is `name` itself.
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
