"""The packages that Python models import: whether a stub would find them."""

from __future__ import annotations

import ast
import importlib.machinery
import os
import site
import sys
from collections.abc import Iterator

from endcap.environment.stub.front import STUB_NAME
from endcap.server.locate import ServerInstallation
from endcap.server.python_stub import PYTHON_VERSION, reads_variables
from endcap.tools.doctor.finding import Finding, Group, Problem, Severity, Topic
from endcap.tools.doctor.subject import Subject

# Where the package to install is not called as the module.
_PACKAGE_OF_MODULE = {
    "PIL": "pillow",
    "cv2": "opencv-python-headless",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}
_GIVEN_BY_THE_STUB = {"triton_python_backend_utils", "c_python_backend_utils"}

IMPORTS = Topic(
    name="model_imports",
    group=Group.PYTHON_MODELS,
    title="model imports",
    meaning="The modules that each `model.py` imports are installed for the Python that runs "
    "endcap, or in the environment that endcap makes for its own server. PYTHONPATH and the user's "
    "own packages do not count where the stub does not read them, as those of the server's wheel "
    "for Python 3.11 and later do not. Imports inside a `try`, an `if` or a function are not "
    "looked at.",
    problems={
        "missing": Problem(
            when="A module that a Python model imports is not installed.",
            severity=Severity.ERROR,
            remedy="`pip install {packages}` in this environment",
        ),
        "missing_in_private": Problem(
            when="The same in the environment that endcap makes for its own server.",
            severity=Severity.ERROR,
            remedy="`export ENDCAP_SERVER_PACKAGES='{packages}'`, which `endcap serve` then "
            "installs, or give the model an environment with `endcap env pack`",
        ),
        "syntax": Problem(
            when="A `model.py` is no Python.",
            severity=Severity.ERROR,
            remedy="correct {file}",
        ),
    },
)


def check_imports(subject: Subject) -> Finding:
    """What the repository's Python models import."""
    if subject.installation is None:
        return IMPORTS.not_looked_at("there is no server")
    if not subject.has_private_python:
        return _check_in(subject, _places(subject.installation), "missing")
    with subject.model_packages() as folder:
        if folder is None:
            return IMPORTS.not_looked_at("the environment of Python models is not made yet")
        editable = [file.read_text().split("\n") for file in folder.glob("_editable_*.pth")]
        roots = [line for lines in editable for line in lines if os.path.isabs(line)]
        return _check_in(subject, [str(folder), *roots], "missing_in_private")


def _check_in(subject: Subject, places: list[str], problem: str) -> Finding:
    wanted: dict[str, list[str]] = {}
    for model in subject.shared_python_models:
        for file in sorted(model.path.glob("[0-9]*/model.py")):
            if not file.is_file():  # a pipe may never end
                return IMPORTS.problem("syntax", "unknown", f"{file} is no file", file=file)
            try:
                tree = ast.parse(file.read_bytes())
            except SyntaxError as error:
                return IMPORTS.problem(
                    "syntax", "unknown", f"{file} line {error.lineno}: {error.msg}", file=file
                )
            for module in _imported(tree.body):
                if not _is_there(module, [*places, str(file.parent), str(model.path)]):
                    wanted.setdefault(module, []).append(model.path.name)
    if wanted:
        return IMPORTS.problem(
            problem,
            "incomplete",
            "modules are not installed: "
            + ", ".join(f"{module} (for {', '.join(by)})" for module, by in wanted.items()),
            packages=" ".join(_PACKAGE_OF_MODULE.get(module, module) for module in wanted),
        )
    count = len(subject.shared_python_models)
    return IMPORTS.fine("all found" if count else "no Python model to look at")


def _imported(body: list[ast.stmt]) -> Iterator[str]:
    """The first part of every module that these statements import when the file is loaded."""
    for statement in body:
        if isinstance(statement, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
            yield statement.module.partition(".")[0]


def _places(server: ServerInstallation) -> list[str]:
    """The folders of sys.path that a stub sees, too."""
    folder = server.stubs_dir / PYTHON_VERSION if server.stubs_dir is not None else None
    if folder is None and server.backends_dir is not None:
        folder = server.backends_dir / "python"
    stub = folder / STUB_NAME if folder is not None else None
    if stub is not None and stub.is_file() and reads_variables(stub):
        return sys.path
    not_read = {*os.environ.get("PYTHONPATH", "").split(os.pathsep), site.getusersitepackages()}
    return [place for place in sys.path if place not in not_read]


def _is_there(module: str, places: list[str]) -> bool:
    if module in sys.stdlib_module_names or module in _GIVEN_BY_THE_STUB:
        return True
    return importlib.machinery.PathFinder.find_spec(module, places) is not None
