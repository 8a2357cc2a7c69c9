"""The environment of Python-backend models: stub, interpreter, libpython, NumPy and names."""

from __future__ import annotations

import contextlib
import importlib.metadata
import sys
import tempfile
from pathlib import Path

from endcap.server import private_server, python_stub
from endcap.server.backends import needs_stub
from endcap.server.locate import ServerInstallation
from endcap.server.models import check_model_names, check_scratch
from endcap.tools.doctor.finding import Finding, Group, Problem, Severity, Topic, reason_of
from endcap.tools.doctor.subject import Subject
from endcap.triton.errors import ServerError

_NO_SERVER = "there is no server"
_OTHER_PYTHON = "the server runs Python models in a Python of its own"
_PRIVATE_PYTHON = "endcap's own server runs Python models in an environment of its own"
_USABLE_MINORS = {10, 11, 12}
_VIRTUAL_ENVIRONMENT = "`python3 -m venv .venv && .venv/bin/{install_elsewhere:server}`"
ENVIRONMENT = Topic(
    name="python_environment",
    group=Group.PYTHON_MODELS,
    title="environment",
    meaning="Where Python models without an environment of their own (EXECUTION_ENV_PATH) run: on "
    "endcap's own server in one that `endcap serve` makes of NumPy below 2, ONNX Runtime, endcap "
    "and what ENDCAP_SERVER_PACKAGES names; on a server from a wheel in that of endcap; in "
    "NVIDIA's container in the container's Python. Where none can run, as with Python 3.13 and "
    "later on endcap's own server, `endcap serve` leaves out those with the parameter `optional`, "
    "which the shipped examples have.",
    problems={
        "not_made": Problem(
            when="The packages of that environment are not installed yet.",
            severity=Severity.NOTE,
            remedy="`endcap serve` installs them when a Python model is served",
        ),
        "unusable": Problem(
            when="They cannot be installed for this Python, or endcap's cache cannot be used.",
            severity=Severity.ERROR,
            remedy="follow the error message; models with EXECUTION_ENV_PATH do without",
        ),
    },
)
STUB = Topic(
    name="python_stub",
    group=Group.PYTHON_MODELS,
    title="Python stub",
    meaning="The Python backend starts a stub for each model instance; it is compiled for one "
    "version of Python. The server of the wheel brings several, NVIDIA's container one.",
    problems={
        "absent": Problem(
            when="There is no stub for the Python that runs endcap.",
            severity=Severity.ERROR,
            remedy="make a virtual environment with one of these Pythons: "
            "`python{version} -m venv .venv && .venv/bin/{install_elsewhere:server}`",
        ),
    },
)
INTERPRETER = Topic(
    name="python3",
    group=Group.PYTHON_MODELS,
    title="python3",
    meaning="A stub takes its packages from the first `python3` on PATH. `endcap serve` puts the "
    "folder of the running Python there, so that folder must have a `python3` that is this Python.",
    problems={
        "absent": Problem(
            when="Beside the running Python there is no `python3`, or it is another one.",
            severity=Severity.ERROR,
            remedy=f"install endcap in a virtual environment: {_VIRTUAL_ENVIRONMENT}",
        ),
    },
)
LIBPYTHON = Topic(
    name="libpython",
    group=Group.PYTHON_MODELS,
    title="libpython",
    meaning="A stub embeds Python: it loads `libpython3.X.so.1.0`, which many distributions put in "
    "a package of its own. The stub is started once to see.",
    problems={
        "absent": Problem(
            when="The stub does not find libpython.",
            severity=Severity.ERROR,
            remedy="`apt-get install libpython{version}`; a Python that you compiled yourself "
            "needs `./configure --enable-shared`",
        ),
        "library": Problem(
            when="The stub does not find another library.",
            severity=Severity.ERROR,
            remedy="of the wheel: `pip install --force-reinstall --no-deps nvidia-pytriton`; else "
            "install the library",
        ),
    },
)
NUMPY = Topic(
    name="numpy",
    group=Group.PYTHON_MODELS,
    title="NumPy",
    meaning="The stubs of the wheel's server are older than NumPy 2. With it a Python model "
    "returns empty tensors, and nothing reports an error.",
    problems={
        "numpy_2": Problem(
            when="NumPy 2 is installed where Python models would run.",
            severity=Severity.ERROR,
            remedy="`pip install 'numpy<2'`, or `pip uninstall nvidia-pytriton`: endcap then has a "
            "server and a NumPy of its own",
        ),
    },
)
PATHS = Topic(
    name="python_paths",
    group=Group.PYTHON_MODELS,
    title="names",
    meaning="The Python backend starts its stubs through a shell and quotes nothing, so that "
    "`endcap serve` lets only letters, digits and ._+- into what it is given: the temporary "
    "folder, and the folder of a Python model. The repository itself may lie in any folder.",
    problems={
        "temporary": Problem(
            when="The temporary folder has another character in its path.",
            severity=Severity.ERROR,
            remedy="`export TMPDIR=/tmp`",
        ),
        "model": Problem(
            when="The folder of a Python model has another character in its name.",
            severity=Severity.ERROR,
            remedy="rename the folder, and the model in ensembles that call it",
        ),
    },
)


def check_environment(subject: Subject) -> Finding:
    """Check the environment in which Python models run."""
    server = subject.installation
    if server is None:
        return ENVIRONMENT.skipped(_NO_SERVER)
    if not needs_stub(server):
        return ENVIRONMENT.ok("that of the server's own Python")
    if not server.is_private:
        return ENVIRONMENT.ok(f"that of endcap, {sys.prefix}")
    if isinstance(subject.packages, Path):
        return ENVIRONMENT.ok(f"{subject.packages}, with {sys.executable}")
    try:
        private_server.check_python()
        if isinstance(subject.packages, ServerError):
            raise subject.packages
    except ServerError as error:
        return ENVIRONMENT.problem("unusable", "none", str(error), at_most=_severity(subject))
    return ENVIRONMENT.problem("not_made", "none yet", "no Python model was served yet")


def check_stub(subject: Subject) -> Finding:
    """Check that there is a stub for this Python."""
    server = subject.installation
    if server is None:
        return STUB.skipped(_NO_SERVER)
    if not needs_stub(server):
        return _check_own_stub(server)
    assert server.stubs_dir is not None  # needs_stub said so
    try:
        stub = python_stub.find_stub(server.stubs_dir)
    except ServerError as error:
        return STUB.problem(
            "absent",
            "none",
            reason_of(error),
            at_most=_severity(subject),
            version=_newest_usable(server.stubs_dir),
        )
    return STUB.ok(f"for Python {stub.parent.name}")


def check_interpreter(subject: Subject) -> Finding:
    """Check that the stub would find the packages of this Python."""
    if subject.installation is None:
        return INTERPRETER.skipped(_NO_SERVER)
    if not needs_stub(subject.installation):
        return INTERPRETER.skipped(_OTHER_PYTHON)
    if subject.has_private_python:
        return INTERPRETER.skipped(_PRIVATE_PYTHON)
    try:
        folder = python_stub.python_program_dir()
    except ServerError as error:
        return INTERPRETER.problem(
            "absent", sys.executable, reason_of(error), at_most=_severity(subject)
        )
    return INTERPRETER.ok(str(folder / "python3"))


def check_libpython(subject: Subject) -> Finding:
    """Check that the stub starts."""
    server = subject.installation
    if server is None:
        return LIBPYTHON.skipped(_NO_SERVER)
    if server.stubs_dir is None or not needs_stub(server):
        return LIBPYTHON.skipped(_OTHER_PYTHON)
    with contextlib.ExitStack() as opened:
        try:
            stub = python_stub.find_stub(server.stubs_dir)
            environment = opened.enter_context(subject.environment())
        except ServerError as error:  # the two checks above say more
            return LIBPYTHON.skipped(reason_of(error))
        try:
            python_stub.check_stub_runs(stub, environment)
        except ServerError as error:
            return LIBPYTHON.problem(
                "absent" if "libpython" in reason_of(error) else "library",
                "the stub does not start",
                reason_of(error),
                at_most=_severity(subject),
                version=python_stub.PYTHON_VERSION,
            )
    beside = python_stub.find_libpython()
    return LIBPYTHON.ok(str(beside) if beside else f"{python_stub.LIBPYTHON} of the system")


def check_numpy(subject: Subject) -> Finding:
    """Check that the stubs accept the installed NumPy."""
    version = importlib.metadata.version("numpy")
    if subject.installation is None:
        return NUMPY.skipped(_NO_SERVER)
    if not needs_stub(subject.installation):
        return NUMPY.note(f"{version} here; {_OTHER_PYTHON}")
    if subject.has_private_python:
        return _check_private_numpy(subject, version)
    names = [model.path.name for model in subject.shared_python_models]
    try:
        python_stub.check_numpy(names or ["none in this repository"])
    except ServerError as error:
        return NUMPY.problem("numpy_2", version, reason_of(error), at_most=_severity(subject))
    return NUMPY.ok(version)


def _check_private_numpy(subject: Subject, version: str) -> Finding:
    """Check the NumPy of the environment that endcap makes."""
    with subject.model_packages() as folder:
        if folder is None:
            return NUMPY.note(f"{version} here; {_PRIVATE_PYTHON}")
        for found in importlib.metadata.distributions(name="numpy", path=[str(folder)]):
            return NUMPY.ok(f"{found.version} for Python models, {version} here")
    return NUMPY.skipped("the environment has none")


def _check_own_stub(server: ServerInstallation) -> Finding:
    backend = server.backends_dir / "python" if server.backends_dir else Path("/nowhere")
    if (backend / "triton_python_backend_stub").exists():
        return STUB.ok("the server's own, with the Python of the server")
    return STUB.note("none: this server has no Python backend")


def _severity(subject: Subject) -> Severity:
    """Return the severity of Python models not running here."""
    return Severity.ERROR if subject.shared_python_models else Severity.NOTE


def _newest_usable(stubs_dir: Path) -> str:
    """Return the newest Python with a stub that endcap and NumPy 1 support."""
    minors = [int(path.name.partition(".")[2]) for path in stubs_dir.glob("3.[0-9]*")]
    return f"3.{max(set(minors) & _USABLE_MINORS, default=max(_USABLE_MINORS))}"


def check_paths(subject: Subject) -> Finding:
    """Check the temporary folder and the names of models."""
    try:
        check_scratch(Path(tempfile.gettempdir(), "endcap"))
    except ServerError as error:
        return PATHS.problem("temporary", tempfile.gettempdir(), reason_of(error))
    try:
        check_model_names(subject.models)
    except ServerError as error:
        return PATHS.problem("model", "unusable", reason_of(error))
    return PATHS.ok("need no quotes")
