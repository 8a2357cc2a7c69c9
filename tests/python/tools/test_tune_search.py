"""endcap tune: what is measured next and what that decides, the state file, and the page."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
from cli_runs import assert_error_message, endcap

from endcap.errors import InvalidArgumentError
from endcap.tools.tune.disturbance import Disturbance
from endcap.tools.tune.measurement import Bench, Served, Traffic
from endcap.tools.tune.outcome import Goal, Outcome
from endcap.tools.tune.page import as_page, pareto
from endcap.tools.tune.report import failure, summary
from endcap.tools.tune.search import Search
from endcap.tools.tune.settings import Change, Configuration, Knob, Pipeline, read_pipeline
from endcap.tools.tune.state import State
from endcap.tools.tune.windows import Measured, Window
from endcap.triton.errors import ServerError

REPOSITORY = Path(__file__).resolve().parents[3] / "model_repository"
SATURATION = 100.0
FAST = Change("detector", "instances", "2")
SAME = Change("preprocess", "threads", "1")
BROKEN = Change("postprocess", "threads", "1")
KNOBS = [Knob("same", ((SAME,),)), Knob("broken", ((BROKEN,),)), Knob("fast", ((FAST,),))]


class QueueBench(Bench):
    """A bench whose servers are queues of one server with exponential times, computed exactly.

    The time in such a queue is exponential with the rate saturation - rate, so that the 99th
    percentile over the limit has a known rate; noise comes from the seed.
    """

    def __init__(self, pipeline: Pipeline, limit_ms: float = 100.0) -> None:
        super().__init__(pipeline, Traffic([b"image"], ["image"], 1, 30.0), limit_ms)
        self.started: list[Configuration] = []

    @contextlib.contextmanager
    def serve(self, configuration: Configuration) -> Iterator[Any]:
        self.started.append(configuration)
        if BROKEN in configuration:
            raise ServerError("model 'postprocess' does not load: threads")
        yield Queue(SATURATION * (1.3 if FAST in configuration else 1.0), self.limit_ms)


class Queue:
    """One configuration of a QueueBench."""

    def __init__(self, saturation: float, limit_ms: float) -> None:
        self.saturation = saturation
        self._limit_ms = limit_ms

    def measure(self, window: Window) -> Measured:
        left = self.saturation - window.rate
        if window.rate == 0 or left <= 0:
            return Measured(saturation=self.saturation, ended_early=bool(window.rate))
        numbers = random.Random(str(window))
        times = [
            1e3 * numbers.expovariate(left) for _ in range(round(window.rate * window.seconds))
        ]
        return Measured(tuple(sorted(times)), lasted_s=window.seconds, saturation=self.saturation)


@pytest.fixture
def pipeline() -> Pipeline:
    return read_pipeline(REPOSITORY, "detect")


def state_in(folder: Path, *, restart: bool = False, **identity: str) -> State:
    return State(folder / "tune.json", {"the machine": "here", **identity}, restart=restart)


def run(bench: Bench, state: State, knobs: list[Knob], goal: Goal | None = None) -> Outcome:
    # Queues take no time: the budget is what windows of 20 s are derived from.
    return Search(bench, state, knobs, goal or Goal(100.0, None, 1200.0)).run()


def test_the_better_configuration_is_found(pipeline: Pipeline, tmp_path: Path) -> None:
    outcome = run(QueueBench(pipeline), state_in(tmp_path), KNOBS)
    assert outcome.chosen.configuration == (FAST,)
    assert outcome.chosen.meets(100.0)
    assert max(outcome.ratios) < 1
    # The quantile is 100 ms where exp(-0.1 (saturation - rate)) is 0.01.
    for point, saturation in ((outcome.shipped, 100.0), (outcome.chosen, 130.0)):
        exact = saturation - math.log(100) / 0.1
        assert point.limit_rate == pytest.approx(exact, rel=0.1)
    turns = [window for window, _ in outcome.windows if window.round]
    assert len(turns) == len(set(turns))
    verdicts = {trial.configuration: trial.verdict for trial in outcome.trials}
    assert verdicts[(BROKEN,)] == "model 'postprocess' does not load: threads"
    assert (SAME, FAST) not in verdicts


def test_the_choice_is_measured_again(pipeline: Pipeline, tmp_path: Path) -> None:
    goal = Goal(100.0, None, 1200.0)
    outcome = run(QueueBench(pipeline), state_in(tmp_path), KNOBS, goal)
    assert outcome.fresh is not None
    assert outcome.deviation is not None
    assert abs(outcome.deviation) <= 0.1
    assert (outcome.fresh.configuration, outcome.fresh.rate) == ((FAST,), outcome.chosen.rate)
    count = len(outcome.fresh.p99_each)
    before, again = outcome.windows[:-count], outcome.windows[-count:]
    assert not {window.seed for window, _ in before} & {window.seed for window, _ in again}
    said = summary(outcome, goal)
    assert f"  measured again, with other arrivals: p99 {outcome.fresh.p99_ms:.1f} ms" in said[2]
    assert not any("Warning" in line for line in said)


@pytest.mark.parametrize("factor", [1.5, math.inf])
def test_a_choice_that_does_not_hold_is_said(
    pipeline: Pipeline, tmp_path: Path, factor: float
) -> None:
    class Slowed(QueueBench):
        """All servers after those of the comparison have less throughput."""

        @contextlib.contextmanager
        def serve(self, configuration: Configuration) -> Iterator[Any]:
            with super().serve(configuration) as queue:
                yield SlowedQueue(queue, factor)

    class SlowedQueue:
        def __init__(self, queue: Queue, factor: float) -> None:
            self._queue = queue
            self._factor = factor

        def measure(self, window: Window) -> Measured:
            measured = self._queue.measure(window)
            if window.seed < 3000:
                return measured
            if math.isinf(self._factor):
                return dataclasses.replace(measured, ended_early=True)
            times = tuple(self._factor * each for each in measured.latencies_ms)
            return dataclasses.replace(measured, latencies_ms=times)

    goal = Goal(100.0, None, 1200.0)
    outcome = run(Slowed(pipeline), state_in(tmp_path), KNOBS[:1], goal)
    warnings = [line for line in summary(outcome, goal) if "Warning" in line]
    assert len(warnings) == 1
    assert "the 99th percentile was another one" in warnings[0]


def test_without_time_the_choice_is_not_measured_again(pipeline: Pipeline, tmp_path: Path) -> None:
    class Slow(QueueBench):
        @contextlib.contextmanager
        def serve(self, configuration: Configuration) -> Iterator[Any]:
            time.sleep(0.1)
            with super().serve(configuration) as queue:
                yield queue

    goal = Goal(100.0, 50.0, 0.3)
    outcome = run(Slow(pipeline), state_in(tmp_path), KNOBS, goal)
    assert outcome.fresh is None
    assert "  not measured again: no time was left" in summary(outcome, goal)


def test_noise_changes_nothing(pipeline: Pipeline, tmp_path: Path) -> None:
    outcomes = [
        run(QueueBench(pipeline), state_in(tmp_path, seed=str(seed)), KNOBS[:2],
            Goal(100.0, None, 1200.0, seed))
        for seed in range(20)
    ]  # fmt: skip
    assert not any(outcome.is_changed for outcome in outcomes)
    assert all("as it is" in summary(each, Goal(100.0, None, 1200.0))[0] for each in outcomes)


def test_a_search_goes_on_where_it_was(pipeline: Pipeline, tmp_path: Path) -> None:
    class Interrupted(QueueBench):
        def serve(self, configuration: Configuration) -> Any:
            if len(self.started) == 4:
                raise KeyboardInterrupt
            return super().serve(configuration)

    first = Interrupted(pipeline)
    with pytest.raises(KeyboardInterrupt):
        run(first, state_in(tmp_path), KNOBS)
    state, second = state_in(tmp_path), QueueBench(pipeline)
    assert state.reused > 4
    resumed = run(second, state, KNOBS)
    whole, third = QueueBench(pipeline), QueueBench(pipeline)
    fresh = run(whole, state_in(tmp_path, restart=True), KNOBS)
    assert resumed.chosen == fresh.chosen
    assert len(first.started) + len(second.started) <= len(whole.started) + 1
    again = run(third, state_in(tmp_path), KNOBS)
    assert (again.chosen, third.started) == (fresh.chosen, [])


def test_measurements_of_something_else_are_not_used(pipeline: Pipeline, tmp_path: Path) -> None:
    run(QueueBench(pipeline), state_in(tmp_path), KNOBS[:1])
    assert state_in(tmp_path).reused
    other = state_in(tmp_path, **{"the machine": "there"})
    assert (other.reused, other.differs) == (0, "the machine")
    (tmp_path / "tune.json").write_text("{}")
    with pytest.raises(InvalidArgumentError, match="not a file of endcap tune"):
        state_in(tmp_path)


def test_the_state_is_not_written_through_a_link(pipeline: Pipeline, tmp_path: Path) -> None:
    state = state_in(tmp_path)
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "tune.json").symlink_to(tmp_path / "victim")
    with pytest.raises(InvalidArgumentError, match="is a symbolic link"):
        run(QueueBench(pipeline), state, KNOBS[:1])
    assert (tmp_path / "victim").read_text() == "precious"


def test_a_limit_that_nothing_meets_is_a_failure(pipeline: Pipeline, tmp_path: Path) -> None:
    goal = Goal(20.0, None, 1200.0)
    outcome = run(QueueBench(pipeline, 20.0), state_in(tmp_path), KNOBS, goal)
    message = failure(outcome, goal)
    assert message is not None
    assert re.match(r"no configuration meets --p99-ms 20: the best has \d\d\.\d ms at", message)
    # At the lowest rate the percentile of the better one is ln(100) / 125 s.
    assert outcome.chosen.p99_ms == pytest.approx(36.8, rel=0.1)


class TimedBench(QueueBench):
    """Its windows and starts take time; after the search servers have a share of the throughput."""

    def __init__(self, pipeline: Pipeline, share: float = 1.0) -> None:
        super().__init__(pipeline)
        self.spent_s = 0.0
        self._share = share

    @contextlib.contextmanager
    def serve(self, configuration: Configuration) -> Iterator[Any]:
        self.spent_s += 3.0
        with super().serve(configuration) as queue:
            yield TimedQueue(self, queue, Queue(self._share * queue.saturation, self.limit_ms))

    def run(self, folder: Path, goal: Goal) -> Outcome:
        clock = State(folder / "tune.json", {}, restart=False, clock=lambda: self.spent_s)
        return run(self, clock, KNOBS[:1], goal)


class TimedQueue:
    """One configuration of a TimedBench."""

    def __init__(self, bench: TimedBench, before: Queue, after: Queue) -> None:
        self._bench = bench
        self._before = before
        self._after = after

    def measure(self, window: Window) -> Measured:
        self._bench.spent_s += window.seconds
        return (self._before if window.seed < 1000 else self._after).measure(window)


@pytest.mark.parametrize("budget_s", [48.0, 600.0])
def test_a_server_that_slows_down_does_not_exceed_the_budget(
    pipeline: Pipeline, tmp_path: Path, budget_s: float
) -> None:
    """The comparison at the end lowers its rate only while there is time."""
    bench, goal = TimedBench(pipeline, share=1 / 3), Goal(100.0, None, budget_s)
    outcome = bench.run(tmp_path, goal)
    assert bench.spent_s <= 1.15 * budget_s
    assert len(outcome.chosen.p99_each) >= 3
    message = failure(outcome, goal)
    assert message is not None
    assert "no configuration meets --p99-ms 100: the best has" in message


def test_the_rate_is_lowered_until_the_limit_holds(pipeline: Pipeline, tmp_path: Path) -> None:
    goal = Goal(100.0, None, 1200.0)
    outcome = TimedBench(pipeline, share=0.75).run(tmp_path, goal)
    assert failure(outcome, goal) is None
    # At 75 of 100 images/s the percentile crosses the limit at 75 - ln(100) / 0.1 = 29.
    assert 20.0 < outcome.chosen.rate < 29.0


@pytest.mark.parametrize("budget_s", [240.0, 600.0])
def test_the_choice_is_measured_again_as_often(
    pipeline: Pipeline, tmp_path: Path, budget_s: float
) -> None:
    bench = TimedBench(pipeline)
    outcome = bench.run(tmp_path, Goal(100.0, None, budget_s))
    assert outcome.fresh is not None
    assert len(outcome.fresh.p99_each) == len(outcome.chosen.p99_each) >= 3
    assert bench.spent_s <= budget_s


def test_a_given_rate_is_kept(pipeline: Pipeline, tmp_path: Path) -> None:
    goal = Goal(100.0, 70.0, 1200.0)
    outcome = run(QueueBench(pipeline), state_in(tmp_path), KNOBS, goal)
    assert {trial.rate for trial in outcome.trials} == {70.0}
    assert (outcome.chosen.configuration, outcome.chosen.rate) == ((FAST,), 70.0)


def test_a_rate_beyond_the_repository_has_a_better_configuration(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    goal = Goal(500.0, 1.1 * SATURATION, 1200.0)
    outcome = run(QueueBench(pipeline, 500.0), state_in(tmp_path), KNOBS, goal)
    assert math.isinf(outcome.shipped.p99_ms)
    assert outcome.chosen.configuration == (FAST,)
    assert outcome.chosen.meets(500.0)


def test_a_repository_that_fails_is_an_error(pipeline: Pipeline, tmp_path: Path) -> None:
    class Failing(QueueBench):
        def serve(self, configuration: Configuration) -> Any:
            raise ServerError("model 'detector' does not load: no file")

    with pytest.raises(ServerError, match=r"as it is cannot be measured: model 'detector' does"):
        run(Failing(pipeline), state_in(tmp_path), KNOBS)


def test_lost_windows_have_no_percentile() -> None:
    window = Measured((1.0, 2.0), {"not_sent": 3}, 1.0)
    assert window.is_lost
    assert math.isinf(window.p99_ms)
    tail = Measured(tuple(float(n) for n in range(1, 101)), lasted_s=1.0)
    assert tail.tail_ms == 98.0


def test_refused_requests_are_the_slowest() -> None:
    served = tuple(float(n) for n in range(1, 991))
    window = Measured(served, {"unavailable": 10}, refused=10, lasted_s=1.0)
    assert window.percentile(50) == pytest.approx(500.5)
    assert window.percentile(98.9) == pytest.approx(989.011)
    assert math.isinf(window.p99_ms)
    assert not window.is_lost
    # Ten of the slowest fifty.
    assert window.tail_ms == pytest.approx((10 * 2 * 990 + sum(served[-40:])) / 50)


def test_a_server_that_refuses_is_searched(pipeline: Pipeline, tmp_path: Path) -> None:
    class Refusing(QueueBench):
        @contextlib.contextmanager
        def serve(self, configuration: Configuration) -> Iterator[Any]:
            with super().serve(configuration) as queue:
                yield RefusingQueue(queue)

    class RefusingQueue:
        """Beyond 40 images/s it refuses a tenth, and is quick with the rest."""

        def __init__(self, queue: Queue) -> None:
            self._queue = queue

        def measure(self, window: Window) -> Measured:
            measured = self._queue.measure(window)
            if window.rate <= 40.0:
                return measured
            times = measured.latencies_ms
            quick = tuple(each / 2 for each in times[len(times) // 10 :])
            refused = len(times) - len(quick)
            return dataclasses.replace(
                measured, latencies_ms=quick, refused=refused, failures={"unavailable": refused}
            )

    goal = Goal(100.0, None, 1200.0)
    outcome = run(Refusing(pipeline), state_in(tmp_path), KNOBS, goal)
    assert outcome.chosen.rate <= 40.0
    assert outcome.chosen.meets(100.0)
    assert any("were refused by the server" in line for line in summary(outcome, goal))


def test_another_seed_has_other_arrivals(pipeline: Pipeline, tmp_path: Path) -> None:
    seeds = []
    for seed in (0, 1):
        folder = tmp_path / str(seed)
        folder.mkdir()
        outcome = run(
            QueueBench(pipeline), state_in(folder), KNOBS, Goal(100.0, None, 1200.0, seed)
        )
        seeds.append({window.seed for window, _ in outcome.windows})
    assert len(seeds[0]) > 3
    assert not seeds[0] & seeds[1]


def test_what_could_not_keep_up_once_is_said(pipeline: Pipeline, tmp_path: Path) -> None:
    goal = Goal(100.0, None, 1200.0)
    outcome = run(QueueBench(pipeline), state_in(tmp_path), KNOBS[:1], goal)
    for ratios, words, line in (
        ((0.7, 0.72, math.inf), "could not keep up in 1 of 3 windows", "0.70, 0.72, inf"),
        ((1.3, 1.4, 1.2), "is no better", "tail 1.30 times"),
        ((0.7, 1.2, 0.9), "is within the noise", "tail 0.91 times"),
    ):
        said = summary(dataclasses.replace(outcome, tried=(SAME,), ratios=ratios), goal)
        assert words in said[0]
        assert sum(line in each for each in said) == 1


def test_windows_that_are_short_for_the_limit_are_said(pipeline: Pipeline, tmp_path: Path) -> None:
    goal = Goal(5000.0, 50.0, 600.0)
    outcome = run(QueueBench(pipeline, 5000.0), state_in(tmp_path), KNOBS[:1], goal)
    (warning,) = [line for line in summary(outcome, goal) if "grows slowly" in line]
    assert "the longest windows have 15 s" in warning
    assert warning.endswith("give --budget-minutes 34.")


class QuietBench(QueueBench):
    """One whose measurements nothing disturbs."""

    def is_quiet(self, *_: Any, is_given_up: bool = False) -> bool:
        return not is_given_up


def served(pipeline: Pipeline, results: list[Measured | None], saturations: list[float]) -> Served:
    """A server whose windows and closed loops give this."""

    class Given(Served):
        def _measure_once(self, window: Window, others: Disturbance) -> Measured | None:
            return results.pop(0)

        def _saturate(self, in_flight: int) -> float:
            return saturations.pop(0)

    server: Any = SimpleNamespace(pid=None)
    bench = QuietBench(pipeline)
    bench.images_are_checked = True
    made = Given(bench, (), server)
    made.warm_up()
    return made


def test_a_window_that_was_given_up_is_measured_again(pipeline: Pipeline) -> None:
    good = Measured((1.0,), lasted_s=1.0)
    assert served(pipeline, [None, None, good], [100.0]).measure(Window((), 50.0, 1.0, 1)) is good


def test_more_in_flight_may_reach_a_rate(pipeline: Pipeline) -> None:
    good = Measured((1.0,), lasted_s=1.0)
    two = served(pipeline, [good, good], [100.0, 300.0])
    assert two.measure(Window((), 290.0, 1.0, 1)) is good
    assert two.measure(Window((), 100.0, 1.0, 1)) is good
    assert two.measure(Window((), 400.0, 1.0, 1)).is_lost


def test_the_front_has_what_no_other_point_beats() -> None:
    points = [(10.0, 5.0), (20.0, 8.0), (15.0, 9.0), (30.0, 40.0), (30.0, 50.0), (5.0, 5.0)]
    assert pareto(points) == [(10.0, 5.0), (20.0, 8.0), (30.0, 40.0)]


def test_the_page_needs_nothing_from_elsewhere(pipeline: Pipeline, tmp_path: Path) -> None:
    goal = Goal(100.0, None, 1200.0)
    outcome = run(QueueBench(pipeline), state_in(tmp_path), KNOBS, goal)
    page = as_page(outcome, goal, "detect of <models>", "+count: 2 < 3")
    assert "detect of &lt;models&gt;" in page
    assert "+count: 2 &lt; 3" in page
    assert not re.search(r"https?://|<script|src=|url\(", page)
    (chart,) = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    drawn = ElementTree.fromstring(chart)
    dots = [each for each in drawn.iter("circle") if list(each)]
    finite = [each for _, each in outcome.windows if math.isfinite(each.p99_ms)]
    assert len(dots) == len(finite)
    assert len(page.split("<tr>")) - 2 == len(outcome.trials)


def test_a_servers_own_cpu_time_is_no_disturbance() -> None:
    busy = [sys.executable, "-c", "while True: pass"]
    with subprocess.Popen(busy) as server:
        try:
            clock = (~server.pid << 3) | 2  # the kernel's number for its CPU time
            begin_s, used_s = time.perf_counter(), time.clock_gettime(clock)
            counted, left_out = Disturbance(None), Disturbance(server.pid)
            time.sleep(1.5)
            used_s = time.clock_gettime(clock) - used_s
            both = counted.cores(), left_out.cores()
            seconds = time.perf_counter() - begin_s
        finally:
            server.kill()
    assert used_s > 0.1
    # The kernel counts in ticks of 10 ms.
    assert both[0] - both[1] == pytest.approx(used_s / seconds, abs=0.1)


def test_names_of_processes_may_be_cut() -> None:
    """The kernel keeps 15 bytes of a name, which need not be whole characters."""
    name = "ctypes.CDLL(None).prctl(15, ('\u00e4' * 8).encode(), 0, 0, 0)"
    code = f"import ctypes, sys; {name}; print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(UnicodeDecodeError):
            Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8")
        assert Disturbance(process.pid).cores() >= 0
        process.communicate()


# --- the command ----------------------------------------------------------------------------------


def test_what_cannot_be_tuned_is_said(tmp_path: Path) -> None:
    photo = REPOSITORY / "detect" / "samples" / "shapes_320x240.jpg"
    (tmp_path / "empty").mkdir()
    options = ["-o", tmp_path / "out"]
    no_folder = endcap("tune", tmp_path / "no", photo, *options)
    assert_error_message(no_folder, "is not a folder; give a folder of model folders")
    assert_error_message(endcap("tune", REPOSITORY, tmp_path / "empty", *options), "holds no image")
    assert_error_message(
        endcap("tune", REPOSITORY, photo, "--model", "other", *options), "no model 'other'"
    )
    assert_error_message(
        endcap("tune", REPOSITORY, photo, "-o", REPOSITORY / "out"), "is in the repository"
    )
    (tmp_path / "out").mkdir(exist_ok=True)
    (tmp_path / "out" / "tune.json").write_text("mine")
    result = endcap("tune", REPOSITORY, photo, *options)
    assert_error_message(result, "tune.json is there already, and endcap has not made it")
    assert not (REPOSITORY / "out").exists()


def test_an_image_that_fails_is_named(tmp_path: Path) -> None:
    """At once, although another program uses the CPUs."""
    (tmp_path / "empty.jpg").write_bytes(b"")
    options = ["-o", tmp_path / "out", "--wait-minutes", 3]
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
        try:
            begin_s = time.monotonic()
            result = endcap("tune", REPOSITORY, tmp_path / "empty.jpg", *options)
            lasted_s = time.monotonic() - begin_s
        finally:
            other.kill()
    assert_error_message(result, "empty.jpg fails (corrupt_image: ", "leave it out")
    assert lasted_s < 150


def test_a_model_that_does_not_load_is_named(tmp_path: Path) -> None:
    for name in ("detect", "detector", "postprocess", "preprocess"):
        shutil.copytree(REPOSITORY / name, tmp_path / "models" / name)
    (tmp_path / "models" / "detector" / "1" / "model.onnx").write_bytes(b"no network")
    photo = REPOSITORY / "detect" / "samples" / "shapes_320x240.jpg"
    result = endcap("tune", tmp_path / "models", photo, "-o", tmp_path / "out")
    assert_error_message(result, "the repository as it is cannot be measured", "detector")
    assert not (tmp_path / "out" / "tune.json").exists()
