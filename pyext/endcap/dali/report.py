"""Report of the installed DALI and operators, for `endcap dali info`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass

from endcap.dali.compiler import find_compiler, find_cuda_headers, version_of
from endcap.dali.installation import find_core, find_dali, find_sources
from endcap.dali.loading import load
from endcap.errors import EndcapError


@dataclass(frozen=True, kw_only=True)
class Part:
    """One thing that was looked at; `problem` is an error message, None where all is well."""

    name: str
    found: str
    problem: str | None = None


def look() -> tuple[Part, ...]:
    """Look at DALI, load the operators, and look for what building them takes."""
    return (
        _look("DALI", _dali),
        _look("operators", lambda: str(load())),
        _look("sources", lambda: str(find_sources())),
        _look("core", lambda: str(find_core())),
        _look("compiler", lambda: version_of(find_compiler())),
        _look("CUDA headers", lambda: str(find_cuda_headers()[0])),
    )


def main() -> None:
    """Print what `look` returns, as JSON in one line."""
    print(json.dumps([asdict(part) for part in look()]))


def _dali() -> str:
    dali = find_dali()
    return f"{dali.version} in {dali.folder}"


def _look(name: str, find: Callable[[], str]) -> Part:
    try:
        return Part(name=name, found=find())
    except EndcapError as error:
        return Part(name=name, found="none", problem=str(error))
