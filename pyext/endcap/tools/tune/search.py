"""Choice of the configurations to measure, and of the best; see the package's docstring."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from statistics import median

from endcap.errors import EndcapError, InvalidArgumentError
from endcap.tools.tune.decision import LIMITS, crossing, is_better, mean_ratio, rounded_rate
from endcap.tools.tune.measurement import LOST_BEYOND, Bench
from endcap.tools.tune.outcome import Goal, Outcome, Point, Trial
from endcap.tools.tune.settings import AS_IT_IS, Configuration, Knob, combine
from endcap.tools.tune.state import State
from endcap.tools.tune.windows import Measured, Window, percentile
from endcap.triton.errors import ServerError

# A window has about so many requests: the slowest twentieth are twenty of them.
_REQUESTS = 400
_SHORTEST_S = 1.0
_FEWEST_WINDOWS = 60  # that the whole time would have room for
_START_S = 3.0  # of a server, roughly, for the plan of the time that is left
_FINAL_SHARE = 0.42
_FEWEST_PAIRS, _MOST_PAIRS = 3, 8
# Ratios of the tails to those of the reference.
_PROMISING = 0.92
_OBVIOUS = 0.5
_CONFIRMED = 0.95
_CONFIRMATIONS = 2
_REFERENCES = 3
# Rates: the first one relative to the saturation, and the steps to where the limit is crossed.
_FIRST_RATE, _RATE_STEP, _LOWEST_RATE = 0.7, 1.2, 0.05
_RATES = 7
# Near the limit the tail is a matter of chance, and nobody runs a server there.
_HEADROOM = 0.7
_LOWERED = 0.92
_LOWERINGS = 8
# Beyond so many times the limit the rate is lowered after one pair, and by so many steps.
_FAR_OVER = {3.0: 4, 1.5: 2}
_SEED, _CONFIRM_SEED, _FINAL_SEED, _CHECK_SEED, _SEEDS = 1, 1000, 2000, 3000, 10_000


Measure = Callable[[Window], Measured]


class Search:
    """The search; `run` is a function of its measurements.

    Args:
        bench: Measures.
        state: The measurements so far.
        knobs: What may be turned.
        goal: What is wanted.
        on_trial: Is called after each trial.
    """

    def __init__(
        self,
        bench: Bench,
        state: State,
        knobs: Sequence[Knob],
        goal: Goal,
        on_trial: Callable[[Trial], None] = lambda _: None,
    ) -> None:
        self._bench = bench
        self._state = state
        self._knobs = knobs
        self._goal = goal
        self._on_trial = on_trial
        self._trials: list[Trial] = []
        self._windows: list[tuple[Window, Measured]] = []
        self._waited_s = 0.0
        self._turns = 0
        self._rate = 0.0  # of the comparison at the end
        self._limit_rates: dict[Configuration, float | None] = {}

    @property
    def left_s(self) -> float:
        """Seconds of the budget that are left."""
        return max(0.0, self._goal.budget_s - self._state.spent_s)

    def run(self) -> Outcome:
        """Return what is recommended.

        Raises:
            ServerError: The repository as it is cannot be served, or its requests fail.
            StopRequested: A signal requested the end.
        """
        rate = self._first_rate()
        best, best_rate, untried = self._turn_knobs(rate)
        turns = [AS_IT_IS] if best == AS_IT_IS else [AS_IT_IS, best]
        results = self._compare(turns, best_rate)
        shipped = self._point(AS_IT_IS, self._rate, results[AS_IT_IS])
        if best == AS_IT_IS:
            return self._outcome(shipped, shipped, None, (), untried)
        ratios = tuple(map(self._tail_ratio, results[best], results[AS_IT_IS]))
        if is_better(ratios):
            chosen = self._point(best, self._rate, results[best])
            return self._outcome(shipped, chosen, best, ratios, untried)
        if not shipped.meets(self._goal.limit_ms) and self._goal.rate is None:
            results = self._compare([AS_IT_IS], min(rate, self._rate))
            shipped = self._point(AS_IT_IS, self._rate, results[AS_IT_IS])
        return self._outcome(shipped, shipped, best, ratios, untried)

    def _outcome(
        self,
        shipped: Point,
        chosen: Point,
        tried: Configuration | None,
        ratios: tuple[float, ...],
        untried: list[str],
    ) -> Outcome:
        fresh = self._check(chosen)
        return Outcome(
            shipped, chosen, fresh, tried, ratios, self._trials, untried, self._windows,
            self._state.spent_s,
        )  # fmt: skip

    # --- the rate -----------------------------------------------------------------------------

    def _first_rate(self) -> float:
        with self._session(AS_IT_IS) as measure:
            saturation = measure(Window(AS_IT_IS, 0.0, 0.0, 0)).saturation
            if self._goal.rate is not None:
                return self._goal.rate
            return self._locate(AS_IT_IS, _FIRST_RATE * saturation, saturation, measure)

    def _locate(
        self, configuration: Configuration, guess: float, saturation: float, measure: Measure
    ) -> float:
        """Return a rate somewhat below the highest one within the limit; a low one without any."""
        below: tuple[float, float] | None = None
        above: tuple[float, float] | None = None
        rate = guess
        for _ in range(_RATES):
            rate = rounded_rate(rate)
            measured = measure(self._window(configuration, rate))
            self._note(Trial("rate", configuration, rate, measured, self._against_limit(measured)))
            p99 = math.inf if measured.problem else measured.p99_ms
            if p99 <= self._goal.limit_ms:
                below = (rate, p99)
            else:
                above = (rate, p99)
            if below and above:
                if above[0] / below[0] < _RATE_STEP - 0.01:
                    break
                rate = math.sqrt(below[0] * above[0])
            elif below:
                rate *= _RATE_STEP
            elif rate <= _LOWEST_RATE * saturation:
                break
            else:
                low = _LOWEST_RATE * saturation
                rate = max(low, rate / _RATE_STEP if _halves(measured, self._goal) else rate / 3)
        found = rounded_rate(crossing(below, above, self._goal.limit_ms)) if below else None
        self._limit_rates[configuration] = found
        return rate if found is None else rounded_rate(_HEADROOM * found)

    def _against_limit(self, measured: Measured) -> str:
        return "within the limit" if measured.p99_ms <= self._goal.limit_ms else "over the limit"

    # --- the search ---------------------------------------------------------------------------

    def _turn_knobs(self, rate: float) -> tuple[Configuration, float, list[str]]:
        best: Configuration = AS_IT_IS
        reference = self._reference(best, rate)
        for place, knob in enumerate(self._knobs):
            trials = []
            for alternative in knob.alternatives:
                configuration = combine(best, alternative, self._bench.pipeline)
                if configuration == best:
                    continue
                if not self._has_time(self._window_s(rate) + _START_S):
                    return best, rate, [each.name for each in self._knobs[place:]]
                trials.append(self._try(knob.name, configuration, rate, reference))
            winner = min(trials, key=_ratio, default=None)
            if winner is None or _ratio(winner) > _PROMISING:
                continue
            is_confirmed = _ratio(winner) <= _OBVIOUS
            if not is_confirmed:
                needed = 2 * _CONFIRMATIONS * (self._final_s + _START_S)
                if not self._has_time(needed):
                    return best, rate, [each.name for each in self._knobs[place:]]
                is_confirmed = self._confirm(knob.name, best, winner.configuration, rate)
            if is_confirmed:
                best = winner.configuration
                is_within = winner.measured.p99_ms <= self._goal.limit_ms
                if self._goal.rate is None and is_within:
                    with self._session(best) as measure:
                        saturation = winner.measured.saturation
                        rate = self._locate(best, rate / _HEADROOM, saturation, measure)
                reference = self._reference(best, rate)
        return best, rate, []

    def _reference(self, configuration: Configuration, rate: float) -> float:
        """Return the tail that others are compared with: the median of some windows'."""
        tails = []
        with self._session(configuration) as measure:
            for number in range(_REFERENCES):
                window = dataclasses.replace(self._window(configuration, rate), round=number)
                measured = measure(window)
                self._note(Trial("reference", configuration, rate, measured, "reference"))
                tails.append(self._tail_ms(measured))
        return median(tails)

    def _try(
        self, knob: str, configuration: Configuration, rate: float, reference_ms: float
    ) -> Trial:
        with self._session(configuration) as measure:
            measured = measure(self._window(configuration, rate))
        ratio: float | None = None
        if measured.problem is not None:
            verdict = measured.problem
        elif measured.is_lost:
            verdict = "cannot keep up"
        else:
            ratio = measured.tail_ms / reference_ms
            verdict = "promising" if ratio <= _PROMISING else "not better"
        trial = Trial(knob, configuration, rate, measured, verdict, ratio)
        self._note(trial)
        return trial

    def _confirm(self, knob: str, before: Configuration, after: Configuration, rate: float) -> bool:
        """Return whether a configuration beats another in turns."""
        ratios, seconds = [], self._final_s
        for number in range(_CONFIRMATIONS):
            turn = self._turn((before, after), rate, seconds, number, _CONFIRM_SEED)
            ratios.append(self._tail_ratio(turn[after], turn[before]))
        is_confirmed = max(ratios) < 1 and mean_ratio(ratios) <= _CONFIRMED
        verdict = "better, confirmed" if is_confirmed else "not better when repeated"
        self._note(Trial(knob, after, rate, turn[after], verdict, mean_ratio(ratios)))
        return is_confirmed

    def _tail_ratio(self, after: Measured, before: Measured) -> float:
        """Return the tail of one window divided by another's, infinite where it was lost."""
        return math.inf if after.is_lost else after.tail_ms / self._tail_ms(before)

    def _tail_ms(self, measured: Measured) -> float:
        """Return the tail of a window; of one that was lost without a latency what it exceeds."""
        least_ms = LOST_BEYOND * self._goal.limit_ms
        return measured.tail_ms if math.isfinite(measured.tail_ms) else least_ms

    def _has_time(self, seconds: float) -> bool:
        return self.left_s - seconds >= _FINAL_SHARE * self._goal.budget_s

    # --- the comparison at the end ------------------------------------------------------------

    def _compare(
        self, configurations: Sequence[Configuration], rate: float
    ) -> dict[Configuration, list[Measured]]:
        """Measure configurations in turns, on the same arrivals, while there is time.

        Where the last one turns out to be over the limit, all are measured at a lower rate, if
        there is time for it.
        """
        last = configurations[-1]
        may_lower = self._goal.rate is None and self._limit_rates.get(last) is not None
        seconds = self._final_s
        round_s = len(configurations) * (seconds + _START_S)
        results: dict[Configuration, list[Measured]] = {}
        for lowering in range(_LOWERINGS + 1):
            results = {each: [] for each in configurations}
            self._rate = rate
            for number in self._rounds(round_s):
                turn = self._turn(configurations, rate, seconds, number, _FINAL_SEED)
                for configuration, measured in turn.items():
                    results[configuration].append(measured)
                share = self._point(last, rate, results[last]).p99_ms / self._goal.limit_ms
                steps = _steps_down(share, number + 1)
                has_time = self.left_s >= _FEWEST_PAIRS * round_s
                if steps and may_lower and has_time and lowering < _LOWERINGS:
                    rate = rounded_rate(_LOWERED**steps * rate)
                    break
            else:
                break
        return results

    def _turn(
        self,
        configurations: Sequence[Configuration],
        rate: float,
        seconds: float,
        number: int,
        seed: int,
    ) -> dict[Configuration, Measured]:
        """Measure configurations on the same arrivals, in the opposite order every other time."""
        results = {}
        self._turns += 1  # no measurement counts for two turns
        for configuration in configurations[:: 1 if number % 2 == 0 else -1]:
            window = Window(configuration, rate, seconds, self._seed(seed + number), self._turns)
            with self._session(configuration) as measure:
                results[configuration] = measure(window)
            self._on_trial(
                Trial("turns", configuration, rate, results[configuration], "measured in turns")
            )
        return results

    def _rounds(self, seconds: float) -> Iterator[int]:
        """Yield the numbers of rounds of so many seconds while there is time for another.

        There is time where as many windows can be measured again afterwards.
        """
        for number in range(_MOST_PAIRS):
            check_s = (number + 1) * (self._final_s + _START_S)
            if number >= _FEWEST_PAIRS and self.left_s < seconds + check_s:
                break
            yield number

    def _check(self, point: Point) -> Point | None:
        """Measure a point again, on other servers and arrivals; None where no time is left."""
        seconds = self._final_s
        count = min(len(point.p99_each), int(self.left_s / (seconds + _START_S)))
        measured: list[Measured] = []
        for number in range(count):
            turn = self._turn([point.configuration], point.rate, seconds, number, _CHECK_SEED)
            measured += turn.values()
        return self._point(point.configuration, point.rate, measured) if measured else None

    def _point(
        self, configuration: Configuration, rate: float, measured: Sequence[Measured]
    ) -> Point:
        times = sorted(each for window in measured for each in window.latencies_ms)
        refused = sum(window.refused for window in measured)
        is_lost = any(window.is_lost for window in measured)
        batch, seconds = self._bench.traffic.batch, sum(window.lasted_s for window in measured)
        p50, p99 = (percentile(times, refused, q) for q in (50, 99))
        return Point(
            configuration,
            rate,
            len(times),
            batch * len(times) / seconds if seconds else 0.0,
            p50,
            math.inf if is_lost else p99,
            tuple(window.p99_ms for window in measured),
            self._limit_rates.get(configuration),
        )

    # --- windows ------------------------------------------------------------------------------

    def _window(self, configuration: Configuration, rate: float) -> Window:
        return Window(configuration, rate, self._window_s(rate), self._seed(_SEED))

    def _seed(self, number: int) -> int:
        """Return the seed of some arrivals; other seeds of the goal have other ones."""
        return _SEEDS * self._goal.seed + number

    def _window_s(self, rate: float) -> float:
        """Return the seconds of a window of the search."""
        of_limit = LIMITS * self._goal.limit_ms / 1e3
        wanted = max(_REQUESTS * self._bench.traffic.batch / rate, of_limit)
        return round(min(max(wanted, self._longest_s / 2), self._longest_s), 1)

    @property
    def _final_s(self) -> float:
        """Seconds of a window of a comparison in turns."""
        return round(1.5 * self._longest_s, 1)

    @property
    def _longest_s(self) -> float:
        return max(_SHORTEST_S, self._goal.budget_s / _FEWEST_WINDOWS)

    def _note(self, trial: Trial) -> None:
        self._trials.append(trial)
        self._on_trial(trial)

    @contextlib.contextmanager
    def _session(self, configuration: Configuration) -> Iterator[Measure]:
        """Yield a function that measures windows of a configuration, on one server.

        The server is started by the first window that the state does not have.
        """
        with contextlib.ExitStack() as stack:
            served = None

            def measure(window: Window) -> Measured:
                nonlocal served
                measured = self._state.get(window)
                if measured is None:
                    try:
                        if served is None:
                            served = stack.enter_context(self._bench.serve(configuration))
                        measured = served.measure(window)
                    except InvalidArgumentError:
                        raise
                    except EndcapError as error:
                        measured = Measured(problem=str(error))
                    if measured.problem is not None and configuration == AS_IT_IS:
                        raise ServerError(
                            f"the repository as it is cannot be measured: {measured.problem}"
                        )
                    waited_s = self._bench.waited_s
                    self._state.put(window, measured, waited_s - self._waited_s)
                    self._waited_s = waited_s
                if window.rate:
                    self._windows.append((window, measured))
                return measured

            yield measure


def _ratio(trial: Trial) -> float:
    return math.inf if trial.ratio is None else trial.ratio


def _steps_down(share: float, pairs: int) -> int:
    """Return by how many steps a rate is to be lowered.

    Args:
        share: The 99th percentile of some pairs divided by the limit.
        pairs: How many they are.
    """
    if pairs > _FEWEST_PAIRS:
        return 0
    far = next((steps for least, steps in _FAR_OVER.items() if share > least), 0)
    return far or int(pairs == _FEWEST_PAIRS and share > 1)


def _halves(measured: Measured, goal: Goal) -> bool:
    """Return whether a small step may lead below the limit: the median is there already."""
    return not measured.is_lost and measured.percentile(50) <= goal.limit_ms / 2
