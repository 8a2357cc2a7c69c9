"""Runs `conda_worker`, so that an interrupt, or a crash of py-rattler, ends that process alone."""

from __future__ import annotations

import json
import subprocess
import tempfile
from dataclasses import asdict
from pathlib import Path

from endcap._system.pip import in_one_line
from endcap._system.stages import Stages
from endcap._system.worker_command import worker_command
from endcap.environment.errors import ExecutionEnvironmentError
from endcap.environment.numpy_limit import NumpyLimit
from endcap.environment.options import PackOptions
from endcap.environment.origins import without_secrets
from endcap.errors import InvalidArgumentError, Status


def install_conda_packages(
    options: PackOptions, limit: NumpyLimit, prefix: Path, stages: Stages
) -> list[str]:
    """Fill the folder `prefix`; return the names of the packages that were asked for.

    Raises what `solve` and `link` raise.
    """
    request = {"options": asdict(options), "limit": asdict(limit), "prefix": str(prefix)}
    with tempfile.TemporaryFile("w+") as asked, tempfile.TemporaryFile("w+") as complaints:
        # Not as an argument: every user of the machine sees those, and a channel's password there.
        json.dump(request, asked, default=str)
        asked.seek(0)
        with subprocess.Popen(
            worker_command("endcap.environment.conda_worker"),
            stdin=asked, stdout=subprocess.PIPE, stderr=complaints, text=True,
        ) as process:  # fmt: skip
            try:
                names = _follow(process, stages)
            except BaseException:
                process.kill()
                raise
        if names is None:
            complaints.seek(0)
            raise _crash(process.returncode, complaints.read())
    return names


def _crash(code: int, complaints: str) -> ExecutionEnvironmentError:
    reason = in_one_line(without_secrets(complaints)[-1000:])
    return ExecutionEnvironmentError(
        f"py-rattler ended with {code}: {reason}; "
        "run it again, with another version of py-rattler if that does not help"
    )


def _follow(process: subprocess.Popen[str], stages: Stages) -> list[str] | None:
    """Return what the process answers, None when it ends without an answer."""
    assert process.stdout is not None  # it is a pipe
    step = stages("Solving", None)
    for line in process.stdout:
        said = json.loads(line)
        if "stage" in said:
            step = stages(said["stage"], said["total"])
        elif "step" in said:
            step()
        elif "names" in said:
            return [str(name) for name in said["names"]]
        elif said["status"] == Status.INVALID_ARGUMENT:
            raise InvalidArgumentError(said["error"])
        else:
            raise ExecutionEnvironmentError(said["error"])
    return None
