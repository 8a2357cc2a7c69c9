"""The check that nothing else can replace: start the server, and ask it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from endcap.client import DetectionClient
from endcap.errors import EndcapError
from endcap.results.task import Task
from endcap.server import ServerPorts, ServerSettings, TritonServer
from endcap.tools.doctor.finding import Finding, Group, Problem, Severity, Topic
from endcap.tools.doctor.subject import Subject
from endcap.triton.model_folder import ModelFolder

_ENSEMBLE = "detect"
_IS_ENSEMBLE = re.compile(r'\bplatform\s*:\s*"ensemble"')

START = Topic(
    name="start",
    group=Group.START,
    title="real start",
    meaning="With `--start`: the server starts on the repository, on free ports, and the ensemble "
    "`detect`, or else the only ensemble that there is, answers a sample picture.",
    problems={
        "failed": Problem(
            when="The server does not get ready.",
            severity=Severity.ERROR,
            remedy="do what the errors above say; all that the server prints: "
            "`endcap serve {repository} --verbose`",
        ),
        "no_answer": Problem(
            when="The server is ready, but the picture is not answered.",
            severity=Severity.ERROR,
            remedy="all that the server prints: `endcap serve {repository} --verbose`, and in a "
            "second shell `endcap infer {sample} --model {model}`",
        ),
    },
)


def check_start(subject: Subject, find_sample: Callable[[], Path]) -> Finding:
    """Start the server on the repository and send it one JPEG."""
    if isinstance(subject.repository, EndcapError):
        return START.not_looked_at("there is no repository")
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
            return START.fine(f"{ready}; not asked: no model '{_ENSEMBLE}', and no only ensemble")
        return _ask(server, ensemble, repository, find_sample(), ready)
    finally:
        server.stop()


def _ensemble(models: Sequence[ModelFolder]) -> str | None:
    names = [model.path.name for model in models if _IS_ENSEMBLE.search(model.config)]
    return _ENSEMBLE if _ENSEMBLE in names else names[0] if len(names) == 1 else None


def _ask(
    server: TritonServer, ensemble: str, repository: Path, sample: Path, ready: str
) -> Finding:
    def no_answer(message: str) -> Finding:
        return START.problem(
            "no_answer", ready, message, repository=repository, sample=sample, model=ensemble
        )

    try:
        with DetectionClient(server.grpc_url, model=ensemble, concurrency=1) as client:
            (result,) = client.detect([sample])
    except EndcapError as error:
        return no_answer(str(error))
    if not result.ok:
        return no_answer(f"{sample.name} was answered {result.status}: {result.error}")
    kind = "classes" if result.task is Task.classification else "detections"
    detected = f"{len(result.found)} {kind} in {sample.name}"
    return START.fine(f"{ready}; {detected}, answered in {result.latency_ms:.0f} ms")
