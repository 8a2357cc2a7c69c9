"""Models of a repository that a server is given.

They are chosen by name, or are those that can run here. The server sees them through links, below
a folder whose path needs no quotes: Triton's Python backend starts its stubs through a shell and
quotes nothing, so that a space in the path of a `model.py` keeps the model from getting ready, and
`$()` runs a command.
"""

from __future__ import annotations

import contextlib
import importlib.util
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from endcap._pip_commands import install_command
from endcap.errors import InvalidArgumentError
from endcap.server.backends import find_operators, needs_stub
from endcap.server.locate import ServerInstallation
from endcap.server.private_server import PACKAGES_VARIABLE, check_python, more_packages
from endcap.server.python_stub import find_stub
from endcap.triton.config_edits import get_parameter
from endcap.triton.errors import ServerError
from endcap.triton.model_config import CONFIG_NAME, protobuf_modules, read_model_config
from endcap.triton.model_folder import ModelFolder, read_repository
from endcap.triton.parameters import EXECUTION_ENVIRONMENT, MODEL_DIRECTORY

TRITON_DEFAULT_POOL_MB = 64
_BATCHES_IN_FLIGHT = 2  # one batch is being filled while the step after it reads another

_NEEDS_NO_QUOTES = re.compile(r"[A-Za-z0-9_./+-]+")
# What a shell may run something for; a backslash in a configuration may stand for any of them. The
# surrogates are bytes that are not UTF-8, which no configuration and no request can name.
_COMMANDS = re.compile(r"[$`;|&<>()\\'\"\x00-\x1f\x7f\ud800-\udfff]")


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


@dataclass(frozen=True)
class LeftOut:
    """Models that are not served, and the reason."""

    models: tuple[str, ...]
    reason: str

    def __str__(self) -> str:
        are = "is" if len(self.models) == 1 else "are"
        return f"{', '.join(self.models)} {are} left out: {self.reason}"


def leave_out(
    models: Sequence[ModelFolder], installation: ServerInstallation
) -> tuple[list[ModelFolder], LeftOut | None]:
    """Return the models that can be served, and what is left out of them, if anything.

    Left out are models whose config says `optional`, and the ensembles that call one: Python models
    where none can run, models with a DALI pipeline where DALI cannot be used, and models that read
    videos where there is no PyAV.
    """
    absent: set[str] = set()
    reasons: list[str] = []
    optional = [model for model in models if model.is_optional]
    for needing, why_not in (
        ([model for model in optional if model.uses_server_python], why_no_python),
        ([model for model in optional if model.may_need_dali], why_no_dali),
        ([model for model in optional if model.reads_videos], why_no_pyav),
    ):
        names = {model.path.name for model in needing} - absent
        reason = why_not(installation) if names else None
        if reason is not None:
            absent |= names
            reasons.append(reason)
    if not absent:
        return [*models], None
    absent = _with_callers(absent, models)
    kept = [model for model in models if model.path.name not in absent]
    return kept, LeftOut(tuple(sorted(absent)), "; ".join(reasons))


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


def why_no_dali(installation: ServerInstallation) -> str | None:
    """Return why a server's Python models cannot load endcap's DALI operators, None if they can."""
    reason = why_no_private_dali(installation)
    if reason is not None:
        return reason
    try:
        find_operators()
    except ServerError as error:
        return str(error)
    return None


def why_no_private_dali(installation: ServerInstallation) -> str | None:
    """Return why the environment of Python models on endcap's own server has no DALI.

    None is returned where it has, and for other servers.
    """
    if not installation.is_private or any("dali" in each for each in more_packages()):
        return None
    return (
        "Python models of endcap's own server have no DALI; install it for them with "
        f"`export {PACKAGES_VARIABLE}=nvidia-dali-cuda130`"
    )


def why_no_pyav(installation: ServerInstallation) -> str | None:
    """Return why a server's Python models cannot read videos, None if they can."""
    if not installation.is_private:
        if importlib.util.find_spec("av") is not None:
            return None
        return f"PyAV is not installed; run `{install_command('video')}`"
    if any(re.match(r"av\b", each) for each in more_packages()):
        return None
    return (
        "Python models of endcap's own server have no PyAV; install it for them with "
        f"`export {PACKAGES_VARIABLE}=av`"
    )


def _with_callers(absent: set[str], models: Iterable[ModelFolder]) -> set[str]:
    callers = {m.path.name for m in models if absent & {*m.steps}} - absent
    return _with_callers(absent | callers, models) if callers else absent


def check_scratch(scratch: Path) -> None:
    """Raise ServerError where a shell would take the path of the launch's own folder apart."""
    if not _NEEDS_NO_QUOTES.fullmatch(str(scratch)):
        raise ServerError(
            f"the temporary folder {scratch.parent} has a name that Triton's Python backend cannot "
            "pass on (letters, digits and ._+- are fine); set TMPDIR to another, such as /tmp"
        )


def check_model_names(models: Iterable[ModelFolder]) -> None:
    """Raise ServerError for a model whose own names cannot be passed on.

    These are its folder's, by which Triton knows it, so that a link does not help, those of its
    default_model_filename and its EXECUTION_ENV_PATH. What would be a command to the shell is
    refused for every model: whether Triton takes one for a Python model is not known for certain
    from outside.
    """
    for model in models:
        in_python = model.backend == "python" or any(model.path.glob("[0-9]*/model.py"))
        if not _can_be_passed_on(model.path.name, in_python):
            raise ServerError(
                f"model '{model.path.name}' has a name that Triton's Python backend cannot pass "
                "on; rename its folder so that it has only letters, digits and ._+-"
            )
        # Of an archive the shell gets the folder that it is unpacked to, so that spaces do no harm.
        if _COMMANDS.search(_environment_path(model).replace(MODEL_DIRECTORY, "")):
            raise ServerError(
                f"model '{model.path.name}' has an EXECUTION_ENV_PATH that Triton's Python backend "
                "cannot pass on; give the environment a name that has only letters, digits and ._+-"
            )
        for name in model.config.values("default_model_filename"):
            if not _can_be_passed_on(name, in_python):
                raise ServerError(
                    f"model '{model.path.name}' has a default_model_filename that "
                    "Triton's Python backend cannot pass on; give a name in quotes that has "
                    "only letters, digits and ._+-"
                )


def _environment_path(model: ModelFolder) -> str:
    """Return the model's EXECUTION_ENV_PATH, "" without one."""
    try:
        return get_parameter(model.text, EXECUTION_ENVIRONMENT) or ""
    except InvalidArgumentError:
        return ""  # the server does not load a configuration whose brackets do not close


def _can_be_passed_on(name: str, in_python: bool) -> bool:
    if in_python:
        return _NEEDS_NO_QUOTES.fullmatch(name) is not None
    return _COMMANDS.search(name) is None


def link_repository(repository: Path, scratch: Path) -> Path:
    """Make a link to the repository in `scratch`, and return it."""
    link = scratch / "repository"
    link.symlink_to(repository.resolve(), target_is_directory=True)
    return link


def link_models(models: Iterable[ModelFolder], scratch: Path) -> Path:
    """Make a repository of links to these models in `scratch`, and return it."""
    repository = scratch / "repository"
    repository.mkdir()
    for model in models:
        link = repository / model.path.name
        link.symlink_to(model.path.resolve(), target_is_directory=True)
    return repository


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
        ServerError: `repository` is none, no model of it runs in `backend`, or a config.pbtxt that
            has to be edited cannot be read.
    """
    models = read_repository(repository)
    if not any(model.backend == backend for model in models):
        named = ", ".join(
            f"{model.path.name} ({model.backend or 'none named'})" for model in models
        )
        raise ServerError(
            f"no model of repository {repository} runs in backend {backend}, so that none takes "
            f"{', '.join(parameters)}; its models and their backends are {named}"
        )
    with tempfile.TemporaryDirectory(prefix="endcap-repository-") as folder:
        copy = Path(folder)
        for model in models:
            if model.backend == backend:
                _copy_with(model.path, copy / model.path.name, parameters)
            else:
                _link(model.path, copy / model.path.name)
        yield copy


def _copy_with(model: Path, target: Path, parameters: Mapping[str, str]) -> None:
    config = read_model_config(model)
    for name, value in parameters.items():
        config.parameters[name].string_value = value  # makes the entry where there is none
    _link_entries(model, target)
    text_format, _ = protobuf_modules()
    text = text_format.MessageToString(config, as_utf8=True)
    (target / CONFIG_NAME).write_text(text, encoding="utf-8")


def _link_entries(model: Path, target: Path) -> None:
    """Make a folder of links to all in a model's folder but its config.pbtxt."""
    target.mkdir()
    for entry in model.iterdir():
        if entry.name != CONFIG_NAME:
            _link(entry, target / entry.name)


def _link(source: Path, link: Path) -> None:
    link.symlink_to(source.resolve(), target_is_directory=source.is_dir())
