"""The Triton server: where it is, its libraries, and a real start."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from endcap.client import DetectionClient
from endcap.errors import EndcapError
from endcap.results import Task
from endcap.server import ServerPorts, ServerSettings, TritonServer
from endcap.server.locate import NoServerError, ServerInstallation
from endcap.server.private_server import why_no_private_server
from endcap.server.release import BULLETINS, read_release
from endcap.tools.doctor.finding import Finding, Group, Problem, Severity, Topic, reason_of
from endcap.tools.doctor.libraries import NO_LDD, find_ldd, missing_libraries
from endcap.tools.doctor.subject import Subject
from endcap.triton.errors import ServerError
from endcap.triton.model_folder import ModelFolder

HELP_TIMEOUT_S = 20.0  # for a program on a slow disk; it takes far less
SERVER = Topic(
    name="server",
    group=Group.SERVER,
    title="Triton server",
    meaning="The `tritonserver` that `endcap serve` would start: the one given with "
    "`--tritonserver` or ENDCAP_TRITONSERVER, on `PATH`, in NVIDIA's container, in an installed "
    "nvidia-pytriton, or endcap's own in its cache, in this order, with its release. `endcap "
    "serve` opens a release that is more than a year old, or unknown, to other machines only with "
    f"`--accept-old-server`; NVIDIA's security bulletins are at {BULLETINS}",
    problems={
        "not_installed": Problem(
            when="No server is found, and endcap's own is not installed yet.",
            severity=Severity.NOTE,
            remedy="`endcap serve` installs it at its first start",
        ),
        "absent": Problem(
            when="No server is found and the packaged one does not run here, the one given is "
            "not a server, or endcap's cache cannot be used.",
            severity=Severity.ERROR,
            remedy="name the server that you have with `--tritonserver PATH`, or follow the "
            "error message",
        ),
        "another": Problem(
            when="The program found is another than tritonserver, by its `--help`.",
            severity=Severity.ERROR,
            remedy="name the tritonserver file, or the folder that holds bin/tritonserver: "
            "`--tritonserver PATH`",
        ),
    },
)
LIBRARIES = Topic(
    name="server_libraries",
    group=Group.SERVER,
    title="server libraries",
    meaning="The loader finds every shared library that the server needs, in the environment that "
    "`endcap serve` gives it.",
    problems={
        "missing": Problem(
            when="A library is not found.",
            severity=Severity.ERROR,
            remedy="of the wheel: `pip install --force-reinstall --no-deps nvidia-pytriton`; of "
            "endcap's own: remove its folder, and `endcap serve` installs it again; of another "
            "server: install the library, or put its folder on LD_LIBRARY_PATH",
        ),
    },
)
_ENSEMBLE = "detect"
START = Topic(
    name="start",
    group=Group.START,
    title="real start",
    meaning="With `--start`: the server starts on the repository, on free ports, and the ensemble "
    "`detect`, or else the only ensemble that there is, responds to a sample picture.",
    problems={
        "failed": Problem(
            when="The server does not get ready.",
            severity=Severity.ERROR,
            remedy="do what the errors above say; all output of the server: "
            "`endcap serve {repository} --verbose`",
        ),
        "no_response": Problem(
            when="The server is ready, but there is no result for the picture.",
            severity=Severity.ERROR,
            remedy="all output of the server: `endcap serve {repository} --verbose`, and in a "
            "second shell `endcap infer {sample} --model {model}`",
        ),
    },
)


def check_server(subject: Subject) -> Finding:
    """Check the server's program."""
    if isinstance(subject.located, NoServerError):
        problem = why_no_private_server()
        if problem is not None:
            return SERVER.problem("absent", "none", problem)
        return SERVER.problem("not_installed", "none yet", reason_of(subject.located))
    if isinstance(subject.located, ServerError):
        return SERVER.problem("absent", "none", reason_of(subject.located))
    server = subject.located
    reason = _why_not_tritonserver(server)
    if reason is not None:
        message = f"{server.executable} is not tritonserver: {reason}"
        return SERVER.problem("another", str(server.executable), message)
    release = read_release(server)
    problem = release.find_age_problem()
    age = f"; {problem}, see {BULLETINS}" if problem else ""
    return SERVER.ok(f"{release} ({server.origin}: {server.executable}){age}")


def check_libraries(subject: Subject) -> Finding:
    """Check the server's shared libraries."""
    if subject.installation is None:
        return LIBRARIES.skipped("there is no server")
    if find_ldd() is None:
        return LIBRARIES.skipped(NO_LDD)
    try:
        with subject.environment() as environment:
            missing = missing_libraries(subject.installation.executable, environment)
    except ServerError as error:  # about Python-backend models, which have a check of their own
        return LIBRARIES.skipped(reason_of(error))
    if missing:
        return LIBRARIES.problem(
            "missing",
            "incomplete",
            f"{subject.installation.executable} needs {', '.join(missing)}, which the loader does "
            "not find",
        )
    return LIBRARIES.ok("all found")


def _why_not_tritonserver(server: ServerInstallation) -> str | None:
    """Return why a program is no tritonserver, None where it is or a library is missing."""
    folders = filter(None, [server.library_dir, os.environ.get("LD_LIBRARY_PATH")])
    environment = {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(map(str, folders))}
    with tempfile.TemporaryFile() as output:  # a pipe would also wait for what the program started
        try:
            process = subprocess.Popen(
                [str(server.executable), "--help"],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            return error.strerror
        try:
            process.wait(HELP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return f"it does not respond to --help within {HELP_TIMEOUT_S:g} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        text = output.read()
    if b"--model-repository" in text or b"while loading shared libraries" in text:
        return None
    return "its --help does not name --model-repository"


def check_start(subject: Subject, find_sample: Callable[[], Path]) -> Finding:
    """Start the server on the repository and send it one JPEG."""
    if isinstance(subject.repository, EndcapError):
        return START.skipped("there is no repository")
    repository, models = subject.repository
    settings = ServerSettings(
        tritonserver=subject.tritonserver, ports=ServerPorts(http=0, grpc=0, metrics=0)
    )
    server = TritonServer(repository, settings)
    begin = time.perf_counter()
    try:
        server.start()
    except EndcapError as error:
        return START.problem("failed", "not ready", str(error), repository=repository)
    try:
        ready = f"ready after {time.perf_counter() - begin:.1f} s"
        ensemble = _ensemble(models)
        if ensemble is None:
            return START.ok(
                f"{ready}; no request sent: no model '{_ENSEMBLE}', and no only ensemble"
            )
        return _send_sample(server, ensemble, repository, find_sample(), ready)
    finally:
        server.stop()


def _ensemble(models: Sequence[ModelFolder]) -> str | None:
    names = [model.path.name for model in models if model.steps]
    return _ENSEMBLE if _ENSEMBLE in names else names[0] if len(names) == 1 else None


def _send_sample(
    server: TritonServer, ensemble: str, repository: Path, sample: Path, ready: str
) -> Finding:
    def no_result(message: str) -> Finding:
        return START.problem(
            "no_response", ready, message, repository=repository, sample=sample, model=ensemble
        )

    try:
        with DetectionClient(server.grpc_url, model=ensemble, concurrency=1) as client:
            (result,) = client.detect([sample])
    except EndcapError as error:
        return no_result(str(error))
    if not result.ok:
        return no_result(f"{sample.name} failed with {result.status}: {result.error}")
    kind = {Task.classification: "classes", Task.tensors: "tensors"}.get(result.task, "detections")
    detected = f"{len(result.tensors or result.predictions)} {kind} in {sample.name}"
    return START.ok(f"{ready}; {detected}, in {result.latency_ms:.0f} ms")
