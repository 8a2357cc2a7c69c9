"""A model that is unloaded and loaded again, by itself or with another config."""

from __future__ import annotations

import concurrent.futures
import json

import pytest
from tritonclient.utils import InferenceServerException

from tests.support import jpegs
from tests.triton.calls import all_in_flight, infer, strings
from tests.triton.running_server import RunningServer, wait_for

MODEL = "pre_reloaded"
ENCODED = strings([jpegs.photo_jpeg(50, 60)])


def images_done(server: RunningServer) -> float | None:
    try:
        return server.metric("endcap_preprocess_images_total", model=MODEL)
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


@pytest.fixture(autouse=True)
def _back_to_the_folders_config(client):
    yield
    client.load_model(MODEL)


def test_metrics_go_and_come_with_the_model(client, server: RunningServer):
    for _ in range(3):
        client.unload_model(MODEL)
        wait_for(lambda: images_done(server) is None)
        client.load_model(MODEL)
        assert images_done(server) == 0
        infer(client, MODEL, {"encoded": ENCODED})
        assert images_done(server) == 1
    assert server.metric("endcap_preprocess_images_total", model="pre") >= 0


def test_another_config_takes_the_place_of_the_first(client, server: RunningServer):
    infer(client, MODEL, {"encoded": ENCODED})
    client.load_model(MODEL, config=config(size=32, dtype="uint8"))
    response = infer(client, MODEL, {"encoded": ENCODED})
    assert response["images"].shape == (1, 3, 32, 32)
    # The old one may still be on its way out; what they share must outlive it.
    wait_for(lambda: images_done(server) is not None)
    infer(client, MODEL, {"encoded": ENCODED})
    assert images_done(server) >= 1


def test_a_bad_config_leaves_the_loaded_model_alone(client):
    expected = infer(client, MODEL, {"encoded": ENCODED})
    with pytest.raises(InferenceServerException, match="fit is 'squeeze'"):
        client.load_model(MODEL, config=config(fit="squeeze"))
    response = infer(client, MODEL, {"encoded": ENCODED})
    assert response["images"].tobytes() == expected["images"].tobytes()


@pytest.mark.parametrize("next_configs", [[None], [config(3), config(1), config(2)]])
def test_requests_under_way_get_responses_while_the_model_changes(client, server, next_configs):
    """Unloaded and loaded again (None), or with other numbers of instances in the same model."""
    large = strings([jpegs.photo_jpeg(1200, 1600)])
    client.load_model(MODEL, config=config(1))
    expected = infer(client, MODEL, {"encoded": large})["images"].tobytes()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        responses = pool.submit(all_in_flight, client, MODEL, [{"encoded": large}] * 48)
        wait_for(lambda: (images_done(server) or 0) >= 3)  # some are done, others wait
        for changed in next_configs:
            if changed is None:
                client.unload_model(MODEL)
            client.load_model(MODEL, config=changed or config(1))
        # One that reached no model is refused; those that the model had get a response.
        good = [each for each in responses.result() if isinstance(each, dict)]
    assert len(good) >= 3
    assert all(each["images"].tobytes() == expected for each in good)
    infer(client, MODEL, {"encoded": large})
