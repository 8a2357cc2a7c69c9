"""endcap top on a server that works."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import client_models
import jpegs
import pytest
from calls import infer, strings
from cli_runs import endcap
from running_server import RunningServer, wait_for
from tritonclient.utils import InferenceServerException

from endcap.server import ServerPorts, ServerSettings, TritonServer
from endcap.tools.top.rates import Interval
from endcap.tools.top.watch import Update, Watch

GOOD = jpegs.photo_jpeg(300, 400)


@pytest.fixture
def free_port() -> int:
    """A port that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def metrics(server: RunningServer) -> str:
    return f"127.0.0.1:{server.ports.metrics}"


def request_count(client, model: str) -> int:
    """Requests that the server's statistics have: a response is sent before it is counted."""
    (entry,) = client.get_inference_statistics(model).model_stats
    return int(entry.inference_stats.success.count + entry.inference_stats.fail.count)


def finished(watch: Watch) -> Interval:
    interval = watch.update().interval
    assert interval is not None
    return interval


def test_what_was_requested_is_what_is_shown(client, server: RunningServer):
    watch = Watch(server.grpc, metrics(server), ["pre_blank"])
    before = request_count(client, "pre_blank")
    watch.update()
    infer(client, "pre_blank", {"encoded": strings([GOOD, GOOD[:500], GOOD])})
    infer(client, "pre_blank", {"encoded": strings([GOOD])})
    wait_for(lambda: request_count(client, "pre_blank") == before + 2)
    interval = finished(watch)
    (model,), (stage,) = interval.models, interval.stages
    rates = (model.requests_per_s, model.images_per_s, stage.images_per_s, stage.failures_per_s)
    assert [rate and round(rate * interval.seconds) for rate in rates] == [2, 4, 3, 1]
    assert model.batch_size == 2  # of two executions
    assert list(stage.failures) == ["corrupt_image"]
    assert stage.decode_ms is not None
    assert 0.1 < stage.decode_ms < 1000
    assert model.compute_infer_ms is not None
    assert model.total_ms is not None
    assert 0.1 < model.compute_infer_ms < model.total_ms
    assert not interval.restarted


def test_requests_that_fail_have_their_reason(client, server: RunningServer):
    watch = Watch(server.grpc, metrics(server), ["pre_queue"])
    before = request_count(client, "pre_queue")
    watch.update()
    with pytest.raises(InferenceServerException):
        infer(client, "pre_queue", {"encoded": strings([b"none"])})
    wait_for(lambda: request_count(client, "pre_queue") == before + 1)
    (model,) = finished(watch).models
    assert list(model.failures) == ["BACKEND"]
    assert model.requests_per_s == 0
    assert model.queue_ms is None


def test_the_metrics_of_a_server_here_are_found_by_either_address(server: RunningServer):
    for url in (server.grpc, f"http://{server.http}", f"localhost:{server.ports.http}"):
        watch = Watch(url, None, ["pre_blank"])
        assert watch.url == f"http://127.0.0.1:{server.ports.metrics}/metrics"
        assert watch.update() == Update()
    done = endcap("top", "--url", server.grpc, "--once", "--interval", "0.2", "--json")
    assert json.loads(done.stdout)["url"] == watch.url


def test_a_server_that_comes_back_at_another_port_is_found(tmp_path: Path, free_port: int):
    client_models.write_classes(tmp_path)
    settings = ServerSettings(ports=ServerPorts(http=free_port, grpc=0, metrics=0))
    watch = Watch(f"http://127.0.0.1:{free_port}", None, ())
    problem = watch.update().problem
    assert problem is not None
    assert "http://127.0.0.1:8002/metrics" in problem
    for _ in range(2):
        with TritonServer(tmp_path, settings) as started:
            watch.update()  # looks again, as the last address had no metrics
            assert watch.update().problem is None
            assert watch.url == started.metrics_url
        assert watch.update().problem is not None


def test_once_by_the_command(server: RunningServer):
    done = endcap("top", "--metrics-url", metrics(server), "--once", "--interval", "0.2", "--json")
    figures = json.loads(done.stdout)
    assert {"pre", "post", "classes"} <= {model["model"] for model in figures["models"]}
    assert all(model["requests_per_s"] == 0 for model in figures["models"])
    assert {"endcap_preprocess", "endcap_postprocess"} == {s["backend"] for s in figures["stages"]}
    assert done.stderr == ""


def test_a_model_that_is_loaded_again_is_a_restart(client, server: RunningServer):
    before = request_count(client, "pre_reloaded")
    infer(client, "pre_reloaded", {"encoded": strings([GOOD])})
    wait_for(lambda: request_count(client, "pre_reloaded") == before + 1)
    watch = Watch(server.grpc, metrics(server), ["pre_reloaded"])
    watch.update()
    client.unload_model("pre_reloaded")
    wait_for(lambda: server.index()["pre_reloaded"].get("reason") == "unloaded")
    client.load_model("pre_reloaded")
    interval = finished(watch)
    assert interval.restarted
    assert [model.requests_per_s for model in interval.models] == [None]
    infer(client, "pre_reloaded", {"encoded": strings([GOOD])})
    wait_for(lambda: request_count(client, "pre_reloaded") == 1)
    interval = finished(watch)
    assert not interval.restarted
    assert interval.totals.requests_per_s * interval.seconds == pytest.approx(1)


def test_another_port_of_the_server_is_an_error(server: RunningServer):
    for port in (server.ports.http, server.ports.grpc):
        problem = Watch(server.grpc, f"127.0.0.1:{port}", ()).update().problem
        assert problem is not None
        assert "port 8002" in problem


def test_a_live_server_without_metrics_gets_advice(server: RunningServer, free_port: int):
    for address in (server.grpc, f"http://{server.http}"):
        problem = Watch(address, f"127.0.0.1:{free_port}", ()).update().problem
        assert problem is not None
        assert "Connection refused" in problem
        assert "is live: it may run without metrics (Triton's --allow-metrics=false)" in problem
