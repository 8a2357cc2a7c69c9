"""CPU time that other programs take from a measurement, by Linux' counters.

Of the CPUs that this process may use, what was busy, or was stolen by other virtual machines, less
what this process and a server's processes have used.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

# Cores of other programs from which on a measurement is disturbed.
DISTURBING_FROM = 0.1

_STAT = Path("/proc/stat")
_PROC = Path("/proc")
# Columns of /proc/stat behind the CPU's name: user, nice, system, irq, softirq, steal.
_BUSY = (0, 1, 2, 5, 6, 7)
# Fields of /proc/PID/stat behind the command's name: parent, user and system time.
_PARENT, _USER, _SYSTEM = 1, 11, 12


class Disturbance:
    """Watches from its making on.

    Args:
        server: The server's process id; its children belong to it.

    Attributes:
        begin_s: When it was made, of `time.perf_counter`.
    """

    def __init__(self, server: int | None) -> None:
        self._server = server
        self.begin_s = time.perf_counter()
        self._before = _busy_s() - self._own_s()

    @property
    def is_disturbing(self) -> bool:
        """Whether other programs have used so much that it can be seen in latencies."""
        return self.cores() > DISTURBING_FROM

    def cores(self) -> float:
        """Return the number of cores that other programs have used on average."""
        seconds = time.perf_counter() - self.begin_s
        return max(0.0, _busy_s() - self._own_s() - self._before) / seconds

    def _own_s(self) -> float:
        return time.process_time() + (_tree_s(self._server) if self._server else 0.0)


def _busy_s() -> float:
    """Return the seconds that the CPUs of this process have been busy."""
    own = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    ticks = 0
    for line in _STAT.read_text().splitlines():
        name, *columns = line.split()
        if name in own:
            ticks += sum(int(columns[place]) for place in _BUSY)
    return ticks / os.sysconf("SC_CLK_TCK")


def _tree_s(root: int) -> float:
    """Return the seconds that a process and those that it has started have used."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for entry in _PROC.iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        parents[int(entry.name)] = int(fields[_PARENT])
        ticks[int(entry.name)] = int(fields[_USER]) + int(fields[_SYSTEM])
    tree, waiting = 0, [root]
    while waiting:
        process = waiting.pop()
        tree += ticks.get(process, 0)
        waiting += [child for child, parent in parents.items() if parent == process]
    return tree / os.sysconf("SC_CLK_TCK")
