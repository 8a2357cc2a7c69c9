"""Rates between two scrapes, and their tables."""

from __future__ import annotations

import pytest
from metrics_text import EARLIER, LATER, MACHINE, MODEL, metrics
from rich.console import Console, Group

from endcap.tools.top.metrics import Scrape, parse_metrics
from endcap.tools.top.rates import Interval, compare
from endcap.tools.top.table import as_lines


def look(text: str, at_s: float) -> Scrape:
    return parse_metrics(text, at_s)


def busy_interval() -> Interval:
    return compare(look(EARLIER, 10.0), look(LATER, 12.0))


def printed(interval: Interval, width: int) -> str:
    console = Console(width=width, highlight=False)
    with console.capture() as capture:
        console.print(Group(*as_lines(interval, width)))
    return capture.get()


def test_rates_are_what_was_added_in_a_second() -> None:
    (model,) = busy_interval().models
    assert (model.model, model.version) == ("net", "1")
    assert (model.requests_per_s, model.images_per_s, model.failures_per_s) == (10, 40, 2)
    assert model.failures == {"BACKEND": 2}
    assert model.batch_size == 8  # images of an execution, whatever the requests were
    assert (model.compute_infer_ms, model.queue_ms) == (15, 2)  # of a request
    assert model.compute_output_ms is None  # is not in these metrics
    assert model.pending == 7


def test_stages_are_endcaps_own_counters() -> None:
    stages = {each.backend: each for each in busy_interval().stages}
    before, after = stages["endcap_preprocess"], stages["endcap_postprocess"]
    assert before.decode_ms == pytest.approx(3.0)  # 240 ms over 80 images
    assert before.failures == {"corrupt_image": 1}
    assert before.detections_per_image is None
    assert after.detections_per_image == pytest.approx(2.5)
    assert after.decode_ms is None


def test_counters_of_a_models_gpus_are_added_up() -> None:
    def on_two_gpus(first: int, second: int) -> str:
        labels = 'model="net",version="1",gpu_uuid="GPU-{}"'
        return (
            "# TYPE nv_inference_request_success counter\n"
            f"nv_inference_request_success{{{labels.format(0)}}} {first}\n"
            f"nv_inference_request_success{{{labels.format(1)}}} {second}\n"
        )

    (model,) = compare(look(on_two_gpus(1, 2), 0.0), look(on_two_gpus(4, 6), 1.0)).models
    assert model.requests_per_s == 7


def test_times_are_of_the_requests_without_those_of_the_cache() -> None:
    def with_hits(success: int, hits: int, infer_us: int) -> Scrape:
        own = MODEL.format(model="net")
        hit_lines = (
            f"# TYPE nv_cache_num_hits_per_model counter\nnv_cache_num_hits_per_model{{{own}}} "
        )
        return look(metrics(success=success, infer_us=infer_us, more=f"{hit_lines}{hits}\n"), hits)

    (model,) = compare(with_hits(0, 0, 0), with_hits(10, 6, 40_000)).models
    assert model.compute_infer_ms == 10


def test_counters_that_fall_are_a_restart_and_no_rate() -> None:
    interval = compare(look(LATER, 0.0), look(EARLIER, 1.0))
    assert interval.restarted
    assert all(each.restarted and each.requests_per_s is None for each in interval.models)
    assert "was restarted" in printed(interval, 80)
    assert interval.totals.requests_per_s == 0


def test_a_model_that_was_loaded_in_between_began_at_zero() -> None:
    interval = compare(look("", 0.0), look(LATER, 2.0))
    assert not interval.restarted
    assert interval.models[0].requests_per_s == 60


def test_only_the_models_named() -> None:
    interval = compare(look(EARLIER, 0.0), look(LATER, 2.0), only=["pre"])
    assert interval.models == []
    assert [each.model for each in interval.stages] == ["pre"]
    assert "no model" in printed(interval, 80)


def test_the_machine_where_it_is_reported() -> None:
    reported = busy_interval().machine
    assert (reported.cpu_utilization, reported.memory_used_bytes) == (0.25, 4e9)
    (gpu,) = reported.gpus
    assert (gpu.utilization, gpu.memory_total_bytes, gpu.power_w) == (0.5, 80e9, 300)
    shown = printed(busy_interval(), 100)
    assert "CPU 25%   memory 4.0 of 16.0 GB" in shown
    assert "GPU 0 50% memory 8.0 of 80.0 GB 300 W" in shown
    not_yet = MACHINE.replace("16e9", "0").replace("0.25", "0").replace("4e9", "0")
    unknown = compare(look(EARLIER, 0.0), look(EARLIER + not_yet, 1.0)).machine
    assert unknown.cpu_utilization is None


@pytest.mark.parametrize("width", [120, 80, 60, 40])
def test_tables_fit_the_terminal(width: int) -> None:
    lines = printed(busy_interval(), width).splitlines()
    assert max(map(len, lines)) <= width
    first = next(n for n, line in enumerate(lines) if line.startswith("model"))
    heading, _, row = lines[first : first + 3]
    assert heading.split()[0] == "model"
    assert {"images/s", "failed/s"} <= set(heading.split())
    assert row.split()[0] == "net"
    assert "40.0" in row.split()
    assert "…" not in heading
    assert ("version" in heading) == (width == 120)
    assert "failed: net BACKEND 2.0/s, pre corrupt_image 1.0/s" in " ".join(" ".join(lines).split())


def test_versions_of_one_model_are_shown_in_a_narrow_terminal() -> None:
    lines = (
        line + "\n" + line.replace('version="1"', 'version="2"') if line[:3] == "nv_" else line
        for line in EARLIER.splitlines()
    )
    both = "\n".join(lines) + "\n"
    shown = printed(compare(look("", 0.0), look(both, 1.0)), 60)
    assert [line.split()[:2] for line in shown.splitlines()[2:4]] == [["net", "1"], ["net", "2"]]


def test_names_cannot_write_to_the_terminal() -> None:
    hostile = LATER.replace("net", "\x1b[31mnet")
    assert "\x1b[31mnet" not in printed(compare(look("", 0.0), look(hostile, 1.0)), 100)
