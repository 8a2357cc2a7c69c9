"""A cascade whose composing models fail, are missing, or lack outputs; with a scripted detector."""

from __future__ import annotations

import json
import queue

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
from calls import Arrays, grpc_inputs, infer, strings, to_arrays
from cascade_models import (
    BATCH_SIZE,
    CASCADE,
    FAILING_LEVEL,
    ROWS,
    SCRIPTED,
    SLOW_LINE,
    THRESHOLD,
    Row,
    picture,
)
from running_server import RunningServer, wait_for
from tolerances import CROP_MEAN
from tritonclient.utils import InferenceServerException

import endcap

OK, FAILING, NOWHERE, ABSENT, ODD = (
    0,
    1,
    3,
    4,
    5,
)  # classes of the detector, by what becomes of them
BRIGHT = 190  # a picture of this level makes the failing classifier fail


def row(x: float, class_id: int, *, score: float = 0.9, width: float = 40) -> Row:
    return (x, 30, x + width, 90, score, class_id)


def shade(file: bytes, box: tuple[float, ...]) -> tuple[int, float]:
    """What the classifiers of the scripted cascade return."""
    rois = np.array([box], np.float32)
    crop = endcap.preprocess(
        file, preset="torchvision", fit="stretch", exif="apply", size=224, rois=rois
    )
    means = np.asarray(crop.images)[0].mean(axis=(1, 2))
    return int(means.argmax()), float(means.max())


def assert_shades(response: Arrays, file: bytes, rows: list[Row], classified: list[bool]) -> None:
    assert response["num_detections"].tolist() == [[len(rows)]]
    for r, (each, is_classified) in enumerate(zip(rows, classified, strict=True)):
        np.testing.assert_array_equal(response["detection_boxes"][0, r], np.float32(each[:4]))
        expected = shade(file, each[:4]) if is_classified else (-1, 0.0)
        assert response["class_ids"][0, r] == expected[0]
        assert response["class_scores"][0, r] == pytest.approx(expected[1], abs=CROP_MEAN)
    assert (response["class_ids"][0, len(rows) :] == -1).all()
    assert (response["class_labels"] == b"").all()  # this classifier has none


def send_together(
    server: RunningServer, files: list[bytes]
) -> list[Arrays | InferenceServerException]:
    """One request for each file; the cascade waits for all of them and works on them together."""
    responses: queue.Queue[tuple[int, object, object]] = queue.Queue()
    executions = server.executions(SCRIPTED)
    with grpc_client.InferenceServerClient(server.grpc) as client:
        for index, file in enumerate(files):
            client.async_infer(
                SCRIPTED,
                grpc_inputs({"encoded": strings([file])}),
                callback=lambda result, error, index=index: responses.put((index, result, error)),
            )
        received = {
            index: error or to_arrays(result)
            for index, result, error in (responses.get(timeout=30) for _ in files)
        }
    assert server.executions(SCRIPTED) == executions + 1
    return [received[index] for index in range(len(files))]


def test_score_route_and_region_decide(cascades):
    rows = [
        row(10, OK),
        row(60, NOWHERE),
        row(400, OK),  # outside the picture: its crop is blank
        row(100, FAILING),
        row(150, OK, score=np.nextafter(np.float32(THRESHOLD), np.float32(1)).item()),
        row(200, OK, score=THRESHOLD),
    ]
    file = picture(rows)
    response = infer(cascades, SCRIPTED, {"encoded": strings([file])})
    assert_shades(response, file, rows, [True, False, False, True, True, False])


def test_crops_of_all_requests_go_to_the_classifier_together(cascade_server):
    counts = [3, 0, 5, 1, 30]
    pictures = [[row(9 * i, OK) for i in range(count)] for count in counts]
    files = [picture(rows) for rows in pictures]
    before = {m: cascade_server.requests(m) for m in ("preprocess_rois", "shades")}
    responses = send_together(cascade_server, files)
    for file, rows, response in zip(files, pictures, responses, strict=True):
        assert_shades(response, file, rows, [True] * len(rows))
    # One decoding for each image that has a detection, and no more requests than it takes.
    assert cascade_server.requests("preprocess_rois") == before["preprocess_rois"] + 4
    full = -(-sum(counts) // BATCH_SIZE)
    assert cascade_server.requests("shades") == before["shades"] + full


def test_a_failing_classifier_fails_the_requests_that_it_fails_for(cascade_server):
    rows = [row(20, FAILING)]
    dark, bright = picture(rows), picture(rows, level=BRIGHT)
    assert shade(dark, rows[0][:4])[1] < FAILING_LEVEL < shade(bright, rows[0][:4])[1]
    responses = send_together(cascade_server, [dark, bright, picture([]), dark])
    for index in (0, 3):
        assert_shades(responses[index], dark, rows, [True])
    assert_shades(responses[2], picture([]), [], [])
    assert isinstance(responses[1], InferenceServerException)
    assert responses[1].message() == "model 'shades_failing': too bright"
    assert responses[1].status() == "StatusCode.INTERNAL"


def test_missing_classifier(cascade_server):
    rows = [row(20, OK), row(90, ABSENT)]
    good = picture(rows[:1])
    responses = send_together(cascade_server, [picture(rows), good])
    assert isinstance(responses[0], InferenceServerException)
    assert responses[0].message().startswith("model 'absent': ")
    assert_shades(responses[1], good, rows[:1], [True])


def test_a_classifier_whose_ids_are_no_numbers(cascade_server):
    rows = [row(20, OK)]
    good = picture(rows)
    responses = send_together(cascade_server, [good, picture([row(20, ODD)]), good])
    for index in (0, 2):
        assert_shades(responses[index], good, rows, [True])
    assert isinstance(responses[1], InferenceServerException)
    assert "model 'shades_odd'" in responses[1].message()
    assert "class_ids" in responses[1].message()


def test_a_failing_detector(cascades, cascade_server):
    no_comment = picture([]).replace(b"rows:", b"none:")
    encoded = strings([no_comment])
    with pytest.raises(InferenceServerException, match="model 'scripted': corrupt_image") as error:
        infer(cascades, SCRIPTED, {"encoded": encoded}, request_id="a-7")
    assert error.value.status() == "StatusCode.INVALID_ARGUMENT"
    said = f"model '{SCRIPTED}' version 1, request 'a-7': "
    (line,) = wait_for(lambda: cascade_server.log_lines(said))
    assert line.startswith("W")
    assert "model 'scripted': corrupt_image: there is no comment" in line


def test_a_file_that_only_the_detector_could_read(cascades):
    """The scripted detector does not decode; the model that cuts regions out fails."""
    broken = b"rows:" + json.dumps([row(20, OK)]).encode() + b"!"
    response = infer(cascades, SCRIPTED, {"encoded": strings([broken])})
    assert response["num_detections"].tolist() == [[1]]
    assert (response["class_ids"] == -1).all()  # preprocess_rois blanks what it cannot decode


def test_a_batch_of_pictures_in_one_request(cascades):
    pictures = [[row(20, OK)], [], [row(50, FAILING), row(90, OK)]]
    files = [picture(rows) for rows in pictures]
    response = infer(cascades, SCRIPTED, {"encoded": strings(files)})
    assert response["class_ids"].shape == (3, ROWS)
    for i, (file, rows) in enumerate(zip(files, pictures, strict=True)):
        of_image = {name: values[i : i + 1] for name, values in response.items()}
        assert_shades(of_image, file, rows, [True] * len(rows))


def test_a_cancelled_request_makes_no_further_calls(cascade_server):
    encoded = strings([picture([row(20, OK)], slow=True)])
    requests_before, slow = (
        cascade_server.requests("preprocess_rois"),
        slow_pictures(cascade_server),
    )
    with grpc_client.InferenceServerClient(cascade_server.grpc) as client:
        call = client.async_infer(
            SCRIPTED,
            grpc_inputs({"encoded": encoded}),
            callback=lambda result, error: None,
            request_id="given-up",
        )
        wait_for(lambda: slow_pictures(cascade_server) > slow)
        call.cancel()
    wait_for(lambda: given_up(cascade_server))
    assert cascade_server.requests("preprocess_rois") == requests_before


def slow_pictures(server: RunningServer) -> int:
    return len(server.log_lines(SLOW_LINE))


def given_up(server: RunningServer) -> list[str]:
    said = f"'{SCRIPTED}' version 1, request 'given-up': the request was cancelled"
    return server.log_lines(said)


def test_an_unknown_parameter_fails_the_load(cascades):
    config = cascades.get_model_config(CASCADE, as_json=True)["config"]
    config["parameters"]["clasifiers"] = {"string_value": ""}
    said = "'clasifiers' is not a parameter of this [a-z]+: there are detect_model, classifiers, "
    with pytest.raises(InferenceServerException, match=said):
        cascades.load_model(CASCADE, config=json.dumps(config))
    assert cascades.is_model_ready(CASCADE)  # as it was
