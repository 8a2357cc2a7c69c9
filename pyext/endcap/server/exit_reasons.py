"""Why a server ended or does not get ready: its signal, its log, and the limits of its process."""

from __future__ import annotations

import os
import re
import resource
import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from endcap.server.log import failure_reasons

_MIB = 2**20
_TERMINATED = re.compile(r"terminate called after throwing an instance of '([^']+)'")
_WHAT = re.compile(r"\s*what\(\):\s*(.*)")
_LIBRARY_ERROR = re.compile(r"\[err\] (?:\S*/)?(.+)")  # of libevent, which HTTP goes through
_EXHAUSTED = re.compile(
    r"Too many open files|Cannot allocate memory|Resource temporarily unavailable|bad_alloc"
)

_NO_ONNX_RUNTIME = re.compile("unable to find backend library for backend 'onnxruntime'")
_OUR_ONNX_BACKEND = (
    'endcap\'s backend serves the same folder: write backend: "endcap_onnx" for "onnxruntime" in '
    "config.pbtxt, or give a server that has that backend with --tritonserver"
)

# Faults of servers that requests bring about; docs/troubleshooting.md has them.
REQUEST_CAUSES = {
    signal.SIGSEGV: "known causes, in release 24.10, are gRPC requests that clients gave up (short "
    "deadlines, clients that end), and an HTTP request whose JSON nests some 200,000 brackets",
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


def exit_reasons(code: int | None, lines: Iterable[str], *, served: bool) -> list[str]:
    """Return why a server failed, the most telling reasons only.

    Args:
        code: Its exit code, minus the signal that ended it; None while it runs.
        lines: What it has printed.
        served: Whether it was ready, and requests may have ended it.

    Returns:
        What the log tells; for a signal its known causes; and the limits that are lower than usual,
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
