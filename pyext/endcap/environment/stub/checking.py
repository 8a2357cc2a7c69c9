"""Whether a model's stub can work, seen without a server: the front's checks, and the archive."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from endcap._system.scratch import scratch_folder
from endcap.environment.stub.archive import unpack_looked_at
from endcap.environment.stub.errors import StubError
from endcap.environment.stub.front import STUB_NAME, is_front, report
from endcap.errors import InvalidArgumentError
from endcap.server.locate import ServerInstallation, locate_if_there
from endcap.server.plan import server_environment
from endcap.server.python_packages import find_packages
from endcap.triton.config_text import get_parameter
from endcap.triton.errors import ServerError
from endcap.triton.model_folder import ModelFolder, read_model_folder

_ENVIRONMENT = "EXECUTION_ENV_PATH"
_MODEL_FOLDER = "$$TRITON_MODEL_DIRECTORY"


@dataclass(frozen=True, kw_only=True)
class Check:
    """One thing that was looked at; `problem` is an error message, None where all is well."""

    name: str
    found: str
    problem: str | None = None


@dataclass(frozen=True, kw_only=True)
class StubReport:
    """What was found of a model's stub; `python` and `stub` are those that would run, or None."""

    model: str
    checks: tuple[Check, ...]
    python: str | None = None
    stub: str | None = None

    @property
    def problem(self) -> str | None:
        """The first problem, which is what the model's load would fail with."""
        return next((check.problem for check in self.checks if check.problem), None)


def check(model_dir: Path, *, tritonserver: Path | None = None) -> StubReport:
    """Make the checks of a model's stub in the environment that `endcap serve` would give it.

    The file in the model's folder is not run: this package's own front looks at the model.

    Args:
        tritonserver: As for `locate_server`. Without any server, this process's environment is
            taken.

    Raises:
        ServerError: `tritonserver` is no server.
    """
    model = read_model_folder(model_dir)
    server = locate_if_there(tritonserver)
    front = model_dir / STUB_NAME
    if not is_front(front):
        found = "another stub" if front.exists() else "none"
        problem = (
            f"{model_dir} carries no stub of endcap's; put it there with "
            f"`endcap stub install {model_dir}`"
        )
        return _report(model, Check(name="front", found=found, problem=problem))
    try:
        with _environment(model, server) as (environment, server_folder):
            answer = report(model_dir, server_folder, environment)
    except (StubError, ServerError, InvalidArgumentError) as error:
        return _report(model, Check(name="environment", found="unusable", problem=str(error)))
    return StubReport(
        model=model_dir.name,
        checks=tuple(Check(**each) for each in answer["checks"]),
        python=answer["python"],
        stub=answer["stub"],
    )


def execution_environment(model: ModelFolder) -> Path | None:
    """Return the archive or folder that a model's EXECUTION_ENV_PATH names, None without one.

    Raises:
        InvalidArgumentError: For a config whose brackets or strings do not close.
    """
    given = get_parameter(model.config, _ENVIRONMENT)
    if given is None:
        return None
    return Path(given.replace(_MODEL_FOLDER, str(model.path.absolute())))


def _report(model: ModelFolder, *checks: Check) -> StubReport:
    return StubReport(model=model.path.name, checks=checks)


@contextmanager
def _environment(
    model: ModelFolder, server: ServerInstallation | None
) -> Iterator[tuple[Mapping[str, str], Path | None]]:
    """Yield the variables that the stub would see, and the server's folder of its backend."""
    with scratch_folder("stub-check") as scratch:
        variables = dict(os.environ)
        server_folder = None
        if server is not None:
            packages = find_packages() if server.is_private else None
            variables = server_environment(server, scratch, packages)
            if server.backends_dir is not None:
                server_folder = server.backends_dir / "python"
        packed = execution_environment(model)
        if packed is not None:
            prefix = packed if packed.is_dir() else scratch / "environment"
            if not packed.is_dir():
                unpack_looked_at(packed, prefix)
            _activate(prefix, variables)
        yield variables, server_folder


def _activate(prefix: Path, variables: dict[str, str]) -> None:
    """Do to the variables what Triton's start of a stub does."""
    if not (prefix / "bin" / "activate").is_file():
        raise StubError(
            "the environment of EXECUTION_ENV_PATH has no bin/activate, without which Triton does "
            "not start it; pack it with `endcap env pack`"
        )
    variables["PATH"] = f"{prefix / 'bin'}:{variables.get('PATH', '')}"
    variables["LD_LIBRARY_PATH"] = f"{prefix / 'lib'}:{variables.get('LD_LIBRARY_PATH', '')}"
