"""The Triton server: where it is, whether it runs, and a real start."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import time
from collections.abc import Sequence

from endcap.client import DetectionClient
from endcap.doctor.finding import Problem, Severity, Skipped, reason_of
from endcap.doctor.subject import Subject
from endcap.errors import EndcapError
from endcap.results import Task
from endcap.server import ServerPorts, ServerSettings, TritonServer
from endcap.server.locate import NoServerError, ServerInstallation
from endcap.server.private_server import why_no_private_server
from endcap.server.release import BULLETINS, read_release
from endcap.triton.errors import ServerError
from endcap.triton.model_folder import ModelFolder

_HELP_WITHIN_S = 20.0  # for a program on a slow disk; it takes far less
_MISSING = re.compile(r"while loading shared libraries: ([^:]+)")
_ENSEMBLE = "detect"


def check_server(subject: Subject) -> str:
    """Check the server's program.

    The `tritonserver` that `endcap serve` would start, with its release. It runs, and finds its
    shared libraries.
    """
    if isinstance(subject.located, NoServerError):
        reason = why_no_private_server()
        if reason is None:
            reason = f"{reason_of(subject.located)}; `endcap serve` installs it at its first start"
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


def check_start(subject: Subject) -> str:
    """Start the server on the repository and send it one JPEG.

    With `--start`: the server starts on the repository, on free ports, and the ensemble
    `detect`, or else the only ensemble that there is, responds to a sample picture.
    """
    if isinstance(subject.repository, EndcapError):
        raise Skipped("there is no repository")
    repository, models = subject.repository
    free = ServerPorts(http=0, grpc=0, metrics=0)
    server = TritonServer(repository, ServerSettings(tritonserver=subject.tritonserver, ports=free))
    command = shlex.join(["endcap", "serve", str(repository), "--verbose"])
    serve = f"all output of the server: `{command}`"
    begin = time.perf_counter()
    try:
        server.start()
    except EndcapError as error:
        raise Problem("not ready", f"{error}; {serve}") from error
    try:
        ready = f"ready after {time.perf_counter() - begin:.1f} s"
        ensemble = _ensemble(models)
        if ensemble is None:
            return f"{ready}; no request sent: no model '{_ENSEMBLE}', and no only ensemble"
        try:
            return f"{ready}; {_send_sample(server, ensemble, subject)}"
        except EndcapError as error:
            raise Problem(ready, f"{ensemble} does not respond: {error}; {serve}") from error
    finally:
        server.stop()


def _ensemble(models: Sequence[ModelFolder]) -> str | None:
    names = [model.path.name for model in models if model.steps]
    return _ENSEMBLE if _ENSEMBLE in names else names[0] if len(names) == 1 else None


def _send_sample(server: TritonServer, ensemble: str, subject: Subject) -> str:
    sample = subject.find_sample()
    with DetectionClient(server.grpc_url, model=ensemble, concurrency=1) as client:
        (result,) = client.detect([sample])
    if not result.ok:
        raise ServerError(f"{sample.name} failed with {result.status}: {result.error}")
    kind = {Task.classification: "classes", Task.tensors: "tensors"}.get(result.task, "detections")
    count = len(result.tensors or result.predictions)
    return f"{count} {kind} in {sample.name}, in {result.latency_ms:.0f} ms"
