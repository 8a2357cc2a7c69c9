"""Conda packages of an environment, chosen and installed by py-rattler in a process of its own.

An interrupt, or a crash of py-rattler, ends that process alone. It reads a JSON object from its
standard input and writes JSON lines to its standard output: the stages, and at
the end the names of the requested packages, or an error.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import unquote, urlsplit

from endcap._python_process import in_one_line, worker_command
from endcap.environment.errors import ExecutionEnvironmentError, import_tool
from endcap.environment.options import NumpyLimit, PackOptions
from endcap.errors import EndcapError, InvalidArgumentError, Status

SUBDIR = "linux-64"

# The secrets of a channel's address: user:password@, and /t/TOKEN behind the host.
_USER = re.compile(r'(?<=://)[^/\s"]*@')
_TOKEN = re.compile(r'(://[^/\s"]*)/t/[^/\s"]+')


def install_conda_packages(
    options: PackOptions, limit: NumpyLimit, prefix: Path, progress: Callable[[str], None]
) -> list[str]:
    """Fill the folder `prefix`; return the names of the requested packages.

    The packages are for glibc and CUDA of this machine, or CONDA_OVERRIDE_GLIBC and
    CONDA_OVERRIDE_CUDA.

    Raises:
        InvalidArgumentError: A specification or a channel is invalid.
        ExecutionEnvironmentError: The packages do not fit together, a channel does not respond, or
            a package cannot be installed.
    """
    request = {"options": asdict(options), "limit": asdict(limit), "prefix": str(prefix)}
    with tempfile.TemporaryFile("w+") as stdin, tempfile.TemporaryFile("w+") as stderr:
        # Not as an argument: every user of the machine sees those, and a channel's password there.
        json.dump(request, stdin, default=str)
        stdin.seek(0)
        with subprocess.Popen(
            worker_command("endcap.environment.conda"),
            stdin=stdin, stdout=subprocess.PIPE, stderr=stderr, text=True,
        ) as process:  # fmt: skip
            try:
                names = _follow(process, progress)
            except BaseException:
                process.kill()
                raise
        if names is None:
            stderr.seek(0)
            raise _crash_error(process.returncode, stderr.read())
    return names


def _crash_error(code: int, stderr: str) -> ExecutionEnvironmentError:
    reason = in_one_line(without_secrets(stderr)[-1000:])
    return ExecutionEnvironmentError(
        f"py-rattler ended with {code}: {reason}; "
        "run it again, with another version of py-rattler if that does not help"
    )


def _follow(process: subprocess.Popen[str], progress: Callable[[str], None]) -> list[str] | None:
    """Return the names that the process reports, None when it ends without a result."""
    assert process.stdout is not None  # it is a pipe
    progress("solving")
    for line in process.stdout:
        message = json.loads(line)
        if "stage" in message:
            progress(message["stage"])
        elif "names" in message:
            return [str(name) for name in message["names"]]
        elif message["status"] == Status.INVALID_ARGUMENT:
            raise InvalidArgumentError(message["error"])
        else:
            raise ExecutionEnvironmentError(message["error"])
    return None


def without_secrets(text: str) -> str:
    """Return a text whose addresses have neither user, password nor token."""
    return _TOKEN.sub(r"\1", _USER.sub("", text))


def main() -> NoReturn:
    """Install the packages of the request in the standard input, and exit at once.

    The interpreter does not shut down: the threads of py-rattler may still hold Python objects, and
    would crash.
    """
    request = json.load(sys.stdin)
    options = PackOptions(**request["options"])
    try:
        records, names = _choose(options, NumpyLimit(**request["limit"]))
        _install(records, Path(request["prefix"]))
        _print_message({"names": names})
    except EndcapError as error:
        _print_message({"error": without_secrets(str(error)), "status": error.status})
    os._exit(0)


def _print_message(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)


def _choose(options: PackOptions, limit: NumpyLimit) -> tuple[list[Any], list[str]]:
    """Return py-rattler's records of compatible packages, and the names of the requested ones."""
    rattler, errors = import_tool("rattler"), import_tool("rattler.exceptions")
    requested = [f"python {options.python}.*", "numpy", *options.packages]
    specs = [_spec(rattler, text) for text in requested]
    channels = resolve_channels(options.channels, offline=options.offline)
    constraints = [f"numpy {limit.specifier}"] if limit.specifier else []
    try:
        records = _solve(rattler, channels, specs, constraints)
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
    return records, [spec.name.normalized for spec in specs]


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
    """Raise ExecutionEnvironmentError where packages fit together without the limit on NumPy."""
    errors = import_tool("rattler.exceptions")
    try:
        records = _solve(rattler, channels, specs, [])
    except errors.SolverError:
        return
    numpy = next(record for record in records if record.name.normalized == "numpy")
    raise ExecutionEnvironmentError(
        f"the requested packages need NumPy {numpy.version}, and it must be "
        f"numpy{limit.specifier}: {limit.reason}; request packages that go with "
        f"numpy{limit.specifier}"
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


def _install(records: list[Any], prefix: Path) -> None:
    """Download what py-rattler's cache lacks and fill the folder `prefix`."""
    rattler, errors = import_tool("rattler"), import_tool("rattler.exceptions")
    _print_message({"stage": f"installing {len(records)} packages"})
    try:
        asyncio.run(rattler.install(records, prefix))
    except (errors.InstallerError, errors.LinkError, errors.IoError) as error:
        raise ExecutionEnvironmentError(
            f"the packages could not be installed: {in_one_line(str(error))}; "
            "check the network and the space in the temporary folder, and run it again"
        ) from error


def resolve_channels(channels: Sequence[str], *, offline: bool) -> list[str]:
    """Return the channels as py-rattler takes them; folders as absolute paths.

    A path is a folder when it exists or is written with a slash.

    Raises:
        InvalidArgumentError: A folder is no channel or, offline, a channel is no folder.
    """
    if not channels:
        raise InvalidArgumentError("there is no channel to take packages from; give --channel")
    return [_resolve(channel, offline=offline) for channel in channels]


def _resolve(channel: str, *, offline: bool) -> str:
    folder = _channel_folder(channel)
    if folder is not None:
        _check_folder(folder)
        return str(folder.resolve())
    if offline:
        raise InvalidArgumentError(
            f"channel '{channel}' is no folder, and --offline reads folders only; "
            "give a folder by --channel PATH, or leave --offline out"
        )
    return channel


def _channel_folder(channel: str) -> Path | None:
    """Return the folder of a channel, None for a name or an address."""
    address = urlsplit(channel)
    if address.scheme == "file":
        return Path(unquote(address.path))
    if address.scheme:
        return None
    path = Path(channel)
    return path if path.is_dir() or channel.startswith((".", "/", "~")) else None


def _check_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise InvalidArgumentError(
            f"channel {folder} does not exist; give a folder that is a channel"
        )
    if not any((folder / part / "repodata.json").is_file() for part in ("noarch", SUBDIR)):
        raise InvalidArgumentError(
            f"folder {folder} is no channel (it has neither noarch/repodata.json nor "
            f"{SUBDIR}/repodata.json); `conda index` makes them, or `rattler-index fs`"
        )
