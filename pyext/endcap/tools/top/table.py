"""What a server did in an interval, for people to read."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from endcap.terminal.table import UNKNOWN, Column, fitting_table, number
from endcap.tools.top import Interval, ModelRates, StageRates
from endcap.tools.top.layout import RowCount, lines_of, share_rows
from endcap.tools.top.words import said, totals

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
    Column("found", lambda row: number(row.detections_per_image), rank=2),
    Column("truncated/s", lambda row: number(row.truncated_per_s), rank=4, optional=True),
    Column("spills/s", lambda row: number(row.spills_per_s), rank=5, optional=True),
    Column("crops/s", lambda row: number(row.crops_per_s), rank=3, optional=True),
    Column("calls/s", lambda row: number(row.inner_calls_per_s), rank=3, optional=True),
    Column("failed/s", lambda row: number(row.failures_per_s)),
)


def as_lines(interval: Interval, width: int, height: int | None = None) -> list[RenderableType]:
    """Return what has to be said, and the tables below it, at most `width` characters wide.

    Args:
        height: Lines that there are, None where there is no limit but that of _MOST_ROWS rows. Rows
            that do not fit, idle ones first, are counted in a line.
    """
    above = said(interval, width)
    models = sorted(interval.models, key=lambda row: not _is_busy(row))
    stages = sorted(interval.stages, key=lambda row: not row.images_per_s)
    busy_models = sum(map(_is_busy, models))
    busy_stages = sum(bool(row.images_per_s) for row in stages)
    model_rows = RowCount(busy_models, len(models) - busy_models)
    stage_rows = RowCount(busy_stages, len(stages) - busy_stages)
    room = None
    if height is not None:
        room = height - lines_of([*above, Text(totals(interval, width))], width) - _TABLE_HEAD
    models_shown, stages_shown = _rows_shown(model_rows, stage_rows, room)
    return [
        *above,
        *_model_table(models, width, models_shown),
        *_dim(model_rows.left_out(models_shown, "model")),
        *_dim(totals(interval, width) if models else ""),
        *_stage_table(stages, width, stages_shown),
        *_dim(stage_rows.left_out(stages_shown, "stage")),
    ]


def _rows_shown(models: RowCount, stages: RowCount, room: int | None) -> tuple[int, int]:
    """How many rows of either table fit below the head of the first."""
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
        return [Text("No model is in the metrics.")]
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
    """The first column to go, unless it tells two rows apart."""
    several = len({row.model for row in rows}) < len(rows)
    return Column("version", lambda row: row.version, rank=0 if several else 7)


def _is_busy(row: ModelRates) -> bool:
    return bool(row.requests_per_s or row.failures_per_s or row.pending)
