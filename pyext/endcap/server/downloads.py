"""Wheels from a package index or a folder, by the pip of the Python that runs endcap."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from endcap._system.pip import PipError, environment_for_pip, pip_command, pip_errors
from endcap.server.cache import full_disk
from endcap.triton.errors import ServerError

# A folder of wheels that is searched in place of every package index.
WHEELHOUSE_VARIABLE = "ENDCAP_WHEELHOUSE"

# Only the most verbose log tells that an index was not reached.
_OPTIONS = ("-vv", "--no-input", "--disable-pip-version-check", "--only-binary", ":all:")
_NO_NETWORK = re.compile(
    r"NewConnectionError|NameResolutionError|ConnectTimeout|ConnectionError|ProxyError|"
    r"connection (?:error|refused)|failed to (?:resolve|establish)|Max retries exceeded|timed out|"
    r"network is unreachable",
    re.IGNORECASE,
)
_NO_SPACE = re.compile(r"No space left on device|Disk quota exceeded")


def wheelhouse_of(given: Path | None) -> Path | None:
    """Return the folder of wheels to search: the given one, or what the environment names.

    Raises:
        ServerError: It is no folder.
    """
    named = os.environ.get(WHEELHOUSE_VARIABLE)
    folder = given or (Path(named) if named else None)
    if folder is not None and not folder.is_dir():
        raise ServerError(
            f"the wheelhouse {folder} is not a folder; `endcap server download {folder}` fills one "
            "on a machine with a network"
        )
    return folder


def run_pip(
    arguments: Sequence[str], *, what: str, wheelhouse: Path | None, temporary: Path
) -> None:
    """Run pip on wheels alone: no package is built.

    Args:
        arguments: The command and its own options.
        what: What is to be had, for messages.
        wheelhouse: A folder to search in place of package indexes.
        temporary: A folder for pip's own files.

    Raises:
        ServerError: pip is missing or fails; the message says why, and what to do.
    """
    sources = ["--no-index", "--find-links", str(wheelhouse.absolute())] if wheelhouse else []
    try:
        command = [*pip_command(), *arguments, *_OPTIONS, *sources]
        environment = {**environment_for_pip(), "TMPDIR": str(temporary.absolute())}
    except PipError as error:
        raise ServerError(f"{what} cannot be installed: {error}") from error
    # An interrupt ends pip, too: subprocess.run kills it.
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if finished.returncode:
        raise _failure(what, finished, wheelhouse)


def _failure(
    what: str, finished: subprocess.CompletedProcess[str], wheelhouse: Path | None
) -> ServerError:
    stderr = finished.stderr
    if _NO_SPACE.search(stderr):
        return full_disk()
    reason = pip_errors(stderr)
    if "DO NOT MATCH THE HASHES" in stderr:
        advice = (
            "the file is not the one that this version of endcap knows; look at the index or the "
            "wheelhouse that pip takes it from"
        )
    elif wheelhouse is not None:
        advice = (
            f"put what is missing into {wheelhouse}: `endcap server download DIR` fetches all of "
            "it on a machine with a network and the same Python"
        )
    elif "(from versions: none)" in stderr and _NO_NETWORK.search(finished.stdout + stderr):
        reason = "pip reaches no package index"
        advice = (
            "connect this machine to one, or fill a folder by `endcap server download DIR` on "
            f"another machine with the same Python, and name it with {WHEELHOUSE_VARIABLE}=DIR"
        )
    else:
        advice = (
            f"`pip config list` shows where pip looks; {WHEELHOUSE_VARIABLE}=DIR names a folder "
            "of wheels instead"
        )
    return ServerError(f"{what} cannot be installed ({reason}); {advice}")
