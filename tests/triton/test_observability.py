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


def fail(client, model: str, files: list[bytes], **options: object) -> None:
    with pytest.raises(InferenceServerException):
        infer(client, model, {"encoded": strings(files)}, **options)


def preprocess_metric(server: RunningServer, name: str, **labels: str) -> float:
    labels = {"model": "pre_blank", "version": "1", **labels}
    return server.metric(f"endcap_preprocess_{name}", **labels)


def test_metrics_count_images_failures_and_time(client, server: RunningServer):
    def counts() -> np.ndarray:
        corrupt = preprocess_metric(server, "failed_total", reason="corrupt_image")
        names = ("images_total", "decode_seconds_total")
        return np.array([corrupt, *(preprocess_metric(server, name) for name in names)])

    before = counts()
    infer(client, "pre_blank", {"encoded": strings([GOOD, BAD, GOOD])})
    corrupt, images, seconds = counts() - before
    assert (corrupt, images) == (1, 2)
    assert 1e-4 < seconds < 5
    for status in endcap.Status:
        if status is not endcap.Status.OK:
            assert preprocess_metric(server, "failed_total", reason=status.label) >= 0


def test_a_bad_region_is_counted_once(client, server: RunningServer):
    failures = {"model": "rois", "reason": "invalid_argument"}
    failed = server.metric("endcap_preprocess_failed_total", **failures)
    outside = np.float32([[0, 0, 9, 9], [900, 900, 999, 999]])
    with pytest.raises(InferenceServerException, match="roi index 1 of 2"):
        infer(client, "rois", {"encoded": strings([GOOD], batched=False), "rois": outside})
    assert server.metric("endcap_preprocess_failed_total", **failures) == failed + 1


def test_truncated_images_and_dropped_anchors_are_counted(client, server: RunningServer):
    heads = [yolov8_head(seed, anchors=ANCHORS, num_classes=NUM_CLASSES) for seed in range(5)]
    bad = np.stack(heads[:2])
    bad[1, 2, [3, 5]] = np.nan
    for name, head, count in (("truncat", np.stack(heads), len(heads)), ("dropp", bad, 2)):
        model, metric = f"post_{name}ing", f"endcap_postprocess_{name}ed_total"
        before = server.metric(metric, model=model)
        assert not infer(client, model, {"head": head})["status"].any()
        assert server.metric(metric, model=model) == before + count


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


def test_a_failed_request_is_logged_with_its_id(client, server: RunningServer):
    fail(client, "pre_queue", [GOOD, BAD], request_id="order-4711")
    (line,) = wait_for(lambda: server.log_lines("order-4711"))
    assert line.startswith("W")
    about = "model 'pre_queue' version 1, request 'order-4711': corrupt_image: image index 1 of 2: "
    assert about in line
    fail(client, "pre_queue", [BAD], request_id="order-4713-" + "\u00e9" * 500_000)
    (line,) = wait_for(lambda: server.log_lines("order-4713-"))
    assert "...': corrupt_image: " in line
    assert len(line) < 2000
    for sequence, text in ((77, "correlation id 77"), ("cam-3", "correlation id 'cam-3'")):
        fail(client, "pre_queue", [BAD], sequence_id=sequence, sequence_start=True)
        assert wait_for(lambda text=text: server.log_lines(text))


def test_request_with_undecodable_id_gets_its_failure(server: RunningServer):
    encoded = raw_http.RawTensor("encoded", "BYTES", [1, 1], raw_http.bytes_tensor([BAD]))
    request_id = os.fsdecode(b"order-\xff-4712")
    status, body, _ = raw_http.post(server.http, "pre_queue", [encoded], request_id=request_id)
    assert status == 400
    assert b"corrupt_image: " in body
    (line,) = wait_for(lambda: server.log_lines("-4712': corrupt_image: "))
    assert "model 'pre_queue' version 1, request 'order-" in line


def test_parameters_are_logged_at_load(client, server: RunningServer):
    client.load_model("pre_uint8")
    line = server.log_lines("model 'pre_uint8' version 1 takes ")[-1]
    assert line.startswith("I")
    for text in ("size=96,128", "layout=nhwc", "dtype=uint8", "on_error=error"):
        assert text in line


def test_statistics_tell_success_failure_and_times(client, server: RunningServer):
    names = ("compute_input", "compute_infer", "compute_output", "success")

    def statistics() -> np.ndarray:
        stats = server.statistics("pre_queue")["inference_stats"]
        counts = [stats[name]["count"] for name in ("success", "fail")]
        return np.array([*counts, *(stats[name]["ns"] for name in names)], np.int64)

    before = rested(lambda: statistics().tolist())
    infer(client, "pre_queue", {"encoded": strings([GOOD])})
    fail(client, "pre_queue", [BAD])
    wait_for(lambda: (statistics() - before)[:2].tolist() == [1, 1])
    *spent, total = (statistics() - before)[2:]
    # The decoder alone takes more than 0.1 ms for 300 x 400; no phase can be longer than the whole.
    assert spent[1] > 100_000
    assert 0 < sum(spent) <= total < 5_000_000_000
