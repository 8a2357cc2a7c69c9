"""Reasons why a server ended or does not get ready: its log, its signal, limits of its process."""

from __future__ import annotations

import os
import re
import resource
import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from endcap._pip_commands import install_command
from endcap.server.private_server import PACKAGES_VARIABLE

# Lines of the server's log
_RECORD = re.compile(r'E\d{4} \S+ \d+ \S+\] "?(.*?)"?$')
_PROTOBUF = re.compile(r"\[libprotobuf ERROR [^\]]*\] (.*)$")
_LOAD_FAILED = re.compile(r"failed to load (?:model )?'([^']+)'(?: version \d+)?: (.*)", re.DOTALL)
_SIGNAL = re.compile(r"Signal \(\d+\) received")
_PYTHON_PLACE = re.compile(r"\n+At:\n\s*([^\n]+).*", re.DOTALL)
_REFUSAL = re.compile(r"endcap stub: model '([^']+)': (.*)")
# The stub of the release raises the message under this name, with the place where it did.
_REPORTED = re.compile(r"^(?:\w+: )?EndcapStub: (.*?)(?: \(at \S+ <module>\))?$")
_ARCHIVE = re.compile(r"^(?:\w+: )?(archive_\w+\(\) failed.*)$")
_MEANING_OF_ARCHIVE = (
    "the archive of EXECUTION_ENV_PATH is broken off or no gzip-compressed tar ({said}); "
    "`endcap stub check` of the model's folder says where"
)

_MIB = 2**20
_TERMINATED = re.compile(r"terminate called after throwing an instance of '([^']+)'")
_WHAT = re.compile(r"\s*what\(\):\s*(.*)")
_LIBRARY_ERROR = re.compile(r"\[err\] (?:\S*/)?(.+)")  # of libevent, which HTTP goes through
_EXHAUSTED = re.compile(
    r"Too many open files|Cannot allocate memory|Resource temporarily unavailable|bad_alloc"
)

# Packages that have another name than their module.
PACKAGE_OF_MODULE = {
    "PIL": "pillow",
    "cv2": "opencv-python-headless",
    "nvidia": "nvidia-dali-cuda130",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}
_NO_MODULE = re.compile(r"No module named '(\w+)|DALI is not installed")
_NO_ONNX_LIBRARY = re.compile(r"libonnxruntime\.so\S*: cannot open shared object file")

_NO_ONNX_RUNTIME = re.compile("unable to find backend library for backend 'onnxruntime'")
_OUR_ONNX_BACKEND = (
    'endcap\'s backend serves the same folder: write backend: "endcap_onnx" for "onnxruntime" in '
    "config.pbtxt, or give a server that has that backend with --tritonserver (`tritonserver=` in "
    "Python)"
)

# Faults of servers that requests bring about; docs/troubleshooting.md has them.
REQUEST_CAUSES = {
    signal.SIGSEGV: "known causes, in release 24.10, are gRPC requests that clients gave up (short "
    "deadlines, clients that end), gRPC streams to ordinary models beside a decoupled one, and an "
    "HTTP request whose JSON nests some 200,000 brackets",
    signal.SIGFPE: "a known cause, in releases before July 2025, is a request with class_count "
    "(Triton's classification extension) for a BYTES output, such as class_labels",
    signal.SIGABRT: "release 24.10 has been seen to abort where a Python model's process was "
    "stopped for about 8 seconds",
}
_MACHINE_CAUSES = {
    signal.SIGKILL: "the kernel kills so where the machine or the container is out of memory; "
    "`dmesg` shows it",
    signal.SIGBUS: "a known cause is a full /dev/shm; in Docker give --shm-size=1g",
}
# Triton's core reads BYTES inputs in place before a backend sees them: no copy in ours prevents it.
_CLIENT_MEMORY_CAUSES = {
    signal.SIGBUS: "known causes are a client that shortens a shared-memory file while it is "
    "registered, which --client-shared-memory makes possible, and a full /dev/shm (in Docker give "
    "--shm-size=1g)",
}


@dataclass(frozen=True)
class _Limit:
    """A limit of processes: enough is what no server needs more of, None for any finite value."""

    name: str
    meaning: str  # with {value} in it
    remedy: str
    enough: int | None = None
    unit: int = 1


_LIMITS = (
    _Limit("RLIMIT_NOFILE", "{value} open files", "ulimit -n 65536", 1024),
    _Limit("RLIMIT_AS", "{value} MiB of address space", "ulimit -v unlimited", unit=_MIB),
    _Limit("RLIMIT_DATA", "{value} MiB of data", "ulimit -d unlimited", unit=_MIB),
    _Limit("RLIMIT_STACK", "a stack of {value} KiB", "ulimit -s 8192", 8 * _MIB, unit=1024),
    _Limit("RLIMIT_FSIZE", "files of {value} bytes", "ulimit -f unlimited"),
    _Limit("RLIMIT_CPU", "{value} seconds of CPU time", "ulimit -t unlimited"),
    _Limit("RLIMIT_NPROC", "{value} processes and threads", "ulimit -u 4096", 1024),
)


def describe_exit(code: int) -> str:
    """Return "exit code 1" or "signal SIGSEGV" for a process's exit code."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"


def exit_reasons(
    code: int | None, lines: Iterable[str], *, served: bool, client_shared_memory: bool = False
) -> list[str]:
    """Return why a server failed, the most telling reasons only.

    Args:
        code: Its exit code, minus the signal that ended it; None while it runs.
        lines: What it has printed.
        served: Whether it was ready, and requests may have ended it.
        client_shared_memory: Whether clients may register shared memory.

    Returns:
        Those in the log; for a signal its known causes; and the limits that are lower than usual,
        where nothing else explains the failure.
    """
    lines = list(lines)
    reasons = failure_reasons(lines)
    if any(_NO_ONNX_RUNTIME.search(reason) for reason in reasons):
        reasons.append(_OUR_ONNX_BACKEND)
    if code == -signal.SIGABRT:
        reasons += _exceptions(lines)
    if not reasons:
        reasons = _library_errors(lines)
    explained = bool(reasons) and not any(map(_EXHAUSTED.search, [*reasons, *lines[-50:]]))
    if code is not None and code < 0:
        explained = False
        causes = _MACHINE_CAUSES | (REQUEST_CAUSES if served else {})
        if served and client_shared_memory:
            causes |= _CLIENT_MEMORY_CAUSES
        reasons = [each for each in reasons if not each.startswith("Signal (")]  # said already
        reasons += [text for number, text in causes.items() if number == -code]
    return reasons if explained else [*reasons, *low_limits()]


def low_limits() -> list[str]:
    """Return a message for each limit of this process, and so of the server's, that is low."""
    return [
        f"{limit.name} allows only {limit.meaning.format(value=value // limit.unit)}: "
        f"`{limit.remedy}` raises it"
        for limit, value in _low()
    ]


def _low() -> Iterator[tuple[_Limit, int]]:
    for limit in _LIMITS:
        value, _ = resource.getrlimit(getattr(resource, limit.name))
        if value == resource.RLIM_INFINITY or (limit.enough and value >= limit.enough):
            continue
        if limit.name == "RLIMIT_NPROC" and os.geteuid() == 0:  # it does not hold for root
            continue
        yield limit, value


def _exceptions(lines: list[str]) -> list[str]:
    """Return what C++ prints of the exceptions that ended a process, each once."""
    found: list[str] = []
    for i, line in enumerate(lines):
        thrown = _TERMINATED.search(line)
        if thrown:
            # Lines of other threads may come between.
            said = [match[1] for each in lines[i : i + 5] if (match := _WHAT.match(each))]
            found.append(": ".join([thrown[1], *said[:1]]))
    return list(dict.fromkeys(found))


def _library_errors(lines: list[str]) -> list[str]:
    return list(dict.fromkeys(match[1] for line in lines if (match := _LIBRARY_ERROR.match(line))))


def refusals(lines: Iterable[str]) -> dict[str, str]:
    """Return the message of each model whose stub refused to start, by the server's log."""
    found: dict[str, str] = {}
    for line in lines:
        match = _REFUSAL.match(line)
        if match:
            found[match.group(1)] = match.group(2)
    return found


def explained(reason: str) -> str:
    """Return Triton's reason for a failed load, in words where it has none of its own."""
    reported = _REPORTED.match(reason)
    if reported:
        return reported.group(1)
    archive = _ARCHIVE.match(reason)
    if archive:
        return _MEANING_OF_ARCHIVE.format(said=archive.group(1))
    if _NO_ONNX_LIBRARY.search(reason):
        return f"ONNX Runtime is not installed; run `{install_command('server')}` ({reason})"
    module = _NO_MODULE.search(reason)
    if module:
        name = module[1] or "nvidia"
        package = PACKAGE_OF_MODULE.get(name, name)
        return (
            f"{reason}; for endcap's own server `export {PACKAGES_VARIABLE}={package}` before "
            "`endcap serve`, for another one install it in that server's Python"
        )
    return reason


def failure_reasons(lines: Iterable[str]) -> list[str]:
    """Return the reasons for a failure that `lines` hold, of the best kind only.

    These are, best first: models that failed to load, that their stub refused, and configurations
    that could not be read; ensembles whose parts are missing; the server's closing error; and a
    signal that it caught.
    """
    lines = list(lines)
    refused = refusals(lines)
    loads: list[str] = []
    polls: list[str] = []
    ensembles: list[str] = []
    closing: list[str] = []
    parse_error = ""
    signals: list[str] = []
    for line in lines:
        protobuf = _PROTOBUF.match(line)
        if protobuf:
            parse_error = protobuf.group(1)
            continue
        if line.startswith("error: "):
            closing.append(line.removeprefix("error: "))
        elif _SIGNAL.match(line):
            signals.append(line.strip())
        record = _RECORD.match(line)
        message = record.group(1).replace("\\n", "\n") if record else ""
        failed = _LOAD_FAILED.match(message)
        if failed:
            if failed.group(1) not in refused:  # its stub says it better
                loads.append(f"model '{failed.group(1)}': {explained(_one_line(failed.group(2)))}")
        elif message.startswith("Poll failed"):
            polls.append(_one_line(f"{message} {parse_error}"))
            parse_error = ""
        elif message.startswith("failed to start"):
            closing.append(_one_line(message))
        elif message.startswith(("Invalid argument: ensemble", "Invalid argument: in ensemble")):
            ensembles.append(_one_line(message))
    loads += [f"model '{name}': {message}" for name, message in refused.items()]
    return loads + polls or ensembles or closing or signals


def _one_line(message: str) -> str:
    """Join the lines of a message; of a Python traceback it keeps the innermost place."""
    message = _PYTHON_PLACE.sub(r" (at \1)", message)
    return " ".join(message.split())
