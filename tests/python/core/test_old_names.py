"""Old names of modules and of attributes: for this release they work, with a warning."""

from __future__ import annotations

import importlib
import sys

import numpy as np
import pytest

import endcap
from endcap.client import ClassScore, Detection, ImageDetections, ImageResult, Results

MOVED = {
    ("endcap.python_backend.settings", "Settings"): "endcap.triton.stage_settings",
    ("endcap.python_backend.settings", "preprocess_settings"): "endcap.triton.stage_settings",
    ("endcap.python_backend.tensor_settling", "settle"): "endcap.triton.tensor_completion",
    ("endcap.python_backend.cascade_settings", "read_cascade_settings"): (
        "endcap.triton.cascade_settings"
    ),
    ("endcap.python_backend.device", "target_of"): "endcap.python_backend.instance",
    ("endcap.python_backend.declarations", "complete_config"): "endcap.python_backend.detect_steps",
    ("endcap.python_backend.request_ids", "request_label"): "endcap.python_backend.requests",
    ("endcap.python_backend.row_memory", "RowMemory"): "endcap.python_backend.instance",
    ("endcap.client.shared_memory", "SharedMemoryPool"): "endcap.client",
    ("endcap.draw", "draw_result"): "endcap.drawing",
    ("endcap.stub", "install"): "endcap.environment.stub",
    ("endcap.web", "run"): "endcap.tools.web",
}


@pytest.mark.parametrize(("old", "name"), MOVED)
def test_an_old_name_is_the_new_one_and_warns(old: str, name: str) -> None:
    sys.modules.pop(old, None)
    new = MOVED[old, name]
    with pytest.warns(DeprecationWarning, match=f"{old} is now {new}: import it from there"):
        module = importlib.import_module(old)
    assert getattr(module, name).__module__.startswith(new)


def test_results_of_a_gpu_have_no_classes_of_their_own() -> None:
    with pytest.warns(
        DeprecationWarning, match=r"endcap\.CudaDetections is now endcap\.Detections"
    ):
        assert endcap.CudaDetections is endcap.Detections
    with pytest.warns(DeprecationWarning, match=r"endcap\.Classification$"):
        assert endcap.CudaClassification is endcap.Classification
    with pytest.raises(AttributeError, match="no attribute 'CudaDetection'"):
        endcap.CudaDetection  # noqa: B018


def test_methods_of_results_have_new_names() -> None:
    detection = Detection((1.0, 2.0, 3.0, 4.0), 0.5, 1, mask={"size": [1, 2], "counts": "02"})
    image = ImageDetections.from_list([detection])
    result = ImageResult("a.jpg", "ok", image)
    for old, new in [
        (detection.to_json, detection.to_dict()),
        (ClassScore(1, 0.5).to_json, ClassScore(1, 0.5).to_dict()),
        (result.to_json, result.to_dict()),
        (Results([result]).to_json, [result.to_dict()]),
        (result.to_detections, image),
        (lambda: result.found, image),
    ]:
        with pytest.warns(DeprecationWarning, match="is now"):
            assert old() == new
    with pytest.warns(DeprecationWarning, match=r"rotated_corners\(\) is now corners\(\)"):
        np.testing.assert_array_equal(image.rotated_corners(), image.corners())
    with pytest.warns(DeprecationWarning, match=r"masks\(\) is now the attribute masks"):
        np.testing.assert_array_equal(image.masks(), [[[True, True]]])


def test_a_list_of_detections_becomes_those_of_an_image() -> None:
    detection = Detection((1.0, 2.0, 3.0, 4.0), 0.5, 1, "ring", 3)
    with pytest.warns(DeprecationWarning, match="ImageDetections"):
        result = ImageResult("a.jpg", "ok", [detection])
    assert result.detections == ImageDetections.from_list([detection])


def test_an_answer_is_a_response() -> None:
    client = importlib.import_module("endcap.client")
    with pytest.warns(DeprecationWarning, match=r"endcap\.client\.Answer is now .*Response"):
        assert client.Answer is client.Response
    with pytest.raises(AttributeError, match="no attribute 'Answers'"):
        client.Answers  # noqa: B018


def test_the_path_of_an_implementation_is_its_kind() -> None:
    first = endcap.implementations()[0]
    with pytest.warns(DeprecationWarning, match=r"Implementation\.path is now .*kind"):
        assert first.path == first.kind
