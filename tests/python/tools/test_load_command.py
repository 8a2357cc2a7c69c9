"""endcap load: what counts in a window, and the closed loop that fills it."""

from __future__ import annotations

import csv
import json
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from cli_runs import assert_error_message, endcap
from rich.console import Console

from endcap.client import ImageResult
from endcap.terminal.failure import StopRequested
from endcap.tools.load.load_test import Figures, Level, Timing, measure_level, summarize
from endcap.tools.load.report import CSV_COLUMNS, as_csv, as_json, as_table
from endcap.tools.load.senders import Finished, ImageCycle
from endcap.tools.load.server_times import ModelTime, ServerTimes


def done(end_s: float, latency_ms: float | None = 10.0, images: int = 1, **failed: int) -> Finished:
    return Finished(end_s, latency_ms, images, failed)


def test_requests_count_that_end_in_the_window() -> None:
    ends = [0.999, 1.0, 1.5, 2.999, 3.0]  # the window takes its begin and not its end
    shown = summarize([done(end, images=4) for end in ends], 1.0, 3.0)
    assert (shown.requests, shown.images, shown.images_per_s) == (3, 12, 6.0)


def test_percentiles_are_between_the_closest_ranks() -> None:
    times = [float(n) for n in range(1, 102)]
    shown = summarize([done(0.5, latency_ms=each) for each in times], 0.0, 1.0).latency_ms
    assert (shown["p50"], shown["p90"], shown["p99"]) == (51.0, 91.0, 100.0)
    assert (shown["mean"], shown["min"], shown["max"]) == (51.0, 1.0, 101.0)
    two = summarize([done(0.5, latency_ms=10.0), done(0.5, latency_ms=20.0)], 0.0, 1.0).latency_ms
    assert two["p90"] == pytest.approx(19.0)


def test_failures_are_counted_by_status_and_are_no_throughput() -> None:
    partly = [ImageResult("a", "ok", latency_ms=5.0), ImageResult("b", "corrupt_image")]
    lost = [ImageResult("c", "timeout"), ImageResult("d", "timeout")]
    shown = summarize([Finished.of(0.1, partly), Finished.of(0.2, lost)], 0.0, 1.0)
    assert shown.failures == {"corrupt_image": 1, "timeout": 2}
    assert (shown.requests, shown.images) == (1, 1)
    assert shown.latency_ms["max"] == 5.0


def test_a_window_without_results() -> None:
    shown = summarize([done(0.1, None, 0, unavailable=1)], 0.0, 1.0)
    assert (shown.images_per_s, shown.latency_ms) == (0.0, {})
    assert as_csv([level(shown)]).splitlines()[1] == "2,1.0,0,0,0.0,,,,,,,,,,0.1,1,"
    assert "2 in flight: images failed: 1 unavailable." in table([level(shown)])


def test_images_come_in_turn_and_none_is_taken_twice_at_once() -> None:
    images = [bytes([n]) for n in range(5)]
    cycle = ImageCycle(images, batch=2)
    assert [cycle.take() for _ in range(5)] == [
        [b"\0", b"\1"], [b"\2", b"\3"], [b"\4", b"\0"], [b"\1", b"\2"], [b"\3", b"\4"]
    ]  # fmt: skip
    shared, taken = ImageCycle(images, batch=1), []

    def take_some() -> None:
        for _ in range(500):
            taken.extend(shared.take())

    threads = [threading.Thread(target=take_some) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [taken.count(image) for image in images] == [400] * 5


class Ticking:
    """Senders of which one request ends each millisecond."""

    def __init__(self) -> None:
        self.requests: list[Finished] = []
        self.stopped = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Never fails."""

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()
        self.stopped = True

    def _send(self) -> None:
        while not self._ended.wait(1e-3):
            self.requests.append(done(time.perf_counter()))


def test_the_window_begins_after_the_warm_up_and_has_its_duration() -> None:
    senders, ticks = Ticking(), []
    shown = measure_level(7, senders, Timing(0.3, 0.5), None, lambda: ticks.append(1))
    assert shown is not None
    assert (shown.concurrency, shown.figures.seconds, shown.interrupted) == (7, 0.5, False)
    before = [each for each in senders.requests if each.end_s < senders.requests[0].end_s + 0.29]
    assert shown.figures.requests <= len(senders.requests) - len(before)
    assert len(ticks) >= 8


@pytest.mark.parametrize(("after", "measured"), [(1, False), (6, True)])
def test_a_signal_cuts_the_window_short(after: int, measured: bool) -> None:
    ticks: list[int] = []

    def advance() -> None:
        ticks.append(1)
        if len(ticks) > after:
            raise StopRequested

    shown = measure_level(1, Ticking(), Timing(0.3, 60.0), None, advance)
    assert (shown is not None) == measured
    if shown is not None:
        assert shown.interrupted
        assert 0.1 < shown.figures.seconds < 30
        assert "interrupted after" in table([shown])


class Failing(Ticking):
    """Senders of which one ends before its time."""

    def check(self) -> None:
        raise ValueError("a sender ended")


def test_a_sender_that_ends_early_is_an_error() -> None:
    senders = Failing()
    with pytest.raises(ValueError, match="a sender ended"):
        measure_level(1, senders, Timing(0.1, 60.0), None, lambda: None)
    assert senders.stopped


def model_time(name: str, queue: float, compute: float, total: float) -> ModelTime:
    return ModelTime(name, 10, queue=queue, transfer=0.0, compute=compute, total=total)


STEPS = [model_time("pre", 1.0, 2.0, 4.0), model_time("net", 3.0, 5.0, 9.0)]


def level(shown: Figures, *, cpu: float = 0.1, server: ServerTimes | None = None) -> Level:
    return Level(2, shown, cpu, server, None if server else "no reason", False)


def table(levels: Sequence[Level], width: int = 120) -> str:
    console = Console(width=width, highlight=False)
    with console.capture() as capture:
        console.print(as_table(levels, "detect", width))
    return capture.get()


def test_the_servers_part_of_an_ensemble_and_of_its_steps_alone() -> None:
    whole = model_time("detect", 0.5, 7.0, 15.0)
    ensemble = ServerTimes(whole, STEPS)
    assert (ensemble.total, ensemble.queue, ensemble.compute) == (15.0, 4.5, 7.0)
    alone = ServerTimes(None, STEPS)
    assert (alone.total, alone.queue, alone.compute) == (13.0, 4.0, 7.0)
    plain = ServerTimes(whole, [])
    assert (plain.queue, plain.compute) == (0.5, 7.0)


def test_requests_of_other_clients_are_a_warning() -> None:
    shown = summarize([done(0.5)], 0.0, 1.0)
    counted = {n: ServerTimes(ModelTime("detect", n, 0.0, 0.0, 1.0, 1.0), []) for n in (5, 6)}
    assert level(shown, server=counted[5]).foreign_requests == 0  # two at each edge of the window
    assert level(shown, server=counted[6]).foreign_requests == 5
    assert "counted 5 requests more" in table([level(shown, server=counted[6])])


SHOWN = summarize([done(0.01 * n, latency_ms=float(n)) for n in range(100)], 0.0, 1.0)


def test_a_client_that_may_be_the_limit_is_a_warning() -> None:
    assert "may be its limit" in " ".join(table([level(SHOWN, cpu=0.9)]).split())
    assert "may be its limit" not in " ".join(table([level(SHOWN, cpu=0.5)]).split())


@pytest.mark.parametrize("width", [120, 80, 60])
def test_the_table_fits_the_terminal(width: int) -> None:
    lines = table([level(SHOWN, server=ServerTimes(None, STEPS))], width).splitlines()
    assert max(map(len, lines)) <= width
    assert {"p50", "p90", "p99", "images/s"} <= set(lines[2].split())
    assert ("compute ms" in lines[2]) == (width == 120)
    assert "100.0" in lines[4].split()
    assert "linear interpolation" in " ".join(" ".join(lines).split())


@pytest.mark.parametrize("width", [60, 40, 25])
def test_a_narrow_terminal_loses_columns_and_never_digits(width: int) -> None:
    slow = summarize([done(0.01 * n, latency_ms=101234.5) for n in range(100)], 0.0, 1.0)
    lines = table([level(slow, server=ServerTimes(None, STEPS))], width).splitlines()
    titles, row = lines[2], lines[4]
    assert "…" not in titles + row
    assert len(row) <= width
    assert row.split()[:2] == ["2", "100.0"]
    assert set(row.split()[2:4]) <= {"101234.5", "0"}
    assert ("p50 ms" in titles) == ("101234.5" in row) == (width > 25)


def test_csv_and_json_have_the_same_figures() -> None:
    levels = [level(SHOWN, server=ServerTimes(None, STEPS))]
    (row,) = csv.DictReader(as_csv(levels).splitlines())
    assert tuple(row) == CSV_COLUMNS
    report: dict[str, Any] = json.loads(as_json(levels, {"model": "detect"}))
    (figure,) = report["levels"]
    assert report["model"] == "detect"
    assert float(row["p99_ms"]) == figure["latency_ms"]["p99"] == np.percentile(range(100), 99)
    assert float(row["images_per_s"]) == figure["images_per_s"] == 100
    assert float(row["queue_ms"]) == 4.0
    assert [step["model"] for step in figure["server_ms"]["steps"]] == ["pre", "net"]


@pytest.mark.parametrize("given", ["0", "1,x", "", "2000"])
def test_invalid_levels_are_an_error(given: str) -> None:
    assert_error_message(endcap("load", "--concurrency", given), "write 1,4,16")


def test_without_a_server_it_is_an_error() -> None:
    result = endcap("load", "--url", "127.0.0.1:1", "--duration", 1, "--concurrency", 1)
    assert_error_message(result, "no Triton server responds")
    with_tasks = endcap("load", "--url", "127.0.0.1:1", "--concurrency", 1, "--async")
    assert_error_message(with_tasks, "no Triton server responds")
