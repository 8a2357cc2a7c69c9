"""endcap top in terminals that are low or narrow: nothing is cut without a word."""

from __future__ import annotations

import re
import time
from collections.abc import Collection

import pytest
from rich.console import Console, Group

from endcap.terminal.table import Column, fitting_table
from endcap.tools.top.rates import Gpu, Interval, Machine, ModelRates, StageRates
from endcap.tools.top.table import RowCount, as_lines, share_rows

# As many and as long ones as the shipped repository has.
NAMES = [f"model_number_{n:02d}_decoupled"[: 6 + n] for n in range(16)]
MACHINE = Machine(0.25, 4e9, 16e9, [Gpu("GPU-1", 0.5, 8e9, 80e9, 300.0)])


def interval(busy: Collection[str], failing: Collection[str] = (), stages: int = 5) -> Interval:
    models = [
        ModelRates(
            name, "1", 101.5, 12345.6, 0.0, {"BACKEND": 1.0} if name in failing else {},
            8.0, 21.5, 1.5, 0.5, 10.5, 0.5, 0,
        )
        if name in busy
        else ModelRates(name, "1", 0.0, 0.0, 0.0, pending=0)
        for name in NAMES
    ]  # fmt: skip
    rows = [
        StageRates("endcap_preprocess", name, "1", 5.0 if name in busy else 0.0, 0.0)
        for name in NAMES[:stages]
    ]
    return Interval(2.0, models, rows, MACHINE, restarted=bool(failing))


def printed(shown: Interval, width: int, height: int | None) -> list[str]:
    console = Console(width=width, height=height or 100, highlight=False)
    lines = as_lines(shown, width, height)
    with console.capture() as capture:
        console.print(Group(*lines), end="")
    return [line.rstrip() for line in capture.get().splitlines()]


def heading(lines: list[str], first: str) -> list[str]:
    (found,) = (line for line in lines if line.startswith(first))
    return re.split(r"  +", found)


def rows_and_left_out(lines: list[str], noun: str, shown: int) -> int:
    """How many rows there are in all, those that are only counted among them."""
    (said,) = (
        line for line in lines if line.endswith((f"{noun}s are not shown", f"{noun} is not shown"))
    )
    return shown + sum(int(number) for number in re.findall(r"\d+", said))


@pytest.mark.parametrize("busy", [[], NAMES[3:7], NAMES])
@pytest.mark.parametrize("failing", [[], NAMES])
@pytest.mark.parametrize(("width", "height"), [(80, 22), (80, 16), (120, 24)])
def test_a_low_terminal_gets_all_that_matters(
    width: int, height: int, busy: list[str], failing: list[str]
) -> None:
    lines = printed(
        interval(busy, failing=[name for name in failing if name in busy]), width, height
    )
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    assert lines[0] == "CPU 25%   memory 4.0 of 16.0 GB   GPU 0 50% memory 8.0 of 80.0 GB 300 W"
    assert any(
        line.startswith("total: ") and line.endswith("(with ensemble steps)") for line in lines
    )
    rows = {re.match(r"\S*  |", line)[0] for line in lines}  # type: ignore[index]
    shown = [name for name in NAMES if f"{name}  " in rows]
    if len(shown) < len(NAMES):
        assert rows_and_left_out(lines, "model", len(shown)) == len(NAMES)
    stages = sum(line.startswith("preprocess ") for line in lines)
    if stages < 5:
        assert rows_and_left_out(lines, "stage", stages) == 5
    if busy and failing:
        assert any(line.startswith("failed: ") for line in lines)
        assert any("was restarted" in line for line in lines)


def test_busy_rows_come_before_idle_ones() -> None:
    lines = printed(interval(NAMES[3:7]), 80, 18)
    models = [line.split()[0] for line in lines if line.startswith("model_")]
    assert models[:4] == NAMES[3:7]
    assert sum(line.startswith("preprocess ") for line in lines) >= 2
    assert "3 idle stages are not shown" in lines


def test_all_rows_where_there_is_room() -> None:
    for height in (None, 60):
        lines = printed(interval(NAMES[3:7]), 80, height)
        assert sum(line.startswith("model_") for line in lines) == 16
        assert not any("not shown" in line for line in lines)


@pytest.mark.parametrize("width", [80, 100])
def test_columns_stay_when_the_load_goes(width: int) -> None:
    under_load, idle = (printed(interval(busy), width, None) for busy in (NAMES, []))
    assert heading(under_load, "model ") == heading(idle, "model ")
    assert {"requests/s", "batch", "queue ms", "infer ms"} <= set(heading(idle, "model "))
    assert {"decode ms", "detections"} <= set(heading(idle, "stage"))
    assert heading(under_load, "stage") == heading(idle, "stage")


@pytest.mark.parametrize("room", range(25))
@pytest.mark.parametrize("rows", [(16, 0, 2, 3), (0, 16, 0, 5), (4, 12, 2, 3), (1, 0, 0, 0)])
def test_rows_share_the_room(rows: tuple[int, int, int, int], room: int) -> None:
    models, stages = RowCount(*rows[:2]), RowCount(*rows[2:])
    of_models, of_stages = share_rows(models, stages, room)
    assert 0 <= of_models <= models.all
    assert 0 <= of_stages <= stages.all
    lines = of_models + (of_models < models.all) + of_stages + (of_stages < stages.all)
    assert lines <= max(room, 2)


def test_a_report_without_a_height_has_a_limit_too() -> None:
    failures = {"BACKEND": 1.0}
    models = [ModelRates(f"m{n}", "1", 0.0, failures=failures) for n in range(20_000)]
    stages = [StageRates("endcap_preprocess", f"m{n}", "1", 0.0) for n in range(700)]
    begin = time.process_time()
    lines = printed(Interval(2.0, models, stages, MACHINE, restarted=False), 100, None)
    assert time.process_time() - begin < 10  # a row takes milliseconds
    assert len(lines) <= 520
    assert lines.count("") <= 3
    (said,) = (line for line in lines if line.endswith("models are not shown"))
    shown = sum(bool(re.match(r"m\d+ ", line)) for line in lines)
    assert shown + int(said.split()[0]) == 20_000
    assert any(re.search(r"\d+ more$", line) for line in lines)


@pytest.mark.parametrize("width", range(24, 60, 3))
def test_no_number_is_cut_but_a_long_name_may_be(width: int) -> None:
    columns = [Column[str]("name", lambda row: row, is_text=True)]
    columns += [
        Column(f"n{n}", lambda _: "1234567.8", rank=rank) for n, rank in enumerate((0, 0, 1, 2))
    ]
    console = Console(width=width)
    with console.capture() as capture:
        console.print(fitting_table(columns, ["a_rather_long_name"], width))
    title, _, row = capture.get().splitlines()
    assert len(row) <= width
    assert len(row.split()) == len(title.split()) > 1
    assert set(row.split()[1:]) == {"1234567.8"}


def test_names_are_no_markup() -> None:
    names = ["[link=http://evil.example/x]click[/link]", "[/foo]", "[red]x"]
    columns = [Column[str]("model", lambda name: name, is_text=True)]
    console = Console(width=80, force_terminal=True)
    with console.capture() as capture:
        console.print(fitting_table(columns, names, 80))
    shown = capture.get()
    assert all(name in shown for name in names)
    assert "\x1b]8;" not in shown, "no hyperlink"
