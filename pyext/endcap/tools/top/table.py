"""Tables of `endcap top`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import RenderableType
from rich.text import Text

from endcap.terminal.console import PlainConsole, printable
from endcap.terminal.table import UNKNOWN, Column, fitting_table, number
from endcap.tools.top.rates import Gpu, Interval, Machine, ModelRates, StageRates

_GB = 1e9
_LONGEST_FAILURES = 2  # lines
_TABLE_HEAD = 2  # lines: the titles and the rule
_MOST_ROWS = 500  # of both tables, where there is no height
_FEWEST_IDLE_STAGES = 3  # rows that are worth the head of a table
_MODEL: Column[ModelRates] = Column("model", lambda row: row.model, is_text=True)
_RATES: tuple[Column[ModelRates], ...] = (
    Column("requests/s", lambda row: number(row.requests_per_s), rank=2),
    Column("images/s", lambda row: number(row.images_per_s)),
    Column("batch", lambda row: number(row.batch_size), rank=3),
    Column("pending", lambda row: UNKNOWN if row.pending is None else str(row.pending), rank=5),
    Column("queue ms", lambda row: number(row.queue_ms), rank=1),
    Column("input ms", lambda row: number(row.compute_input_ms), rank=6),
    Column("infer ms", lambda row: number(row.compute_infer_ms), rank=1),
    Column("output ms", lambda row: number(row.compute_output_ms), rank=6),
    Column("total ms", lambda row: number(row.total_ms), rank=4),
    Column("failed/s", lambda row: number(row.failures_per_s)),
)
_STAGES: tuple[Column[StageRates], ...] = (
    Column("stage", lambda row: row.backend.removeprefix("endcap_"), is_text=True),
    Column("model", lambda row: row.model, is_text=True, rank=3),
    Column("version", lambda row: row.version, rank=6),
    Column("images/s", lambda row: number(row.images_per_s)),
    Column("decode ms", lambda row: number(row.decode_ms, 2), rank=1),
    Column("detections", lambda row: number(row.detections_per_image), rank=2),
    Column("truncated/s", lambda row: number(row.truncated_per_s), rank=4, optional=True),
    Column("spills/s", lambda row: number(row.spills_per_s), rank=5, optional=True),
    Column("crops/s", lambda row: number(row.crops_per_s), rank=3, optional=True),
    Column("calls/s", lambda row: number(row.inner_calls_per_s), rank=3, optional=True),
    Column("failed/s", lambda row: number(row.failures_per_s)),
)


def as_lines(interval: Interval, width: int, height: int | None = None) -> list[RenderableType]:
    """Return the messages and the tables of an interval.

    Args:
        interval: What they show.
        width: Characters of a line.
        height: Lines of the terminal, None for up to _MOST_ROWS rows. Rows that do not fit, idle
            ones first, are counted in a line.
    """
    above = _messages(interval, width)
    models = sorted(interval.models, key=lambda row: not _is_busy(row))
    stages = sorted(interval.stages, key=lambda row: not row.images_per_s)
    busy_models = sum(map(_is_busy, models))
    busy_stages = sum(bool(row.images_per_s) for row in stages)
    model_rows = RowCount(busy_models, len(models) - busy_models)
    stage_rows = RowCount(busy_stages, len(stages) - busy_stages)
    room = None
    if height is not None:
        room = height - lines_of([*above, Text(_totals(interval, width))], width) - _TABLE_HEAD
    models_shown, stages_shown = _rows_shown(model_rows, stage_rows, room)
    return [
        *above,
        *_model_table(models, width, models_shown),
        *_dim(model_rows.left_out(models_shown, "model")),
        *_dim(_totals(interval, width) if models else ""),
        *_stage_table(stages, width, stages_shown),
        *_dim(stage_rows.left_out(stages_shown, "stage")),
    ]


@dataclass(frozen=True)
class RowCount:
    """Numbers of busy and idle rows of a table; the busy ones come first."""

    busy: int
    idle: int

    @property
    def all(self) -> int:
        """All rows."""
        return self.busy + self.idle

    def left_out(self, shown: int, noun: str) -> str:
        """Return a message about the rows not shown, such as "9 idle models are not shown"."""
        busy = max(0, self.busy - shown)
        idle = self.all - shown - busy
        kinds = " and ".join(f"{n} {kind}" for n, kind in ((busy, "busy"), (idle, "idle")) if n)
        plural = "s are" if busy + idle > 1 else " is"
        return f"{kinds} {noun}{plural} not shown" if kinds else ""


def share_rows(models: RowCount, stages: RowCount, room: int | None) -> tuple[int, int]:
    """Return how many rows of each table are shown.

    Args:
        models: Rows of the first table.
        stages: Rows of the second one.
        room: Lines for the rows of both tables and the messages about rows not shown; None for any
            number. Busy rows come first; where there are too many of them, stages get a third.
    """
    if room is None or models.all + stages.all <= room:
        return models.all, stages.all
    room = max(0, room - (2 if stages.all else 1))
    busy_stages = min(stages.busy, max(room - models.busy, room // 3))
    shown = min(models.all, room - busy_stages)
    return shown, min(stages.all, room - shown)


def lines_of(parts: Iterable[RenderableType], width: int) -> int:
    """Return the number of lines of renderables in a terminal `width` characters wide."""
    console = PlainConsole(width=width)
    return sum(len(console.render_lines(part, pad=False)) for part in parts)


def _rows_shown(models: RowCount, stages: RowCount, room: int | None) -> tuple[int, int]:
    """Return how many rows of models and of stages fit below the head of the first table."""
    if room is None:
        return share_rows(models, stages, _MOST_ROWS)
    if not stages.all:
        return share_rows(models, stages, room)
    shown = share_rows(models, stages, room - 1 - _TABLE_HEAD)
    if shown[1] >= (1 if stages.busy else min(_FEWEST_IDLE_STAGES, stages.all)):
        return shown
    return share_rows(models, RowCount(0, 0), room - 1)[0], 0


def _model_table(rows: Sequence[ModelRates], width: int, shown: int) -> list[RenderableType]:
    if not rows:
        return [Text("The metrics have no model.")]
    columns = (_MODEL, _version(rows), *_RATES)
    return [fitting_table(columns, rows, width, most_rows=shown, dim=lambda row: not _is_busy(row))]


def _stage_table(rows: Sequence[StageRates], width: int, shown: int) -> list[RenderableType]:
    if not shown:
        return []
    return [
        Text(),
        fitting_table(_STAGES, rows, width, most_rows=shown, dim=lambda row: not row.images_per_s),
    ]


def _dim(line: str) -> list[Text]:
    return [Text(line, style="dim")] if line else []


def _version(rows: Sequence[ModelRates]) -> Column[ModelRates]:
    """Return the column of versions; the first one left out, unless models have several."""
    several = len({row.model for row in rows}) < len(rows)
    return Column("version", lambda row: row.version, rank=0 if several else 7)


def _is_busy(row: ModelRates) -> bool:
    return bool(row.requests_per_s or row.failures_per_s or row.pending)


def _messages(interval: Interval, width: int) -> list[RenderableType]:
    """Return the lines about the machine, failures and a restart, and an empty one below them."""
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
                "Counters decreased: the server or a model was restarted; no rates yet.",
                style="yellow",
            )
        )
    return [*parts, Text()] if parts else []


def _totals(interval: Interval, width: int) -> str:
    """Return the sums over all models in one line, shorter where the terminal is narrow."""
    sums = interval.totals
    line = (
        f"total: {sums.requests_per_s:.1f} requests/s, {sums.images_per_s:.1f} images/s, "
        f"{sums.failures_per_s:.1f} failed/s"
    )
    explained = f"{line} (with ensemble steps)"
    return explained if len(explained) <= width else line


def _failures(rows: Sequence[ModelRates | StageRates], most_characters: int) -> str:
    """Return the failures that fit, most frequent first, and the number of the others."""
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
