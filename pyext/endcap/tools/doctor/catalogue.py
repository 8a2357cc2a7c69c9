"""All checks, in the order in which they are made and shown."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from endcap.tools.doctor import (
    gpu,
    installation,
    machine,
    python_environment,
    python_models,
    repository,
    server,
)
from endcap.tools.doctor.finding import Finding, Problem, Severity, Topic
from endcap.tools.doctor.subject import Subject

# The finding of a check that raised an unexpected exception.
BROKEN = Problem(
    when="A check could not be made.",
    severity=Severity.ERROR,
    remedy="`endcap doctor --verbose` shows where; please report it",
)


@dataclass(frozen=True)
class Check:
    """A topic, and the function that makes the check."""

    topic: Topic
    run: Callable[[Subject], Finding]


def _packages(extra: str) -> Check:
    topic = installation.PACKAGES[extra]
    return Check(topic, functools.partial(installation.check_packages, topic, extra))


CHECKS = (
    Check(installation.INSTALLATION, installation.check_installation),
    _packages(""),
    Check(installation.CORE, installation.check_core),
    Check(installation.IMPLEMENTATIONS, installation.check_implementations),
    Check(installation.BACKENDS, installation.check_backends),
    Check(server.SERVER, server.check_server),
    Check(server.LIBRARIES, server.check_libraries),
    Check(repository.REPOSITORY, repository.check_repository),
    Check(repository.VERSIONS, repository.check_versions),
    Check(repository.CONFIGS, repository.check_configs),
    Check(repository.BACKENDS, repository.check_backends),
    Check(repository.ONNXRUNTIME, repository.check_onnxruntime),
    Check(repository.STEPS, repository.check_steps),
    Check(python_environment.PATHS, python_environment.check_paths),
    Check(python_environment.ENVIRONMENT, python_environment.check_environment),
    Check(python_environment.STUB, python_environment.check_stub),
    Check(python_environment.INTERPRETER, python_environment.check_interpreter),
    Check(python_environment.LIBPYTHON, python_environment.check_libpython),
    Check(python_environment.NUMPY, python_environment.check_numpy),
    Check(python_models.IMPORTS, python_models.check_imports),
    Check(python_models.MODEL_STUBS, python_models.check_stubs),
    Check(python_models.DALI_MODELS, python_models.check_dali_models),
    _packages("server"),
    _packages("env"),
    Check(machine.SHARED_MEMORY, machine.check_shared_memory),
    Check(machine.MEMORY, machine.check_memory),
    Check(machine.CPU, machine.check_cpu),
    Check(machine.PORTS, machine.check_ports),
    Check(machine.OPEN_FILES, machine.check_open_files),
    Check(gpu.DRIVER, gpu.check_driver),
    Check(gpu.GPUS, gpu.check_gpus),
    Check(gpu.CUDA_LIBRARY, gpu.check_cuda_library),
    Check(gpu.NVJPEG, gpu.check_nvjpeg),
    Check(gpu.DALI, gpu.check_dali),
    _packages("client"),
    _packages("evaluate"),
    _packages("init"),
)

TOPICS = (*(check.topic for check in CHECKS), server.START)


def run_checks(
    subject: Subject,
    checks: Iterable[Check] = CHECKS,
    *,
    on_broken: Callable[[], None] = lambda: None,
) -> Iterator[Finding]:
    """Make the checks one after the other and yield their findings.

    Args:
        subject: The machine to check.
        checks: The checks to make.
        on_broken: Is called inside the handler of an unexpected exception; the check becomes a
            finding of severity ERROR, and the next ones go on.
    """
    for check in checks:
        try:
            finding = check.run(subject)
        except Exception as error:
            on_broken()
            finding = Finding(
                name=check.topic.name,
                group=check.topic.group,
                title=check.topic.title,
                severity=BROKEN.severity,
                found="unknown",
                problem=f"the check '{check.topic.name}' itself failed: "
                f"{type(error).__name__}: {error}",
                remedy=BROKEN.remedy,
            )
        yield finding
