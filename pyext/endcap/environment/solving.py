"""Chooses the conda packages of an environment."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from endcap._system.pip import in_one_line
from endcap.environment.channels import SUBDIR, resolve_channels
from endcap.environment.errors import ExecutionEnvironmentError, import_tool
from endcap.environment.numpy_limit import NumpyLimit
from endcap.environment.options import PackOptions
from endcap.errors import InvalidArgumentError


@dataclass(frozen=True)
class Solution:
    """The packages to install: records of py-rattler, and what was asked for."""

    records: list[Any]
    specs: list[Any]


def solve(options: PackOptions, limit: NumpyLimit) -> Solution:
    """Return the packages that fit together and hold Python, NumPy and what was asked for.

    They are for glibc and CUDA of this machine, or CONDA_OVERRIDE_GLIBC and CONDA_OVERRIDE_CUDA.
    Raises InvalidArgumentError for a specification or a channel that is none, and
    ExecutionEnvironmentError with the solver's reason, or when a channel does not answer.
    """
    rattler, errors = import_tool("rattler"), import_tool("rattler.exceptions")
    specs = [_spec(rattler, text) for text in _wanted(options)]
    channels = resolve_channels(options.channels, offline=options.offline)
    constraints = [f"numpy {limit.specifier}"] if limit.specifier else []
    try:
        return Solution(_solve(rattler, channels, specs, constraints), specs)
    except errors.GatewayError as error:
        raise ExecutionEnvironmentError(
            f"the channels {', '.join(options.channels)} cannot be read "
            f"({in_one_line(str(error))}); check their names and the network, or give a folder by "
            "--channel PATH"
        ) from error
    except errors.SolverError as error:
        if constraints:
            _raise_for_numpy(rattler, channels, specs, limit)
        raise ExecutionEnvironmentError(
            f"no set of packages of {', '.join(options.channels)} fits together: "
            f"{in_one_line(str(error))}; change --package or --python, or add a --channel"
        ) from error


def _wanted(options: PackOptions) -> list[str]:
    return [f"python {options.python}.*", "numpy", *options.packages]


def _spec(rattler: Any, text: str) -> Any:
    errors = import_tool("rattler.exceptions")
    try:
        return rattler.MatchSpec(text)
    except errors.InvalidMatchSpecError as error:
        raise InvalidArgumentError(
            f"--package '{text}' is no conda specification ({in_one_line(str(error))}); "
            "write it such as 'scipy >=1.10'"
        ) from error


def _raise_for_numpy(
    rattler: Any, channels: list[str], specs: list[Any], limit: NumpyLimit
) -> None:
    """Raise ExecutionEnvironmentError where it is the limit on NumPy that nothing fits."""
    errors = import_tool("rattler.exceptions")
    try:
        records = _solve(rattler, channels, specs, [])
    except errors.SolverError:
        return
    found = next(record for record in records if record.name.normalized == "numpy")
    raise ExecutionEnvironmentError(
        f"what was asked for needs NumPy {found.version}, and it must be numpy{limit.specifier}: "
        f"{limit.reason}; ask for packages that go with numpy{limit.specifier}"
    )


def _solve(
    rattler: Any, channels: Sequence[str], specs: Sequence[Any], constraints: Sequence[str]
) -> list[Any]:
    detected = rattler.VirtualPackage.detect(rattler.VirtualPackageOverrides.from_env())
    # The server's processor may lack what this machine's has.
    machine = [each for each in detected if each.into_generic().name.normalized != "__archspec"]
    solving = rattler.solve(
        channels, specs, platforms=[SUBDIR, "noarch"], virtual_packages=machine,
        constraints=constraints,
    )  # fmt: skip
    return list(asyncio.run(solving))
