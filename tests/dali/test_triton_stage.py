"""What `preprocess_dali` is made of, without a server, compared with `preprocess_python`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import endcap
from endcap.cuda_array import Target
from endcap.python_backend.preprocess_dali_stage import PreprocessDaliStage
from endcap.python_backend.preprocess_stage import PreprocessStage
from endcap.triton.installation import gpu_count
from endcap.triton.stage_settings import StageSettings, preprocess_settings
from tests.support import jpegs
from tests.support.server_requests import StubRequest, run_stage

FILES = [jpegs.photo_jpeg(60 + 17 * i, 150 - 9 * i, seed=i) for i in range(4)]
CUT = FILES[3][:700]
IMAGES = ("images", "geometry", "status")

TARGETS = [
    pytest.param(None, id="cpu"),
    pytest.param(
        Target(0),
        id="gpu",
        marks=pytest.mark.skipif(gpu_count() == 0, reason="this machine has no GPU"),
    ),
]


def settings(max_batch_size: int = 8, **parameters: object) -> StageSettings:
    values = {name: {"string_value": str(value)} for name, value in parameters.items()}
    return preprocess_settings({"max_batch_size": max_batch_size, "parameters": values})


def request(*files: bytes, wanted: tuple[str, ...] = IMAGES) -> StubRequest:
    array = np.empty((len(files), 1), np.object_)
    array[:, 0] = files
    return StubRequest({"encoded": array}, wanted)


def assert_same(actual: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    for one, other in zip(actual, expected, strict=True):
        assert one.keys() == other.keys()
        for name, rows in one.items():
            assert (rows.dtype, rows.shape) == (other[name].dtype, other[name].shape)
            assert rows.tobytes() == other[name].tobytes(), name


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "parameters",
    [
        {"size": "48,64", "dtype": "uint8", "layout": "nhwc", "color": "bgr"},
        {"size": 32, "dtype": "float16", "mean": "0.1,0.2,0.3", "std": 0.5, "upscale": "false"},
        {"size": 64, "on_error": "blank"},
    ],
)
def test_requests_of_a_batch(parameters: dict[str, object], target: Target | None) -> None:
    given = settings(**parameters)
    requests = [request(*FILES[:2]), request(FILES[2], wanted=("status",)), request(FILES[3])]
    if "on_error" in parameters:
        requests.append(request(FILES[0], CUT, b""))
    dali, python = PreprocessDaliStage(given, target), PreprocessStage(given, target)
    for _ in range(2):  # the second run goes where the first one's results were
        assert_same(run_stage(dali, requests), run_stage(python, requests))


@pytest.mark.parametrize("target", TARGETS)
def test_a_bad_image_fails_its_own_request(target: Target | None) -> None:
    stage = PreprocessDaliStage(settings(size=64), target)
    jobs = [stage.prepare(each) for each in (request(FILES[0]), request(FILES[1], CUT))]
    stage.run(jobs)
    rows = stage.finish(jobs[0])["images"]
    images = rows if isinstance(rows, np.ndarray) else rows.to_numpy()
    alone = PreprocessDaliStage(settings(size=64), target)
    assert_same([{"images": images}], run_stage(alone, [request(FILES[0], wanted=("images",))]))
    with pytest.raises(endcap.CorruptImageError, match=r"^image index 1 of 2: the JPEG is cut"):
        stage.finish(jobs[1])


def test_images_without_a_batch_dimension() -> None:
    stage = PreprocessDaliStage(settings(0, size=64), None)
    tensors = {"encoded": np.array([FILES[0]], np.object_)}
    (response,) = run_stage(stage, [StubRequest(tensors, IMAGES)])
    assert_same(
        [response],
        run_stage(PreprocessStage(settings(0, size=64), None), [StubRequest(tensors, IMAGES)]),
    )
    assert response["images"].shape == (3, 64, 64)


def test_regions_are_refused() -> None:
    inputs = [{"name": "encoded"}, {"name": "rois"}]
    with pytest.raises(endcap.UnsupportedError, match="such as preprocess_rois"):
        preprocess_settings({"input": inputs})
