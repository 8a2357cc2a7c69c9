"""Conda packages of an environment, chosen and installed by py-rattler in a separate process.

An interrupt, or a crash of py-rattler, ends that process alone. It reads its request as JSON from
its standard input and writes its result as JSON to its standard output.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import unquote, urlsplit

from endcap._pip_commands import import_extra
from endcap._python_process import in_one_line, worker_command
from endcap.environment import ExecutionEnvironmentError
from endcap.errors import EndcapError, InvalidArgumentError

SUBDIR = "linux-64"

# The secrets of a channel's address: user:password@, and /t/TOKEN behind the host.
_USER = re.compile(r'(?<=://)[^/\s"]*@')
_TOKEN = re.compile(r'(://[^/\s"]*)/t/[^/\s"]+')


def install_conda_packages(
    requested: Sequence[str], constraints: Sequence[str], channels: Sequence[str], prefix: Path
) -> list[str]:
    """Fill the folder `prefix`; return the names of the requested packages.

    The packages are for glibc and CUDA of this machine, or CONDA_OVERRIDE_GLIBC and
    CONDA_OVERRIDE_CUDA.

    Args:
        requested: Conda specifications.
        constraints: Specifications that packages must fit where they are installed.
        channels: As `resolve_channels` returns them.
        prefix: The folder, which does not exist yet.

    Raises:
        ExecutionEnvironmentError: A specification is invalid, the packages do not fit together, a
            channel does not respond, or a package cannot be installed.
    """
    request = {
        "requested": requested, "constraints": constraints, "channels": channels,
        "prefix": str(prefix),
    }  # fmt: skip
    # Not as an argument: every user of the machine sees those, and a channel's password there.
    done = subprocess.run(
        worker_command("endcap.environment.conda"),
        input=json.dumps(request), capture_output=True, text=True, check=False,
    )  # fmt: skip
    result = json.loads((done.stdout.splitlines() or ["{}"])[-1])
    if "names" in result:
        return [str(name) for name in result["names"]]
    said = in_one_line(done.stderr[-1000:])
    crash = f"py-rattler ended with {done.returncode}: {said}; try again"
    raise ExecutionEnvironmentError(without_secrets(result.get("error", crash)))


def without_secrets(text: str) -> str:
    """Return a text whose addresses have neither user, password nor token."""
    return _TOKEN.sub(r"\1", _USER.sub("", text))


def main() -> NoReturn:
    """Install the packages of the request in the standard input, and exit at once.

    The interpreter does not shut down: the threads of py-rattler may still hold Python objects, and
    would crash.
    """
    try:
        result: dict[str, Any] = {"names": _install(**json.load(sys.stdin))}
    except EndcapError as error:
        result = {"error": str(error)}
    print(json.dumps(result), flush=True)
    os._exit(0)


def _install(
    requested: list[str], constraints: list[str], channels: list[str], prefix: str
) -> list[str]:
    rattler, errors = import_tool("rattler"), import_tool("rattler.exceptions")
    detected = rattler.VirtualPackage.detect(rattler.VirtualPackageOverrides.from_env())
    # The server's processor may lack what this machine's has.
    machine = [each for each in detected if each.into_generic().name.normalized != "__archspec"]
    try:
        specs = [rattler.MatchSpec(text) for text in requested]
        solving = rattler.solve(
            channels, specs, platforms=[SUBDIR, "noarch"], virtual_packages=machine,
            constraints=constraints,
        )  # fmt: skip
        asyncio.run(rattler.install(list(asyncio.run(solving)), prefix))
    except errors.InvalidMatchSpecError as error:
        problem, remedy = "one of --package is not a conda specification", "write 'scipy >=1.10'"
        cause: Exception = error
    except errors.GatewayError as error:
        problem = f"the channels {', '.join(channels)} cannot be read"
        remedy, cause = "check them and the network, or give a folder by --channel PATH", error
    except errors.SolverError as error:
        problem = f"no set of packages of {', '.join([*channels, *constraints])} fits together"
        remedy, cause = "change --package or --python, or add a --channel", error
    except (errors.InstallerError, errors.LinkError, errors.IoError) as error:
        problem = "the packages could not be installed"
        remedy, cause = "check the network and the space in the temporary folder", error
    else:
        return [spec.name.normalized for spec in specs]
    reason = in_one_line(str(cause))
    raise ExecutionEnvironmentError(f"{problem} ({reason}); {remedy}") from cause


def import_tool(module: str) -> Any:
    """Return a module of py-rattler or conda-pack; ExecutionEnvironmentError without it."""
    return import_extra(module, "env", "packing an environment", ExecutionEnvironmentError)


def resolve_channels(channels: Sequence[str]) -> list[str]:
    """Return the channels as py-rattler takes them; folders as absolute paths.

    A path is a folder when it exists or is written with a slash.

    Raises:
        InvalidArgumentError: A folder does not exist.
    """
    resolved = []
    for channel in channels:
        address = urlsplit(channel)
        folder = Path(unquote(address.path) if address.scheme == "file" else channel)
        is_path = address.scheme == "file" or channel.startswith((".", "/", "~"))
        if folder.is_dir():
            channel = str(folder.resolve())
        elif is_path:
            raise InvalidArgumentError(
                f"channel '{channel}' is not a folder; give one that is a channel"
            )
        resolved.append(channel)
    return resolved
