"""Paths for Triton's Python backend, which starts its stubs through a shell and quotes nothing.

A space in the path of a `model.py` keeps such a model from ever getting ready, and `$()` runs a
command. So the server is given a link to the repository, below a folder that needs no quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from endcap.triton.errors import ServerError
from endcap.triton.model_folder import ModelFolder

_NEEDS_NO_QUOTES = re.compile(r"[A-Za-z0-9_./+-]+")
# What a shell may run something for; a backslash in a configuration may stand for any of them.
_ORDERS = re.compile(r"[$`;|&<>()\\'\"\x00-\x1f\x7f]")
_FILE_NAME = re.compile(r"\bdefault_model_filename\b\s*:?\s*")
_STRING = re.compile(r"""(["'])([^"'\\]*)\1(?!\s*["'])""")


def check_scratch(scratch: Path) -> None:
    """Raise ServerError where a shell would take the path of the launch's own folder apart."""
    if not _NEEDS_NO_QUOTES.fullmatch(str(scratch)):
        raise ServerError(
            f"the temporary folder {scratch.parent} has a name that Triton's Python backend cannot "
            "pass on (letters, digits and ._+- are fine); set TMPDIR to another, such as /tmp"
        )


def check_model_names(models: Iterable[ModelFolder]) -> None:
    """Raise ServerError for a model whose own names cannot be passed on.

    These are its folder's, by which Triton knows it, so that a link does not help, and that of its
    default_model_filename. What would be a command to the shell is refused for every model: whether
    Triton takes one for a Python model is not known for certain from outside.
    """
    for model in models:
        in_python = model.backend == "python" or any(model.path.glob("[0-9]*/model.py"))
        if not _can_be_passed_on(model.path.name, in_python):
            raise ServerError(
                f"model '{model.path.name}' has a name that Triton's Python backend cannot pass "
                "on; rename its folder so that it has only letters, digits and ._+-"
            )
        for field in _FILE_NAME.finditer(model.config):
            literal = _STRING.match(model.config, field.end())
            if literal is None or not _can_be_passed_on(literal.group(2), in_python):
                raise ServerError(
                    f"model '{model.path.name}' has a default_model_filename that "
                    "Triton's Python backend cannot pass on; give a name in quotes that has "
                    "only letters, digits and ._+-"
                )


def _can_be_passed_on(name: str, in_python: bool) -> bool:
    if in_python:
        return _NEEDS_NO_QUOTES.fullmatch(name) is not None
    return _ORDERS.search(name) is None


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
