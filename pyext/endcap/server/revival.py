"""Python models whose process has died: noticed by the server's child processes, and loaded again.

Servers from release 24.06 on answer every request to such a model with an error until it is
unloaded and loaded; they leave the dead process as it is until then.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_STUB = b"triton_python_backend_stub"
_PROC = Path("/proc")
_MODEL_FILE = 1  # of a stub's arguments: REPOSITORY/MODEL/VERSION/model.py
_EXIT_CODE_FIELD = 51  # of /proc/PID/stat, counted from 0; see proc_pid_stat(5)


@dataclass(frozen=True)
class DeadStub:
    """A stub that has ended by itself: its model, and how ("SIGKILL", "exit code 1").

    Attributes:
        failed: False for exit code 0, with which one ends that its server has unloaded, too.
    """

    model: str
    ending: str
    failed: bool = True


class StubWatch:
    """Remembers the stubs of one server, and finds those that have died since."""

    def __init__(self, server_pid: int) -> None:
        self._server_pid = server_pid
        self._models: dict[int, str] = {}  # by process id
        self._ended: set[int] = set()  # with exit code 0, at the last look
        self._forgotten: set[int] = set()

    def look(self) -> list[DeadStub]:
        """Return the stubs that died since the last look, each once; call it now and then.

        One with exit code 0 is returned at the second look that finds it.
        """
        dead: list[DeadStub] = []
        children = dict(self._children())
        for pid, (state, exit_code) in children.items():
            if state == "Z":
                # One that its server has ended is waited for at once, and is none for long.
                if exit_code == 0 and pid in self._models and pid not in self._ended:
                    self._ended.add(pid)
                    continue
                model = self._models.pop(pid, None)
                if model is not None:
                    dead.append(DeadStub(model, _ending(exit_code), failed=exit_code != 0))
            elif pid not in self._models and pid not in self._forgotten:
                model = _model_of(pid)
                if model is not None:
                    self._models[pid] = model
        for pid in self._models.keys() - children.keys():
            del self._models[pid]
        self._ended &= self._models.keys()
        self._forgotten &= children.keys()
        return dead

    def running(self, model: str) -> set[int]:
        """Return the process ids of a model's stubs that live, and look after them from now."""
        living = {pid for pid, (state, _) in self._children() if state != "Z"}
        stubs = {pid for pid in living - self._forgotten if _model_of(pid) == model}
        self._models.update(dict.fromkeys(stubs, model))
        return stubs

    def forget(self, model: str) -> None:
        """Look no more after the stubs that a model has; when it is loaded again, it has others.

        Some of them may outlive that: a server keeps what belonged to a dead process.
        """
        self._forgotten |= self.running(model)
        self._models = {pid: name for pid, name in self._models.items() if name != model}

    def _children(self) -> Iterator[tuple[int, tuple[str, int]]]:
        """Yield process id, state and exit code of each child of the server."""
        for folder in _PROC.glob("[0-9]*"):
            try:
                fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
            except OSError:
                continue  # it ended while we looked
            # The name, which may hold spaces, and the process id stand before these.
            state, parent = fields[0], int(fields[1])
            if parent == self._server_pid:
                yield int(folder.name), (state, int(fields[_EXIT_CODE_FIELD - 2]))


class Pacing:
    """Says how soon the same model may be loaded again: one that dies at once is not hurried."""

    def __init__(self, wait_s: float) -> None:
        self._wait_s = wait_s
        self._due: dict[str, float] = {}
        self._loaded: dict[str, float] = {}

    def ask(self, model: str) -> None:
        """A model is to be loaded again."""
        earliest = self._loaded.get(model, float("-inf")) + self._wait_s
        self._due[model] = max(time.monotonic(), earliest)

    def due(self) -> list[str]:
        """Return the models to load now, each once."""
        now = time.monotonic()
        models = [model for model, at in self._due.items() if at <= now]
        for model in models:
            del self._due[model]
            self._loaded[model] = now
        return models


def _model_of(pid: int) -> str | None:
    """The name of a stub's model, None where the process is no stub (yet)."""
    try:
        arguments = (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return None
    if _STUB not in arguments[0] or len(arguments) <= _MODEL_FILE + 1:
        return None
    return Path(arguments[_MODEL_FILE].decode(errors="replace")).parent.parent.name


def _ending(exit_code: int) -> str:
    number = exit_code & 0x7F
    if number == 0:
        return f"exit code {exit_code >> 8}"
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
