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

__all__ = ["CHECKS", "START", "Check", "Finding", "Severity", "Subject", "run_checks"]

CHECKS = (
    Check(
        "endcap",
        "endcap",
        "installation",
        "The version, where it is installed, the Python that runs it, the vector instructions that "
        "it uses, and the compiled backends.",
        system.check_installation,
    ),
    Check(
        "server",
        "server",
        "Triton server",
        "The `tritonserver` that `endcap serve` would start, with its release. It runs, and finds "
        "its shared libraries.",
        server.check_server,
    ),
    Check(
        "repository",
        "repository",
        "models",
        "The folder of models, `--repository` or else the one that comes with endcap, has no error "
        "that `endcap validate` finds.",
        repository.check_repository,
    ),
    Check(
        "model_backends",
        "repository",
        "model backends",
        "The server has the backend that each model names. The server of the wheel has endcap's "
        "backends and `python`, and no other.",
        repository.check_backends,
    ),
    Check(
        "onnxruntime",
        "repository",
        "ONNX Runtime",
        "The library that models of the backend `endcap_onnx` run on: that of ENDCAP_ONNXRUNTIME, "
        "of the Python package `onnxruntime`, or of the server's own backend.",
        repository.check_onnxruntime,
    ),
    Check(
        "python_stub",
        "Python models",
        "Python stub",
        "The Python backend starts a stub for each model instance, which is compiled for one "
        "version of Python. The server has one for the Python that Python models run in.",
        python_models.check_stub,
    ),
    Check(
        "libpython",
        "Python models",
        "libpython",
        "The stub starts: it finds `libpython3.X.so.1.0`, which many distributions put in a "
        "separate package.",
        python_models.check_libpython,
    ),
    Check(
        "numpy",
        "Python models",
        "NumPy",
        "The stubs of the wheel's server are older than NumPy 2. With it a Python model returns "
        "empty tensors, and nothing reports an error.",
        python_models.check_numpy,
    ),
    Check(
        "shared_memory",
        "system",
        "shared memory",
        "The Python backend hands tensors to its stubs through files in /dev/shm. There should be "
        "room for the fixed-size tensors of the Python models at their largest batch, and at least "
        "256 MiB; without room requests fail.",
        system.check_shared_memory,
    ),
    Check(
        "cuda",
        "GPU",
        "CUDA",
        "The NVIDIA driver (580 or later), its GPUs, and endcap's code for them. Without a GPU "
        "everything runs on the CPU.",
        gpu.check_cuda,
    ),
    Check(
        "nvjpeg",
        "GPU",
        "nvJPEG",
        "NVIDIA's library for the JPEG engine of data center GPUs, which only `decode: fast` uses.",
        gpu.check_nvjpeg,
    ),
    Check(
        "dali",
        "GPU",
        "DALI",
        "NVIDIA's library of data pipelines, for models such as `preprocess_dali`: it can be "
        "imported, and endcap's operators for it are built and can be loaded.",
        gpu.check_dali,
    ),
)
START = Check(
    "start",
    "start",
    "real start",
    "With `--start`: the server starts on the repository, on free ports, and the ensemble "
    "`detect`, or else the only ensemble that there is, responds to a sample picture.",
    server.check_start,
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
            yield Finding.of_check(check, Severity.OK, check.run(subject))
        except Problem as problem:
            yield Finding.of_check(check, problem.severity, problem.found, problem.message)
        except EndcapError as error:
            yield Finding.of_check(check, Severity.ERROR, "unusable", str(error))
        except Exception as error:
            on_broken()
            message = (
                f"the check '{check.name}' itself failed: {type(error).__name__}: {error}; `endcap "
                "doctor --verbose` shows where, please report it"
            )
            yield Finding.of_check(check, Severity.ERROR, "unknown", message)
