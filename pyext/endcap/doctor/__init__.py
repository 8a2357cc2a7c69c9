"""The checks of `endcap doctor`: one table of them, and one module for each group.

A check takes the `Subject`, the machine as `endcap serve` sees it, and returns what it found. A
problem is raised: as `Problem`, or as the error that `endcap serve` would end with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from endcap.doctor import gpu, python_models, repository, server, system
from endcap.doctor.finding import Check, Finding, Problem, Severity
from endcap.doctor.subject import Subject
from endcap.errors import EndcapError

__all__ = ["CHECKS", "Check", "Finding", "Severity", "Subject", "run_checks"]

CHECKS = (
    Check("endcap", "endcap", "installation", system.check_installation),
    Check("server", "server", "Triton server", server.check_server),
    Check("repository", "repository", "models", repository.check_repository),
    Check("model_backends", "repository", "model backends", repository.check_backends),
    Check("onnxruntime", "repository", "ONNX Runtime", repository.check_onnxruntime),
    Check("python_stub", "Python models", "Python stub", python_models.check_stub),
    Check("libpython", "Python models", "libpython", python_models.check_libpython),
    Check("numpy", "Python models", "NumPy", python_models.check_numpy),
    Check("shared_memory", "system", "shared memory", system.check_shared_memory),
    Check("cuda", "GPU", "CUDA", gpu.check_cuda),
    Check("nvjpeg", "GPU", "nvJPEG", gpu.check_nvjpeg),
    Check("dali", "GPU", "DALI", gpu.check_dali),
)


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
            yield Finding(check, Severity.OK, check.run(subject))
        except Problem as problem:
            yield Finding(check, problem.severity, problem.found, problem.message)
        except EndcapError as error:
            yield Finding(check, Severity.ERROR, "unusable", str(error))
        except Exception as error:
            on_broken()
            message = (
                f"the check '{check.name}' itself failed: {type(error).__name__}: {error}; `endcap "
                "doctor --verbose` shows where, please report it"
            )
            yield Finding(check, Severity.ERROR, "unknown", message)
