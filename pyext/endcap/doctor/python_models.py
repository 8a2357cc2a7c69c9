"""The Python of Python-backend models: stub, libpython and NumPy."""

from __future__ import annotations

import importlib.metadata
import sys
import tempfile
from pathlib import Path

from endcap.doctor.finding import Problem, Severity, Skipped
from endcap.doctor.subject import Subject
from endcap.errors import ServerError
from endcap.server import python_stub
from endcap.server.backends import needs_stub
from endcap.server.locate import ServerInstallation
from endcap.server.models import why_no_python
from endcap.server.plan import server_environment


def check_stub(subject: Subject) -> str:
    """Check that there is a stub for the Python that Python models run in.

    The Python backend starts a stub for each model instance, which is compiled for one version
    of Python. The server has one for the Python that Python models run in.
    """
    server = _server_with_stubs(subject)
    reason = why_no_python(server)
    if reason is not None:
        raise Problem("none", reason, _severity(subject))
    found = f"for Python {python_stub.PYTHON_VERSION}"
    if not server.is_private:
        return f"{found}, with the packages of {sys.prefix}"
    if subject.packages is None:
        found = f"{found}, whose packages are installed with the first Python model"
        raise Problem(found, severity=Severity.NOTE)
    return f"{found}, with the packages in {subject.packages}"


def check_libpython(subject: Subject) -> str:
    """Check that the stub starts.

    The stub starts: it finds `libpython3.X.so.1.0`, which many distributions put in a separate
    package.
    """
    server = _server_with_stubs(subject)
    assert server.stubs_dir is not None  # needs_stub said so
    if not python_stub.has_stub(server.stubs_dir):
        raise Skipped("there is no stub")
    try:
        with tempfile.TemporaryDirectory(prefix="endcap-doctor-") as scratch:
            environment = server_environment(server, Path(scratch), subject.packages)
            python_stub.check_stub_runs(python_stub.find_stub(server.stubs_dir), environment)
    except ServerError as error:
        raise Problem("the stub does not start", str(error), _severity(subject)) from error
    found = python_stub.find_libpython()
    return str(found or f"{python_stub.LIBPYTHON} of the system")


def check_numpy(subject: Subject) -> str:
    """Check that the stubs accept the NumPy of Python models.

    The stubs of the packaged server are older than NumPy 2. With it a Python model returns empty
    tensors, and nothing reports an error.
    """
    version = importlib.metadata.version("numpy")
    if not _server_with_stubs(subject).is_private:
        names = [model.path.name for model in subject.shared_python_models]
        try:
            python_stub.check_numpy(names or ["none in this repository"])
        except ServerError as error:
            raise Problem(version, str(error), _severity(subject)) from error
        return version
    if subject.packages is None:
        raise Skipped("the packages of Python models are not installed yet")
    for found in importlib.metadata.distributions(name="numpy", path=[str(subject.packages)]):
        return f"{found.version} for Python models, {version} here"
    raise Skipped(f"{subject.packages} has none")


def _server_with_stubs(subject: Subject) -> ServerInstallation:
    """Return the server; raise Skipped where Python models do not run in a Python from here."""
    if subject.installation is None:
        raise Skipped("there is no server")
    if not needs_stub(subject.installation):
        raise Skipped("the server runs Python models in its own Python")
    return subject.installation


def _severity(subject: Subject) -> Severity:
    """Return the severity of Python models not running here."""
    return Severity.ERROR if subject.shared_python_models else Severity.NOTE
