"""Models of a repository that a server is given.

They are chosen by name, or are those that can run here. The server sees them through links, below
a folder whose path needs no quotes: Triton's Python backend starts its stubs through a shell and
quotes nothing, so that a space in the path of a `model.py` keeps the model from getting ready, and
`$()` runs a command.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from endcap._pip_commands import install_command
from endcap.errors import ServerError
from endcap.server.backends import find_operators, needs_stub
from endcap.server.locate import ServerInstallation
from endcap.server.private_server import check_python
from endcap.server.python_stub import find_stub
from endcap.triton.model_config import CONFIG_NAME, read_model_config, set_parameter, write_config
from endcap.triton.model_folder import ModelFolder, read_repository

TRITON_DEFAULT_POOL_MB = 64
_BATCHES_IN_FLIGHT = 2  # one batch is being filled while the step after it reads another

_NEEDS_NO_QUOTES = re.compile(r"[A-Za-z0-9_./+-]+")


def choose_models(models: Iterable[ModelFolder], names: Iterable[str]) -> list[ModelFolder]:
    """Return the named models and the steps of those that are ensembles, by name.

    A step that the repository does not have is left to the server, whose message names the
    ensemble.

    Raises:
        ServerError: The repository has no model of that name.
    """
    known = {model.path.name: model for model in models}
    waiting = list(names)
    for name in waiting:
        if name not in known:
            raise ServerError(
                f"the repository has no model '{name}'; its models are {', '.join(sorted(known))}"
            )
    chosen: dict[str, ModelFolder] = {}
    while waiting:
        name = waiting.pop()
        if name in known and name not in chosen:
            chosen[name] = known[name]
            waiting += known[name].steps
    return [chosen[name] for name in sorted(chosen)]


def leave_out(
    models: Sequence[ModelFolder], installation: ServerInstallation
) -> tuple[list[ModelFolder], str]:
    """Return the models that can be served, and which are left out and why; "" without any.

    Left out are models whose config says `optional`, and the ensembles that call one: Python models
    where none can run, models with a DALI pipeline where DALI cannot be used, and models that read
    videos where there is no PyAV.
    """
    absent: set[str] = set()
    reasons: list[str] = []
    optional = [model for model in models if model.is_optional]
    without_python = functools.partial(why_no_python, installation)
    for needing, why_not in (
        ([model for model in optional if model.uses_server_python], without_python),
        ([m for m in optional if not m.runs_python or b"dali" in m.source], _why_no_dali),
        ([model for model in optional if model.reads_videos], _why_no_pyav),
    ):
        names = {model.path.name for model in needing} - absent
        reason = why_not() if names else None
        if reason is not None:
            absent |= names
            reasons.append(reason)
    while callers := {m.path.name for m in models if absent & {*m.steps}} - absent:
        absent |= callers
    kept = [model for model in models if model.path.name not in absent]
    are = "is" if len(absent) == 1 else "are"
    message = f"{', '.join(sorted(absent))} {are} left out: {'; '.join(reasons)}"
    return kept, message if absent else ""


def why_no_python(installation: ServerInstallation) -> str | None:
    """Return why no Python model can run in the running Python, None where one can.

    This is known from the versions alone: a server without a stub for the running Python, or with
    stubs that need a NumPy which this Python does not have.
    """
    if not needs_stub(installation) or installation.stubs_dir is None:
        return None
    try:
        if installation.is_private:
            check_python()
        find_stub(installation.stubs_dir)
    except ServerError as error:
        return str(error)
    return None


def _why_no_dali() -> str | None:
    """Return why Python models cannot load endcap's DALI operators, None if they can."""
    try:
        find_operators()
    except ServerError as error:
        return str(error)
    return None


def _why_no_pyav() -> str | None:
    """Return why Python models cannot read videos, None if they can."""
    if importlib.util.find_spec("av") is not None:
        return None
    return f"PyAV is not installed; run `{install_command('video')}`"


def check_scratch(scratch: Path) -> None:
    """Raise ServerError where a shell would take the path of the launch's own folder apart."""
    if not _NEEDS_NO_QUOTES.fullmatch(str(scratch)):
        raise ServerError(
            f"the temporary folder {scratch.parent} has a name that Triton's Python backend cannot "
            "pass on (letters, digits and ._+- are fine); set TMPDIR to another, such as /tmp"
        )


def check_model_names(models: Iterable[ModelFolder]) -> None:
    """Raise ServerError for a Python model whose name the shell would take apart.

    Triton knows a model by its folder's name, so that a link does not help.
    """
    for model in models:
        if model.runs_python and not _NEEDS_NO_QUOTES.fullmatch(model.path.name):
            raise ServerError(
                f"model '{model.path.name}' has a name that Triton's Python backend cannot pass "
                "on; rename it, so that it has only letters, digits and ._+-"
            )


def link_models(models: Iterable[ModelFolder], repository: Path) -> None:
    """Make a folder `repository` of links to these models."""
    repository.mkdir()
    for model in models:
        link = repository / model.path.name
        link.symlink_to(model.path.resolve(), target_is_directory=True)


def pool_megabytes(models: list[ModelFolder]) -> int:
    """Return the size of the CUDA pool that keeps an ensemble's tensors on the GPU, in MiB.

    Counts every fixed-size tensor of every model at its largest batch, for two batches in flight,
    and is never below Triton's own default.
    """
    total_bytes = _BATCHES_IN_FLIGHT * sum(model.tensor_bytes for model in models)
    return max(TRITON_DEFAULT_POOL_MB, -(-total_bytes // 2**20))


@contextlib.contextmanager
def repository_with(
    repository: Path, *, backend: str, parameters: Mapping[str, str]
) -> Iterator[Path]:
    """Yield a repository like `repository`, `parameters` set in every model of `backend`.

    It lies in a temporary folder and consists of symbolic links, but for the edited config.pbtxt;
    the original is not written to. It is gone after the block.

    Raises:
        ServerError: `repository` or a config.pbtxt that has to be edited cannot be read, or no
            model runs in `backend`.
    """
    models = read_repository(repository)
    if not any(model.backend == backend for model in models):
        named = ", ".join(f"{m.path.name} ({m.backend or 'none named'})" for m in models)
        raise ServerError(
            f"no model of repository {repository} runs in backend {backend}, so that none takes "
            f"{', '.join(parameters)}; its models and their backends are {named}"
        )
    with tempfile.TemporaryDirectory(prefix="endcap-repository-") as folder:
        for model in models:
            copy = Path(folder, model.path.name)
            if model.backend != backend:
                copy.symlink_to(model.path.resolve(), target_is_directory=True)
                continue
            copy.mkdir()
            for entry in model.path.iterdir():
                if entry.name != CONFIG_NAME:
                    (copy / entry.name).symlink_to(entry.resolve())
            read_model_config(model.path)  # raises for one that Triton cannot read
            text = model.text
            for name, value in parameters.items():
                text = set_parameter(text, name, value)
            write_config(copy / CONFIG_NAME, text)
        yield Path(folder)
