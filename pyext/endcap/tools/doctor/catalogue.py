"""All checks, in the order in which they are made and shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from endcap.tools.doctor import (
    cuda_library,
    dali,
    dali_models,
    gpu,
    machine,
    memory,
    model_configs,
    model_imports,
    model_stubs,
    onnxruntime_library,
    package,
    packages,
    python_models,
    python_paths,
    repository,
    server,
    start,
)
from endcap.tools.doctor.finding import Finding, Problem, Severity, Topic
from endcap.tools.doctor.subject import Subject

# What a check answers that has itself met something that nobody foresaw.
BROKEN = Problem(
    when="A check could not be made.",
    severity=Severity.ERROR,
    remedy="`endcap doctor --verbose` shows where; please report it",
)


@dataclass(frozen=True)
class Check:
    """A topic, and the function that looks."""

    topic: Topic
    look: Callable[[Subject], Finding]


CHECKS = (
    Check(package.INSTALLATION, package.check_installation),
    Check(packages.REQUIRED, packages.check_required),
    Check(package.CORE, package.check_core),
    Check(package.IMPLEMENTATIONS, package.check_implementations),
    Check(package.BACKENDS, package.check_backends),
    Check(server.SERVER, server.check_server),
    Check(server.ADVISORIES, server.check_advisories),
    Check(server.LIBRARIES, server.check_libraries),
    Check(repository.REPOSITORY, repository.check_repository),
    Check(repository.VERSIONS, repository.check_versions),
    Check(model_configs.CONFIGS, model_configs.check_configs),
    Check(repository.BACKENDS, repository.check_backends),
    Check(onnxruntime_library.LIBRARY, onnxruntime_library.check_library),
    Check(repository.STEPS, repository.check_steps),
    Check(python_paths.PATHS, python_paths.check_paths),
    Check(python_models.ENVIRONMENT, python_models.check_environment),
    Check(python_models.STUB, python_models.check_stub),
    Check(python_models.INTERPRETER, python_models.check_interpreter),
    Check(python_models.LIBPYTHON, python_models.check_libpython),
    Check(python_models.NUMPY, python_models.check_numpy),
    Check(model_imports.IMPORTS, model_imports.check_imports),
    Check(model_stubs.MODEL_STUBS, model_stubs.check_stubs),
    Check(dali_models.DALI_MODELS, dali_models.check_dali_models),
    Check(packages.SERVER, packages.check_server),
    Check(packages.ENV, packages.check_env),
    Check(memory.SHARED_MEMORY, memory.check_shared_memory),
    Check(memory.LEFTOVERS, memory.check_leftovers),
    Check(memory.MEMORY, memory.check_memory),
    Check(machine.CPU, machine.check_cpu),
    Check(machine.PORTS, machine.check_ports),
    Check(machine.OPEN_FILES, machine.check_open_files),
    Check(gpu.DRIVER, gpu.check_driver),
    Check(gpu.GPUS, gpu.check_gpus),
    Check(cuda_library.CUDA_LIBRARY, cuda_library.check_cuda_library),
    Check(gpu.NVJPEG, gpu.check_nvjpeg),
    Check(dali.DALI, dali.check_dali),
    Check(packages.CLIENT, packages.check_client),
    Check(packages.EVALUATE, packages.check_evaluate),
    Check(packages.INIT, packages.check_init),
)

TOPICS = (*(check.topic for check in CHECKS), start.START)


def examine(
    subject: Subject,
    checks: Iterable[Check] = CHECKS,
    *,
    on_broken: Callable[[], None] = lambda: None,
) -> Iterator[Finding]:
    """Make the checks one after the other and yield what each finds.

    Args:
        on_broken: Is called inside the handler of an exception that a check let through; such a
            check is a finding of severity ERROR, and the next ones go on.
    """
    for check in checks:
        try:
            finding = check.look(subject)
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
