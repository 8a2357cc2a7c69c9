"""A model that is unloaded and loaded again, by itself or with another config."""

from __future__ import annotations

import json

import jpegs
import pytest
from calls import infer, strings
from running_server import RunningServer, wait_for
from tritonclient.utils import InferenceServerException

MODEL = "pre_reloaded"
ENCODED = strings([jpegs.photo_jpeg(50, 60)])


def images_done(server: RunningServer) -> float | None:
    try:
        return server.metric("endcap_preprocess_images_total", model=MODEL)
    except KeyError:
        return None


def config(**parameters: object) -> str:
    values = {name: {"string_value": str(value)} for name, value in parameters.items()}
    return json.dumps({"backend": "endcap_preprocess", "max_batch_size": 8, "parameters": values})


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
    answer = infer(client, MODEL, {"encoded": ENCODED})
    assert answer["images"].shape == (1, 3, 32, 32)
    # The old one may still be on its way out; what they share must outlive it.
    wait_for(lambda: images_done(server) is not None)
    infer(client, MODEL, {"encoded": ENCODED})
    assert images_done(server) >= 1


def test_a_bad_config_leaves_the_loaded_model_alone(client):
    expected = infer(client, MODEL, {"encoded": ENCODED})
    with pytest.raises(InferenceServerException, match="fit is 'squeeze'"):
        client.load_model(MODEL, config=config(fit="squeeze"))
    answer = infer(client, MODEL, {"encoded": ENCODED})
    assert answer["images"].tobytes() == expected["images"].tobytes()
