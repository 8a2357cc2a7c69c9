"""What `endcap top` says in words: the machine, what is out of the ordinary, and the sums."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from endcap.terminal.console import printable
from endcap.tools.top import Gpu, Interval, Machine, ModelRates, StageRates

_GB = 1e9
_LONGEST_FAILURES = 2  # lines


def said(interval: Interval, width: int) -> list[RenderableType]:
    """Return the machine's line, failures and a restart, and an empty line below them."""
    parts: list[RenderableType] = []
    reported = _machine(interval.machine)
    if reported:
        parts.append(Text(reported))
    failures = _failures([*interval.models, *interval.stages], _LONGEST_FAILURES * width)
    if failures:
        parts.append(Text(failures, style="red"))
    if interval.restarted:
        parts.append(
            Text(
                "Counters fell: the server or a model was started anew; rates come next.",
                style="yellow",
            )
        )
    return [*parts, Text()] if parts else []


def totals(interval: Interval, width: int) -> str:
    """Return the sums in one line, shorter where the terminal is narrow."""
    sums = interval.totals
    line = (
        f"in all: {sums.requests_per_s:.1f} requests/s, {sums.images_per_s:.1f} images/s, "
        f"{sums.failures_per_s:.1f} failed/s"
    )
    explained = f"{line} (steps count, too)"
    return explained if len(explained) <= width else line


def _failures(rows: Sequence[ModelRates | StageRates], most_characters: int) -> str:
    """As many of them as fit, the most frequent ones first, and how many more there are."""
    rates = [
        (rate, printable(f"{row.model} {reason} {rate:.1f}/s"))
        for row in rows
        for reason, rate in row.failures.items()
    ]
    named = [text for _, text in sorted(rates, key=lambda each: -each[0])]
    for kept in range(min(len(named), most_characters), -1, -1):  # none is shorter than a character
        more = [f"{len(named) - kept} more"] if kept < len(named) else []
        line = "failed: " + ", ".join([*named[:kept], *more])
        if len(line) <= most_characters:
            break
    return line if named else ""


def _machine(machine: Machine) -> str:
    parts = []
    if machine.cpu_utilization is not None:
        parts.append(f"CPU {machine.cpu_utilization:.0%}")
    if machine.memory_used_bytes is not None and machine.memory_total_bytes is not None:
        parts.append(_memory(machine.memory_used_bytes, machine.memory_total_bytes))
    parts += (_gpu(place, gpu) for place, gpu in enumerate(machine.gpus))
    return "   ".join(parts)


def _gpu(place: int, gpu: Gpu) -> str:
    parts = []
    if gpu.utilization is not None:
        parts.append(f"{gpu.utilization:.0%}")
    if gpu.memory_used_bytes is not None and gpu.memory_total_bytes is not None:
        parts.append(_memory(gpu.memory_used_bytes, gpu.memory_total_bytes))
    if gpu.power_w is not None:
        parts.append(f"{gpu.power_w:.0f} W")
    return f"GPU {place} " + " ".join(parts)


def _memory(used: float, total: float) -> str:
    return f"memory {used / _GB:.1f} of {total / _GB:.1f} GB"
