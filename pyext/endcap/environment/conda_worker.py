"""Chooses and installs conda packages, in a process of its own: see `conda_process`.

Its standard input is a JSON object. It writes JSON lines to standard output: the stages, the steps
of each, and at the end the names of what was asked for, or an error.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from endcap.environment.linking import link
from endcap.environment.numpy_limit import NumpyLimit
from endcap.environment.options import PackOptions
from endcap.environment.origins import without_secrets
from endcap.environment.solving import solve
from endcap.errors import EndcapError


def main() -> NoReturn:
    """Do what it is asked for, and end without Python's own end.

    The threads of py-rattler may still hold Python objects then, and would crash.
    """
    request = json.load(sys.stdin)
    options = PackOptions(**request["options"])
    try:
        _say({"stage": "Solving", "total": None})
        solution = solve(options, NumpyLimit(**request["limit"]))
        names = [spec.name.normalized for spec in solution.specs]
        link(solution, Path(request["prefix"]), _begin)
        _say({"names": names})
    except EndcapError as error:
        _say({"error": without_secrets(str(error)), "status": error.status})
    os._exit(0)


def _begin(name: str, total: int | None) -> Callable[[], None]:
    _say({"stage": name, "total": total})
    return lambda: _say({"step": 1})


def _say(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)
