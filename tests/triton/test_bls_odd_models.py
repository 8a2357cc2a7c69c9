"""endcap_bls over models that do not behave."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
from tritonclient.utils import InferenceServerException

from tests.support import jpegs
from tests.triton import bls_odd_models
from tests.triton.bls_calls import at_once
from tests.triton.bls_models import BATCH, told, write_classifier
from tests.triton.calls import Arrays, infer, strings
from tests.triton.running_server import RunningServer, run_server, wait_for

PHOTO = jpegs.photo_jpeg(120, 160)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("odd")
    bls_odd_models.write_all(folder)
    return folder


@pytest.fixture(scope="module")
def server(repository: Path) -> Iterator[RunningServer]:
    options = ("--model-control-mode=explicit", "--load-model=*")
    with run_server(repository, *options) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[grpc_client.InferenceServerClient]:
    with grpc_client.InferenceServerClient(server.grpc) as connection:
        yield connection


def send_request(client: Any, model: str, files: list[bytes], **options: Any) -> Arrays:
    return infer(client, model, {"encoded": strings(files)}, client_timeout=8, **options)


@pytest.mark.parametrize("counts", [(1, 3000), (3000, 1)])
@pytest.mark.parametrize("output", ["class_ids", "class_labels", "detection_boxes"])
def test_images_with_different_numbers_of_rows(client, counts, output):
    files = [told(PHOTO, count=count) for count in counts]
    with pytest.raises(InferenceServerException, match=r"model 'uneven': gave output .* of diff"):
        send_request(client, "on_uneven", files, outputs=[output])
    assert (
        send_request(client, "on_uneven", files[:1], outputs=[output])[output].shape[1] == counts[0]
    )


def test_an_ensemble_that_fails_while_another_step_runs(client):
    """The server does not release its request."""
    file = told(PHOTO, fail="INVALID_ARG", wait_s=0.6)
    for _ in range(4):  # more than `max_in_flight`
        with pytest.raises(InferenceServerException, match=r"model 'torn': .*not today"):
            send_request(client, "on_torn", [file], outputs=["detection_boxes", "status"])


@pytest.mark.parametrize(
    ("code", "status", "reason"),
    [("UNAVAILABLE", "UNAVAILABLE", "unavailable"), ("CANCELLED", "INTERNAL", "internal")],
)
def test_codes_that_apply_to_the_composing_model_only(client, server, code, status, reason):
    labels = {"model": "on_uneven", "reason": reason}
    before = server.metric("endcap_bls_failed_total", **labels)
    with pytest.raises(InferenceServerException, match="model 'uneven': not today") as error:
        send_request(client, "on_uneven", [told(PHOTO, fail=code)])
    assert error.value.status() == f"StatusCode.{status}"
    assert server.metric("endcap_bls_failed_total", **labels) == before + 1


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ("kinds_failing", "model 'kinds_failing': too bright"),
        ("kinds_odd", "model 'kinds_odd': gave output 'class_ids' of another type than TYPE_INT32"),
    ],
)
def test_a_classifier_that_fails_does_so_for_its_own_requests(client, model, says):
    dark, bright = (jpegs.encode(np.full((90, 90, 3), level, np.uint8)) for level in (60, 240))
    files = [told(dark, count=1), told(bright, count=1), told(bright, count=0), told(dark, count=1)]
    responses = at_once(client, files, f"on_{model}")
    failing = [1] if model == "kinds_failing" else [0, 1, 3]
    for index, response in enumerate(responses):
        if index in failing:
            assert isinstance(response, InferenceServerException)
            assert says in response.message()
        else:
            assert isinstance(response, dict)
            assert response["num_detections"].item() == (0 if index == 2 else 1)
            assert (response["class_ids"] == 23).sum() == (0 if index == 2 else 1)


def test_a_long_id_is_clipped_for_composing_models(client, server):
    file = told(PHOTO, fail="INVALID_ARG")
    with pytest.raises(InferenceServerException, match=r"not today, long-x+\.\.\.$") as error:
        send_request(client, "on_uneven", [file], request_id="long-" + "x" * 5000)
    assert len(error.value.message()) < 400
    (line,) = wait_for(lambda: server.log_lines("request 'long-"))
    assert len(line) < 1000


def test_composing_model_that_is_reloaded_with_more_outputs(client, repository):
    file = told(PHOTO, count=2)

    def labels() -> list[bytes]:
        outputs = ["class_ids", "class_labels"]
        return list(
            send_request(client, "on_uneven", [file], outputs=outputs)["class_labels"].ravel()
        )

    assert labels() == [b"", b""]
    shutil.rmtree(repository / "kinds")
    write_classifier(repository, "kinds", labelled=True, batch=BATCH)
    client.load_model("kinds")
    wait_for(lambda: labels()[1].startswith(b"step "))
