"""Requests that are cancelled, and requests while their model is unloaded and loaded again."""

from __future__ import annotations

import concurrent.futures
import io
import json

import numpy as np
import pytest
from PIL import Image
from tritonclient.utils import InferenceServerException

from tests.support import jpegs
from tests.triton.calls import all_in_flight, grpc_inputs, infer, strings
from tests.triton.running_server import RunningServer, wait_for

QUEUED = "pre_queue"
WAITING = 4
# Keeps the one thread at work for half a second, in which requests queue up and are cancelled
# behind it: of a PNG file few bytes have to be sent.
SLOW_FILE = io.BytesIO()
Image.new("RGB", (6000, 6000)).save(SLOW_FILE, "PNG")
LARGE = strings([SLOW_FILE.getvalue()] * 8)
# What the backend takes: a request at work, one waiting, and one that wants to wait.
TAKEN = 3
RELOADED = "pre_reloaded"
SMALL = strings([jpegs.photo_jpeg(40, 50)])


class Observed:
    """What the server itself counts for the model, from now on."""

    def __init__(self, server: RunningServer) -> None:
        self._server = server
        self._before = np.zeros(3)
        self._before = self.counts()

    def counts(self) -> np.ndarray:
        """Images, and cancelled requests by endcap's metrics and the server's own statistics."""
        images = self._server.metric("endcap_preprocess_images_total", model=QUEUED)
        labels = {"model": QUEUED, "reason": "cancelled"}
        cancelled = self._server.metric("endcap_preprocess_failed_total", **labels)
        failed = self._server.statistics(QUEUED)["inference_stats"]["fail"]["count"]
        return np.array([images, cancelled, int(failed)]) - self._before

    def wait_for_pending(self, count: int) -> None:
        pending = "nv_inference_pending_request_count"
        wait_for(lambda: self._server.metric(pending, model=QUEUED) == count)

    def expect(self, images: int, request_ids: list[str]) -> None:
        """Expects these requests to be cancelled, and no others."""
        wait_for(lambda: self.counts().tolist() == [images, len(request_ids), len(request_ids)])
        for request_id in request_ids:
            (line,) = wait_for(lambda each=request_id: self._server.log_lines(each))
            assert line.startswith("I")
            assert f"'{request_id}': the request was cancelled" in line


def send(client, encoded: np.ndarray, request_id: str) -> object:
    """A request in flight; what its own client makes of it does not matter here."""
    inputs = grpc_inputs({"encoded": encoded})
    return client.async_infer(QUEUED, inputs, lambda *_: None, request_id=request_id)


def test_cancelled_while_queued(server: RunningServer, client):
    observed = Observed(server)
    for i in range(TAKEN + 1):
        send(client, LARGE, f"keeps-it-busy-{i}")
    observed.wait_for_pending(1)
    names = [f"given-up-{i}" for i in range(WAITING)]
    waiting = [send(client, SMALL, name) for name in names]
    observed.wait_for_pending(1 + WAITING)
    for call in waiting:
        call.cancel()
    infer(client, QUEUED, {"encoded": SMALL})  # comes behind all of them
    observed.expect((TAKEN + 1) * len(LARGE) + 1, names)


def test_cancelled_while_at_work(server: RunningServer, client):
    observed = Observed(server)
    names = [f"left-behind-{i}" for i in range(TAKEN + 1)]
    calls = [send(client, LARGE, name) for name in names]
    observed.wait_for_pending(1)  # so another one is at work, whichever it is
    for call in calls:
        call.cancel()
    infer(client, QUEUED, {"encoded": SMALL})
    observed.expect(1, names)


# --- models that are loaded again -----------------------------------------------------------------


def images_done(server: RunningServer) -> float | None:
    try:
        return server.metric("endcap_preprocess_images_total", model=RELOADED)
    except KeyError:
        return None


def config(instances: int = 1, **parameters: object) -> str:
    values = {name: {"string_value": str(value)} for name, value in parameters.items()}
    return json.dumps(
        {
            "backend": "endcap_preprocess",
            "max_batch_size": 8,
            "parameters": values,
            "instance_group": [{"count": instances}],
        }
    )


@pytest.fixture
def reloaded(server: RunningServer, client):
    yield server
    client.load_model(RELOADED)


def test_metrics_go_and_come_with_the_model(client, reloaded):
    for _ in range(3):
        client.unload_model(RELOADED)
        wait_for(lambda: images_done(reloaded) is None)
        client.load_model(RELOADED)
        assert images_done(reloaded) == 0
        infer(client, RELOADED, {"encoded": SMALL})
        assert images_done(reloaded) == 1
    assert reloaded.metric("endcap_preprocess_images_total", model="pre") >= 0


def test_another_config_takes_the_place_of_the_first(client, reloaded):
    infer(client, RELOADED, {"encoded": SMALL})
    client.load_model(RELOADED, config=config(size=32, dtype="uint8"))
    expected = infer(client, RELOADED, {"encoded": SMALL})["images"]
    assert expected.shape == (1, 3, 32, 32)
    # The old one may still be on its way out; what they share must outlive it.
    wait_for(lambda: images_done(reloaded) is not None)
    infer(client, RELOADED, {"encoded": SMALL})
    assert images_done(reloaded) >= 1
    with pytest.raises(InferenceServerException, match="fit is 'squeeze'"):
        client.load_model(RELOADED, config=config(fit="squeeze"))
    response = infer(client, RELOADED, {"encoded": SMALL})
    assert response["images"].tobytes() == expected.tobytes()


@pytest.mark.parametrize("next_configs", [[None], [config(3), config(1), config(2)]])
def test_requests_under_way_get_responses_while_the_model_changes(client, reloaded, next_configs):
    """Unloaded and loaded again (None), or with other numbers of instances in the same model."""
    large = strings([jpegs.photo_jpeg(1200, 1600)])
    client.load_model(RELOADED, config=config(1))
    expected = infer(client, RELOADED, {"encoded": large})["images"].tobytes()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        responses = pool.submit(all_in_flight, client, RELOADED, [{"encoded": large}] * 48)
        wait_for(lambda: (images_done(reloaded) or 0) >= 3)  # some are done, others wait
        for changed in next_configs:
            if changed is None:
                client.unload_model(RELOADED)
            client.load_model(RELOADED, config=changed or config(1))
        # One that reached no model is refused; those that the model had get a response.
        good = [each for each in responses.result() if isinstance(each, dict)]
    assert len(good) >= 3
    assert all(each["images"].tobytes() == expected for each in good)
    infer(client, RELOADED, {"encoded": large})
