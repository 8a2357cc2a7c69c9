"""A config that cannot be carried out fails the load with a message, and no other model's."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
import tritonclient.grpc as grpc_client

from tests.support import jpegs
from tests.triton.bad_configs import BAD, BAD_POSTPROCESS, BAD_PREPROCESS, BAD_ROIS
from tests.triton.calls import infer, strings
from tests.triton.model_folders import tensor, write_postprocess, write_preprocess
from tests.triton.running_server import RunningServer, run_server


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, str]]]:
    repository = tmp_path_factory.mktemp("bad")
    for name, (options, _) in BAD_PREPROCESS.items():
        write_preprocess(repository, name, max_batch_size=4, **options)
    for name, (options, _) in BAD_POSTPROCESS.items():
        write_postprocess(repository, name, max_batch_size=4, **options)
    for name, (options, _) in BAD_ROIS.items():
        write_preprocess(repository, name, **options)
    write_preprocess(repository, "good", max_batch_size=4)
    with run_server(repository) as server:
        yield server.index()


@pytest.mark.parametrize("name", sorted(BAD))
def test_load_fails_with_an_error_message(index, name):
    model = index[name]
    assert model["state"] == "UNAVAILABLE"
    assert model["reason"].startswith("Invalid argument: ")
    for text in BAD[name][1]:
        assert text in model["reason"]


def test_the_good_model_is_served(index):
    assert index["good"]["state"] == "READY"


@pytest.fixture(scope="module")
def strict_server(
    tmp_path_factory: pytest.TempPathFactory, variant: str
) -> Iterator[RunningServer]:
    """A server that completes no config and keeps no metrics."""
    repository = tmp_path_factory.mktemp("strict")
    write = partial(write_preprocess, repository, variant=variant)
    encoded = tensor("encoded", "TYPE_STRING", [1])
    images = tensor("images", "TYPE_FP32", [3, 64, 64])
    small = {"size": 64}
    write("whole", parameters=small, inputs=[encoded], outputs=[images])
    write("empty", parameters=small)
    write("wrong", inputs=[encoded], outputs=[images])
    with run_server(
        repository, "--disable-auto-complete-config", "--allow-metrics=false"
    ) as server:
        yield server


@pytest.mark.both_variants
def test_config_is_checked_where_it_is_not_completed(strict_server):
    index = strict_server.index()
    assert index["whole"]["state"] == "READY"
    assert index["wrong"]["state"] == "UNAVAILABLE"
    assert "[3, 64, 64]" in index["wrong"]["reason"]
    assert index["empty"]["state"] == "UNAVAILABLE"
    assert "encoded" in index["empty"]["reason"]


@pytest.mark.both_variants
def test_a_server_without_metrics_serves(strict_server):
    with grpc_client.InferenceServerClient(strict_server.grpc) as client:
        files = strings([jpegs.photo_jpeg(30, 40)], batched=False)
        assert infer(client, "whole", {"encoded": files})["images"].shape == (3, 64, 64)
