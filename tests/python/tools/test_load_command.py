"""endcap load: what counts in a window, and errors."""

from __future__ import annotations

import pytest

from endcap.tools.load import Request, mean_times, summarize
from tests.support.cli_runs import assert_error_message, endcap


def request(end_s: float, latency_ms: float = 10.0, images: int = 1, **failed: int) -> Request:
    return Request(end_s - latency_ms / 1e3, end_s, images, failed)


def test_requests_count_that_end_in_the_window() -> None:
    ends = [0.999, 1.0, 1.5, 2.999, 3.0]  # the window takes its begin and not its end
    shown = summarize([request(end, images=4) for end in ends], 1.0, 3.0)
    assert (shown.requests, shown.images_per_s) == (3, 6.0)


def test_percentiles_are_between_the_closest_ranks() -> None:
    shown = summarize(
        [request(0.5, latency_ms=float(n)) for n in range(1, 102)], 0.0, 1.0
    ).latency_ms
    expected = {"mean": 51, "p50": 51, "p90": 91, "p99": 100, "min": 1, "max": 101}
    assert shown == pytest.approx(expected)
    two = summarize([request(0.5, latency_ms=10.0), request(0.5, latency_ms=20.0)], 0.0, 1.0)
    assert two.latency_ms["p90"] == pytest.approx(19.0)


def test_failures_are_counted_by_status_and_are_no_throughput() -> None:
    partly, lost = request(0.1, 5.0, corrupt_image=1), request(0.2, 9.0, images=0, timeout=2)
    shown = summarize([partly, lost], 0.0, 1.0)
    assert shown.failures == {"corrupt_image": 1, "timeout": 2}
    assert (shown.requests, shown.images_per_s) == (1, 1)
    assert shown.latency_ms["max"] == pytest.approx(5.0)
    assert summarize([lost], 0.0, 1.0).latency_ms == {}


def test_times_of_the_server_are_those_between_two_readings() -> None:
    kinds = ("success", "queue", "compute_input", "compute_infer", "compute_output")
    before = {"detect": {"success count": 2, **{f"{kind} ns": 7 for kind in kinds}}, "step": {}}
    times = {f"{kind} ns": 7 + (n + 1) * 4_000_000 for n, kind in enumerate(kinds)}
    now = {"detect": {"success count": 6, **times}, "step": {}}
    (whole,) = mean_times(before, now)
    assert whole == ("detect", 4, 2.0, 8.0, 4.0, 1.0)
    assert mean_times({}, now) == []


@pytest.mark.parametrize("given", ["0", "1,x", "", "2000", "1.5"])
def test_invalid_levels_are_an_error(given: str) -> None:
    assert_error_message(endcap("load", "--concurrency", given), "write 1,4,16")


def test_without_a_server_it_is_an_error() -> None:
    result = endcap("load", "--url", "127.0.0.1:1", "--duration", 1, "--concurrency", 1)
    assert "no Triton server responds" in result.stderr
    assert result.exit_code == 2
