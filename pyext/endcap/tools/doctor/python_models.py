"""Python-backend models: their imports, their own stubs, and DALI."""

from __future__ import annotations

import ast
import importlib.machinery
import os
import site
import sys
from collections.abc import Iterator

from endcap.environment.stub import LOG_NAME, STUB_NAME, check
from endcap.server.backends import find_operators
from endcap.server.locate import ServerInstallation
from endcap.server.python_stub import PYTHON_VERSION, reads_variables
from endcap.tools.doctor.finding import Finding, Group, Problem, Severity, Topic, reason_of
from endcap.tools.doctor.subject import Subject
from endcap.triton.errors import ServerError

_GIVEN_BY_THE_STUB = {"triton_python_backend_utils", "c_python_backend_utils"}
# Packages that have another name than their module.
_PACKAGE_OF_MODULE = {
    "PIL": "pillow",
    "cv2": "opencv-python-headless",
    "nvidia": "nvidia-dali-cuda130",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}
IMPORTS = Topic(
    name="model_imports",
    group=Group.PYTHON_MODELS,
    title="model imports",
    meaning="The modules that each `model.py` imports are installed for the Python that runs "
    "endcap, or in the environment that endcap makes for its own server. PYTHONPATH and the user's "
    "own packages do not count where the stub does not read them, as those of the server's wheel "
    "for Python 3.11 and later do not. Imports inside a `try`, an `if` or a function are not "
    "checked.",
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
MODEL_STUBS = Topic(
    name="model_stubs",
    group=Group.PYTHON_MODELS,
    title="model stubs",
    meaning="A Python model may carry the stub that `endcap stub install` puts into its folder. It "
    "checks the model's environment before Triton's own stub starts: the version of Python, "
    "libpython, NumPy, endcap, the server's release, and room in /dev/shm. The same is checked "
    "here; a packed environment is read to its end first.",
    problems={
        "refuses": Problem(
            when="A model's stub would refuse to start.",
            severity=Severity.ERROR,
            remedy="follow the error message; `endcap stub check {folder}` shows all that it found",
        ),
        "refused": Problem(
            when="The stub fits here, but has refused when it was last started.",
            severity=Severity.WARNING,
            remedy="start the server again, and read {file} if it is still there",
        ),
    },
)
DALI_MODELS = Topic(
    name="dali_models",
    group=Group.PYTHON_MODELS,
    title="DALI pipelines",
    meaning="Python models that run a DALI pipeline of endcap's find DALI and endcap's operators "
    "for it. Those with the parameter `optional`, such as the shipped `preprocess_dali`, are not "
    "checked: `endcap serve` leaves them out where they cannot run.",
    problems={
        "no_operators": Problem(
            when="DALI is not installed or cannot be used, or the operators are not built for it.",
            severity=Severity.ERROR,
            remedy="`{install:dali}`, then `endcap dali build`; `endcap dali info` "
            "shows what is there",
        ),
    },
)


def check_imports(subject: Subject) -> Finding:
    """Check the imports of the repository's Python models."""
    if subject.installation is None:
        return IMPORTS.skipped("there is no server")
    if not subject.has_private_python:
        return _check_imports_in(subject, _search_path(subject.installation), "missing")
    with subject.model_packages() as folder:
        if folder is None:
            return IMPORTS.skipped("the environment of Python models is not made yet")
        editable = [file.read_text().split("\n") for file in folder.glob("_editable_*.pth")]
        roots = [line for lines in editable for line in lines if os.path.isabs(line)]
        return _check_imports_in(subject, [str(folder), *roots], "missing_in_private")


def _check_imports_in(subject: Subject, folders: list[str], problem: str) -> Finding:
    missing: dict[str, list[str]] = {}
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
                if not _is_importable(module, [*folders, str(file.parent), str(model.path)]):
                    missing.setdefault(module, []).append(model.path.name)
    if missing:
        return IMPORTS.problem(
            problem,
            "incomplete",
            "modules are not installed: "
            + ", ".join(f"{module} (for {', '.join(by)})" for module, by in missing.items()),
            packages=" ".join(_PACKAGE_OF_MODULE.get(module, module) for module in missing),
        )
    count = len(subject.shared_python_models)
    return IMPORTS.ok("all found" if count else "no Python model to look at")


def _imported(body: list[ast.stmt]) -> Iterator[str]:
    """Yield the top-level modules that statements import when the file is loaded."""
    for statement in body:
        if isinstance(statement, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
            yield statement.module.partition(".")[0]


def _search_path(server: ServerInstallation) -> list[str]:
    """Return the folders of sys.path that a stub reads, too."""
    folder = server.stubs_dir / PYTHON_VERSION if server.stubs_dir is not None else None
    if folder is None and server.backends_dir is not None:
        folder = server.backends_dir / "python"
    stub = folder / STUB_NAME if folder is not None else None
    if stub is not None and stub.is_file() and reads_variables(stub):
        return sys.path
    not_read = {*os.environ.get("PYTHONPATH", "").split(os.pathsep), site.getusersitepackages()}
    return [place for place in sys.path if place not in not_read]


def _is_importable(module: str, folders: list[str]) -> bool:
    if module in sys.stdlib_module_names or module in _GIVEN_BY_THE_STUB:
        return True
    return importlib.machinery.PathFinder.find_spec(module, folders) is not None


def check_stubs(subject: Subject) -> Finding:
    """Check the models with a stub of their own."""
    carrying = [model.path for model in subject.models if (model.path / STUB_NAME).is_file()]
    for model in carrying:
        report = check(model, tritonserver=subject.tritonserver)
        if report.problem is not None:
            message = f"{model.name}: {report.problem}"
            return MODEL_STUBS.problem("refuses", "unusable", message, folder=model)
        log = model / LOG_NAME
        if log.is_file():
            reason = log.read_text(encoding="utf-8", errors="replace").strip()
            return MODEL_STUBS.problem("refused", "refused", f"{model.name}: {reason}", file=log)
    return MODEL_STUBS.ok(", ".join(model.name for model in carrying) or "none")


def check_dali_models(subject: Subject) -> Finding:
    """Check that DALI's operators load, where a model needs them."""
    needing = [m.path.name for m in subject.models if m.runs_dali and not m.is_optional]
    if not needing:
        return DALI_MODELS.ok("no model needs them")
    try:
        library = find_operators()
    except ServerError as error:
        models = ", ".join(needing)
        return DALI_MODELS.problem(
            "no_operators", "missing", f"{models} cannot be loaded: {reason_of(error)}"
        )
    return DALI_MODELS.ok(f"{', '.join(needing)} by {library}")
