"""The Triton server: where it is, and whether it runs."""

from __future__ import annotations

import os
import re
import subprocess

from endcap.doctor.finding import Problem, Severity, drop_advice
from endcap.doctor.subject import Subject
from endcap.errors import ServerError
from endcap.server.locate import NoServerError, ServerInstallation
from endcap.server.private_server import why_no_private_server
from endcap.server.release import BULLETINS, read_release

_HELP_WITHIN_S = 20.0  # for a program on a slow disk; it takes far less
_MISSING = re.compile(r"while loading shared libraries: ([^:]+)")


def check_server(subject: Subject) -> str:
    """Check the server's program.

    The `tritonserver` that `endcap serve` would start, with its release. It runs, and finds its
    shared libraries.
    """
    if isinstance(subject.located, NoServerError):
        reason = why_no_private_server()
        if reason is None:
            reason = (
                f"{drop_advice(subject.located)}; `endcap serve` installs it at its first start"
            )
            raise Problem("none yet", reason, Severity.NOTE)
        raise Problem("none", f"{reason}; name the server that you have by `--tritonserver PATH`")
    if isinstance(subject.located, ServerError):
        raise subject.located
    server = subject.located
    _check_program(server)
    release = read_release(server)
    problem = release.find_age_problem()
    age = f"; {problem}, see {BULLETINS}" if problem else ""
    return f"{release} ({server.origin}: {server.executable}){age}"


def _check_program(server: ServerInstallation) -> None:
    """Run it with --help: raise Problem where it lacks a library, or is another program."""
    folders = filter(None, [server.library_dir, os.environ.get("LD_LIBRARY_PATH")])
    environment = {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(map(str, folders))}
    try:
        done = subprocess.run(
            [str(server.executable), "--help"],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_HELP_WITHIN_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = getattr(error, "strerror", None) or f"no response in {_HELP_WITHIN_S:g} s"
    else:
        printed = done.stdout + done.stderr
        if missing := _MISSING.search(printed):
            raise Problem(
                str(server.executable),
                f"{server.executable} needs {missing[1]}, which the loader does not find; install "
                "that library, or the server again: `pip install --force-reinstall --no-deps "
                "nvidia-pytriton` for that of the wheel, without its folder `endcap serve` for "
                "endcap's own",
            )
        if "--model-repository" in printed:
            return
        reason = "its --help does not name --model-repository"
    raise Problem(
        str(server.executable),
        f"{server.executable} is not tritonserver: {reason}; name the tritonserver file, or the "
        "folder that holds bin/tritonserver: `--tritonserver PATH`",
    )
