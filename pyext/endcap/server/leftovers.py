"""Removal of what a killed launcher could not clean up.

A launch's scratch folder has a marker that its process locks for as long as it lives: one without
a lock is abandoned, unless processes of its server still run. With the folder go the server's
regions in /dev/shm and the stubs of Python-backend models that outlived the server; their names
and arguments hold the folder's random token.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

from endcap._system.scratch import abandoned_scratch, remove_scratch, sweep_scratch

# Of scratch folders: a launch's, that of a copy of a repository, and pip's while it downloads.
LAUNCH_PURPOSE = "server"
REPOSITORY_PURPOSE = "repository"
DOWNLOAD_PURPOSE = "download"
SHARED_MEMORY = Path("/dev/shm")

_STUB = "triton_python_backend_stub"
_PROC = Path("/proc")


def shared_memory_prefix(scratch: Path) -> str:
    """Return how the names of a launch's regions in /dev/shm begin."""
    return f"endcap-{scratch.name}-"


def sweep() -> list[Path]:
    """Remove the scratch folders of launches that nobody holds, and return them.

    One whose server still ends is left alone. Copies of repositories and downloads that nobody
    holds go as well.
    """
    swept = [*sweep_scratch(REPOSITORY_PURPOSE), *sweep_scratch(DOWNLOAD_PURPOSE)]
    for scratch, stubs in abandoned():
        prefix = shared_memory_prefix(scratch)
        for pid in stubs:
            _kill_stub(pid, prefix)
        remove_shared_memory(prefix)
        with contextlib.suppress(OSError):  # written to meanwhile: it stays for the next sweep
            remove_scratch(scratch)
            swept.append(scratch)
    return swept


def abandoned() -> Iterator[tuple[Path, list[int]]]:
    """Yield the scratch folders of launches that nobody holds, locked while each is looked at.

    With each come the process ids of the stubs that outlived its server.
    """
    for scratch in abandoned_scratch(LAUNCH_PURPOSE):
        stubs, others = _processes_with(shared_memory_prefix(scratch))
        if not others:
            yield scratch, stubs


def shared_memory_regions(prefix: str) -> list[Path]:
    """Return this user's regions in /dev/shm whose names a launch has given them."""
    if not SHARED_MEMORY.is_dir():
        return []
    pattern = re.compile(rf"{re.escape(prefix)}[A-Za-z0-9_-]+")
    named = [SHARED_MEMORY / name for name in os.listdir(SHARED_MEMORY) if pattern.fullmatch(name)]
    return sorted(region for region in named if _is_own_file(region))


def remove_shared_memory(prefix: str) -> None:
    """Remove the regions that Python-backend models of a killed server left behind."""
    for region in shared_memory_regions(prefix):
        region.unlink(missing_ok=True)


def _is_own_file(path: Path) -> bool:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()


def _processes_with(prefix: str) -> tuple[list[int], list[int]]:
    """Return the stubs, and the other processes, of this user that `prefix` stands in."""
    stubs: list[int] = []
    others: list[int] = []
    for pid, arguments in _own_processes():
        if _is_stub(arguments, prefix):
            stubs.append(pid)
        elif any(prefix in argument for argument in arguments):
            others.append(pid)
    return stubs, others


def _is_stub(arguments: list[str], prefix: str) -> bool:
    """Whether these are the arguments of a stub whose region bears the prefix."""
    return Path(arguments[0]).name == _STUB and any(
        argument.startswith(prefix) for argument in arguments[1:]
    )


def _kill_stub(pid: int, prefix: str) -> None:
    """Kill a process if it still is a stub of this launch."""
    with contextlib.ExitStack() as opened:
        descriptor = _open_process(pid)
        if descriptor is not None:
            opened.callback(os.close, descriptor)
        arguments = _arguments(pid)  # of the process that the descriptor refers to, if it lives
        if arguments is None or not _is_stub(arguments, prefix):
            return
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            if descriptor is not None:
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            else:
                os.kill(pid, signal.SIGKILL)


def _open_process(pid: int) -> int | None:
    """Return a descriptor of a process; None where Python or the kernel has none, or it ended."""
    if hasattr(os, "pidfd_open"):  # not in a Python built for kernels before 5.3
        with contextlib.suppress(OSError):
            return os.pidfd_open(pid)
    return None


def _own_processes() -> Iterator[tuple[int, list[str]]]:
    for entry in _PROC.iterdir():
        if entry.name.isdecimal():
            arguments = _arguments(int(entry.name))
            if arguments is not None:
                yield int(entry.name), arguments


def _arguments(pid: int) -> list[str] | None:
    """Return the arguments of a process of this user; None for others and those that ended."""
    folder = _PROC / str(pid)
    try:
        if folder.stat().st_uid != os.geteuid():
            return None
        words = (folder / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return None
    return [os.fsdecode(word) for word in words]
