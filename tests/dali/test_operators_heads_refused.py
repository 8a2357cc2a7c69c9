"""Heads, geometry and status that fn.endcap.postprocess cannot use."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from nvidia.dali import fn

import endcap
from tests.dali.dali_runs import run
from tests.support import sample_heads

HEADS = [sample_heads.yolov8_head(s, anchors=60, num_classes=7) for s in range(3)]
NAN = HEADS[1].copy()
NAN[0, 5] = NAN[6, 5] = np.nan


def postprocess(inputs: dict[str, list[Any]], head: str = "yolov8", **fields: Any) -> list[Any]:
    fields = {"num_classes": 7, **fields}
    return run(lambda **nodes: fn.endcap.postprocess(*nodes.values(), head=head, **fields), inputs)


@pytest.mark.parametrize("bad", [HEADS[0][:9], HEADS[0][0], NAN], ids=["rows", "rank", "nan"])
def test_a_bad_head_ends_the_pipeline_with_its_sample_and_error_message(bad: Any) -> None:
    if bad.ndim == 1:
        with pytest.raises(ValueError, match="invalid_argument: image index 0 of 2: head has"):
            postprocess({"head": [bad, bad]})
        return
    with pytest.raises(ValueError, match="invalid_argument: image index 1 of 3: head"):
        postprocess({"head": [HEADS[0], bad, HEADS[2]]})


@pytest.mark.parametrize("bad", [HEADS[0][:9], NAN], ids=["rows", "nan"])
def test_with_output_status_a_bad_head_is_told_there(bad: Any) -> None:
    outputs = postprocess({"head": [HEADS[0], bad, HEADS[2]]}, output_status=True)
    assert len(outputs) == 6
    assert [list(s) for s in outputs[5]] == [[0], [int(endcap.Status.INVALID_ARGUMENT)], [0]]
    assert int(outputs[0][1][0]) == 0
    assert (outputs[4][1] == -1).all()
    good = postprocess({"head": [HEADS[0], HEADS[2]]})
    for output, wanted in zip(outputs, good, strict=False):
        np.testing.assert_array_equal(np.stack([output[0], output[2]]), np.stack(wanted))


def test_output_status_is_that_of_the_image() -> None:
    geometry = [np.array([1, 1, 0, 0, 9, 9, 1, 0], np.float32)] * 3
    status = [np.array([s], np.int32) for s in (0, 2, 1)]
    outputs = postprocess({"h": HEADS, "geometry": geometry, "status": status}, output_status=True)
    assert [int(s[0]) for s in outputs[5]] == [0, 2, 1]


@pytest.mark.parametrize("inputs", [0, 4], ids=["too few", "too many"])
def test_a_number_of_inputs_that_does_not_fit(inputs: int) -> None:
    head = "rtdetr" if inputs == 0 else "yolov8"
    names = "give logits, boxes, and perhaps" if inputs == 0 else "give head, and perhaps"
    given = {f"input_{i}": HEADS for i in range(max(inputs, 1))}
    with pytest.raises(ValueError, match=f'inputs do not fit head="{head}": {names} geometry'):
        postprocess(given, head)


@pytest.mark.parametrize(
    ("geometry", "status", "message"),
    [
        (np.zeros(7, np.float32), None, "geometry is not float "),
        (np.zeros(8, np.float64), None, "geometry is double: give float"),
        (np.zeros(8, np.float32), np.zeros(2, np.int32), "status is not int32 "),
    ],
)
def test_geometry_and_status_that_do_not_fit(geometry: Any, status: Any, message: str) -> None:
    inputs = {"head": HEADS[:1], "geometry": [geometry]}
    if status is not None:
        inputs["status"] = [status]
    with pytest.raises(ValueError, match=message):
        postprocess(inputs)


def test_a_head_of_doubles() -> None:
    with pytest.raises(ValueError, match=r"head is double: give float or float16.*fn\.cast"):
        postprocess({"head": [HEADS[0].astype(np.float64)]})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"head": "yolov9"}, "head is 'yolov9': give one of"),
        ({"head": "yolov8_seg"}, "give mask_resolution="),
    ],
    ids=str,
)
def test_a_parameter_that_cannot_be_used(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        postprocess({"head": HEADS[:1]}, **fields)
