"""What an operator sees: statistics, metrics and log lines."""

from __future__ import annotations

import os

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

import endcap
from tests.support import jpegs
from tests.support.sample_heads import yolov8_head
from tests.triton import raw_http
from tests.triton.calls import infer, strings
from tests.triton.running_server import RunningServer, rested, wait_for
from tests.triton.served_models import ANCHORS, NUM_CLASSES, PREPROCESS

GOOD = jpegs.photo_jpeg(300, 400)
BAD = GOOD[: len(GOOD) // 2]


def fails(client, model: str, files: list[bytes], **options: object) -> None:
    with pytest.raises(InferenceServerException):
        infer(client, model, {"encoded": strings(files)}, **options)


def preprocess_metric(server: RunningServer, name: str, **labels: str) -> float:
    labels = {"model": "pre_blank", "version": "1", **labels}
    return server.metric(f"endcap_preprocess_{name}", **labels)


def test_metrics_count_images_failures_and_time(client, server: RunningServer):
    images = preprocess_metric(server, "images_total")
    corrupt = preprocess_metric(server, "failed_total", reason="corrupt_image")
    seconds = preprocess_metric(server, "decode_seconds_total")
    infer(client, "pre_blank", {"encoded": strings([GOOD, BAD, GOOD])})
    assert preprocess_metric(server, "images_total") == images + 2
    assert preprocess_metric(server, "failed_total", reason="corrupt_image") == corrupt + 1
    spent = preprocess_metric(server, "decode_seconds_total") - seconds
    assert 1e-4 < spent < 5


def test_every_failure_class_has_its_counter(server: RunningServer):
    for status in endcap.Status:
        if status is not endcap.Status.OK:
            assert preprocess_metric(server, "failed_total", reason=status.label) >= 0
    assert preprocess_metric(server, "failed_total", reason="cancelled") >= 0
    with pytest.raises(KeyError):
        preprocess_metric(server, "failed_total", reason="ok")


def test_a_bad_region_is_counted_once(client, server: RunningServer):
    failures = {"model": "rois", "reason": "invalid_argument"}
    failed = server.metric("endcap_preprocess_failed_total", **failures)
    outside = np.float32([[0, 0, 9, 9], [900, 900, 999, 999]])
    with pytest.raises(InferenceServerException, match="roi index 1 of 2"):
        infer(client, "rois", {"encoded": strings([GOOD], batched=False), "rois": outside})
    assert server.metric("endcap_preprocess_failed_total", **failures) == failed + 1


def test_truncation_is_counted(client, server: RunningServer):
    labels = {"model": "post_truncating"}
    before = server.metric("endcap_postprocess_truncated_total", **labels)
    seeds = range(5)
    heads = [yolov8_head(seed, anchors=ANCHORS, num_classes=NUM_CLASSES) for seed in seeds]
    infer(client, "post_truncating", {"head": np.stack(heads)})
    assert server.metric("endcap_postprocess_truncated_total", **labels) == before + len(heads)


def test_dropped_anchors_are_counted(client, server: RunningServer):
    labels = {"model": "post_dropping"}
    before = server.metric("endcap_postprocess_dropped_total", **labels)
    heads = np.stack([yolov8_head(1, anchors=ANCHORS, num_classes=NUM_CLASSES)] * 2)
    heads[1, 2, [3, 5]] = np.nan
    results = infer(client, "post_dropping", {"head": heads})
    assert results["status"].tolist() == [[0], [0]]
    assert server.metric("endcap_postprocess_dropped_total", **labels) == before + 2


def test_damaged_images_are_decoded_counted_and_logged(client, server: RunningServer):
    labels = {"model": "pre_damaged"}
    before = server.metric("endcap_preprocess_damaged_total", **labels)
    response = infer(client, "pre_damaged", {"encoded": strings([GOOD, BAD])})
    expected = endcap.preprocess([GOOD, BAD], **PREPROCESS, damaged="accept").images
    np.testing.assert_array_equal(response["images"], expected)
    assert server.metric("endcap_preprocess_damaged_total", **labels) == before + 1
    (line,) = wait_for(lambda: server.log_lines("decoded a damaged JPEG"))
    assert line.startswith("W")
    assert "model 'pre_damaged' version 1: decoded a damaged JPEG, Corrupt JPEG data: " in line


@pytest.mark.both_variants
def test_a_failed_request_is_logged_with_its_id(client, server: RunningServer):
    fails(client, "pre_queue", [GOOD, BAD], request_id="order-4711")
    line = wait_for(lambda: server.log_lines("order-4711"))[0]
    assert line.startswith("W")
    assert (
        "model 'pre_queue' version 1, request 'order-4711': corrupt_image: image index 1 of 2: "
        in line
    )


@pytest.mark.both_variants
def test_a_long_id_is_clipped_in_the_log(client, server: RunningServer):
    fails(client, "pre_queue", [BAD], request_id="order-4713-" + "\u00e9" * 500_000)
    (line,) = wait_for(lambda: server.log_lines("order-4713-"))
    assert "...': corrupt_image: " in line
    assert len(line) < 2000


@pytest.mark.both_variants
def test_a_request_whose_id_is_no_text_is_told_its_failure(server: RunningServer):
    encoded = raw_http.RawTensor("encoded", "BYTES", [1, 1], raw_http.bytes_tensor([BAD]))
    request_id = os.fsdecode(b"order-\xff-4712")
    status, body, _ = raw_http.post(server.http, "pre_queue", [encoded], request_id=request_id)
    assert status == 400
    assert b"corrupt_image: " in body
    (line,) = wait_for(lambda: server.log_lines("-4712': corrupt_image: "))
    assert "model 'pre_queue' version 1, request 'order-" in line


@pytest.mark.both_variants
@pytest.mark.parametrize(
    ("sequence", "text"), [(77, "correlation id 77"), ("cam-3", "correlation id 'cam-3'")]
)
def test_the_log_names_the_correlation_id(client, server: RunningServer, sequence, text):
    fails(client, "pre_queue", [BAD], sequence_id=sequence, sequence_start=True)
    assert wait_for(lambda: server.log_lines(text))


@pytest.mark.both_variants
def test_parameters_are_logged_at_load(server: RunningServer):
    (line,) = server.log_lines("model 'pre_uint8' version 1 takes ")
    assert line.startswith("I")
    for text in ("size=96,128", "layout=nhwc", "dtype=uint8", "on_error=error"):
        assert text in line


def test_statistics_tell_success_and_failure(client, server: RunningServer):
    def counts() -> tuple[int, int]:
        statistics = server.statistics("pre_queue")["inference_stats"]
        return statistics["success"]["count"], statistics["fail"]["count"]

    success, failure = rested(counts)
    infer(client, "pre_queue", {"encoded": strings([GOOD])})
    fails(client, "pre_queue", [BAD])
    wait_for(lambda: counts() == (success + 1, failure + 1))


@pytest.mark.both_variants
def test_times_of_an_execution_are_in_order(client, server: RunningServer):
    def phases() -> dict[str, int]:
        statistics = server.statistics("pre_uint8")["inference_stats"]
        names = ("compute_input", "compute_infer", "compute_output", "success")
        return {name: statistics[name]["ns"] for name in names}

    before = rested(phases)
    infer(client, "pre_uint8", {"encoded": strings([GOOD])})
    wait_for(lambda: phases() != before)
    after = rested(phases)
    spent = {name: after[name] - before[name] for name in before}
    total = spent.pop("success")
    # The decoder alone takes more than 0.1 ms for 300 x 400; no phase can be longer than the whole.
    assert spent["compute_infer"] > 100_000
    assert 0 < sum(spent.values()) <= total
    assert total < 5_000_000_000
