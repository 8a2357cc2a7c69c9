"""Figures, kernel times and checks of one part, written to a JSON file as they arise."""

from __future__ import annotations

import json
import os
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Row:
    """One figure.

    Attributes:
        work: what was done, such as ``64 x 1920x1080 pixels -> 640x640 float32``.
        by: who did it: ``endcap``, or the name of a peer.
        metric: what the figure is of; docs/cuda.md lists them.
        value: the figure, in `unit`.
        unit: ``ms``, ``%``, ``x``, ``images/s``, ...
        notes: what else a reader must know.
        spread: (largest - smallest) / median of the runs whose median the figure is; None for one
            run.
    """

    work: str
    by: str
    metric: str
    value: float
    unit: str
    notes: str = ""
    spread: float | None = None


@dataclass(frozen=True)
class KernelTime:
    """Time of one kernel in one call of a work.

    Attributes:
        work: as in Row.
        kernel: the name, without parameters.
        count: launches per call.
        mean_us: mean of one launch in microseconds.
    """

    work: str
    kernel: str
    count: float
    mean_us: float


@dataclass(frozen=True)
class Check:
    """One verification: its name, whether it passed, its time, and the error where it failed."""

    name: str
    passed: bool
    seconds: float
    error: str = ""


@dataclass
class Records:
    """What one part found. The file is replaced as a whole after each addition of a work.

    Attributes:
        path: the JSON file.
        emulated: whether the GPU is the emulated one. Then every row and every kernel time is
            marked so in the file, and no figure is a measurement.
        left_out: what could not be done here, with the reason; not a failure.
        failed: what should have been done and could not, with the error.
        clocks: clock of the multiprocessors in MHz, by work, right after it.
    """

    path: Path
    emulated: bool
    rows: list[Row] = field(default_factory=list)
    kernels: list[KernelTime] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    clocks: dict[str, str] = field(default_factory=dict)

    @contextmanager
    def check(self, name: str) -> Iterator[None]:
        """Verify something in the body; an exception fails this check and nothing else."""
        start = time.perf_counter()
        print(f"{name} ...", end=" ", flush=True)
        error = ""
        try:
            yield
        except Exception as raised:
            error = _shortened(raised)
            self.failed.append(f"{name}: {error}")
        seconds = time.perf_counter() - start
        self.checks.append(Check(name, not error, round(seconds, 4), error))
        print(f"{'FAILED' if error else 'ok'} {seconds:.2f} s", flush=True)
        if error:
            print(error, flush=True)
        self.write()

    @contextmanager
    def part(self, name: str, optional: tuple[type[Exception], ...] = ()) -> Iterator[None]:
        """Measure something in the body; an exception costs the rows of this body alone.

        Args:
            name: of what is measured.
            optional: errors that mean that something is not available here, which is no failure.
        """
        try:
            yield
        except Exception as error:
            reason = f"{name}: {_shortened(error)}"
            if isinstance(error, optional):
                self.left_out.append(reason)
            else:
                self.failed.append(reason)
                traceback.print_exc()
        self.write()

    def write(self) -> None:
        """Write everything so far, atomically: the process may end at any time."""
        mark: dict[str, Any] = {"emulated": True} if self.emulated else {}
        write_json(
            self.path,
            {
                "emulated": self.emulated,
                "rows": [asdict(row) | mark for row in self.rows],
                "kernels": [asdict(kernel) | mark for kernel in self.kernels],
                "checks": [asdict(check) for check in self.checks],
                "left_out": self.left_out,
                "failed": self.failed,
                "clocks": self.clocks,
            },
        )

    def table(self) -> str:
        """Return the rows and the kernel times in columns."""
        mark = "EMULATED, no measurement: " if self.emulated else ""
        cells = [
            (f"{mark}{r.work}", r.by, r.metric, f"{r.value:,.3f}", r.unit, _percent(r), r.notes)
            for r in self.rows
        ]
        for kernel in self.kernels:
            metric = f"kernel, {kernel.count:g} a call"
            mean = f"{kernel.mean_us:,.1f}"
            name = kernel.kernel[:60]
            cells.append((f"{mark}{kernel.work}", name, metric, mean, "us", "", "mean"))
        if not cells:
            return "no rows"
        return columns([("work", "by", "metric", "value", "", "spread", "notes"), *cells], right=3)


def columns(cells: Sequence[tuple[str, ...]], right: int) -> str:
    """Return rows of cells as aligned text; the column `right` is aligned at its right end."""
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column == right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    )


def write_json(path: Path, content: object) -> None:
    """Replace a JSON file atomically."""
    write_text(path, json.dumps(content, indent=1) + "\n")


def write_text(path: Path, text: str) -> None:
    """Replace a text file atomically."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text)
    temporary.replace(path)


def _shortened(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:2000]


def _percent(row: Row) -> str:
    return "" if row.spread is None else f"{100 * row.spread:.1f} %"
