"""What endcap init reads off a graph: the scores before its end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from endcap.repository.detection_rows import propose_detections
from endcap.repository.graph_evidence import find_score_threshold
from endcap.repository.head_evidence import Hints
from endcap.repository.network_tensors import NetworkOutput, ScoreColumns
from endcap.repository.onnx_file import read_metadata


def graph(*nodes: tuple[str, list[str], str]) -> Any:
    made = [helper.make_node(kind, inputs, [output]) for kind, inputs, output in nodes]
    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])
    return helper.make_graph(made, "g", [image], [])


def rows(class_ids: list[int]) -> tuple[NetworkOutput, ...]:
    """Detections of a fixed number, in batches."""
    count = len(class_ids)
    boxes = np.tile([1.0, 2.0, 30.0, 40.0], (count, 1))
    arrays = {"boxes": boxes, "scores": np.full(count, 0.5), "labels": np.array(class_ids, float)}
    types = {"labels": "INT64"}
    return tuple(
        NetworkOutput(
            name=name,
            data_type=types.get(name, "FP32"),
            dims=array.shape,
            has_batch=True,
            is_dynamic=(True, *[False] * array.ndim),
            values=array,
        )
        for name, array in arrays.items()
    )


def hints(columns: ScoreColumns | None, **settings: str) -> Hints:
    return Hints((64, 64), read_metadata({}), None, None, settings, columns)


def test_a_softmax_with_class_0_among_the_rows_has_its_background_last() -> None:
    (head,) = propose_detections(rows([0, 2, 1]), hints(ScoreColumns(4, "Softmax")))
    assert (head.num_classes, head.parameters["background"].value) == (3, "none")


def test_a_softmax_over_rows_of_a_fixed_number_is_asked_about() -> None:
    (head,) = propose_detections(rows([1, 2, 1]), hints(ScoreColumns(4, "Softmax")))
    assert "--set background=none (with 0) or first (with 1)" in head.missing
    given = hints(ScoreColumns(4, "Softmax"), background="first")
    (head,) = propose_detections(rows([1, 2, 1]), given)
    assert (head.num_classes, head.missing) == (3, "")


def test_unknown_scores_leave_the_classes_to_the_user() -> None:
    (head,) = propose_detections(rows([1, 2, 1]), hints(None))
    assert head.num_classes is None
    assert "background" not in head.parameters


SELECTED = [("Greater", ["x", "limit"], "mask"), ("Cast", ["mask"], "flags")]


@pytest.mark.parametrize(
    ("nodes", "limits", "expected"),
    [
        ([*SELECTED, ("NonZero", ["flags"], "rows")], {"limit": 0.05}, 0.05),
        ([SELECTED[0], ("NonZero", ["mask"], "rows")], {"limit": 0.25}, 0.25),
        ([*SELECTED, ("NonZero", ["flags"], "rows")], {"limit": 4.0}, None),
        ([*SELECTED, ("NonZero", ["flags"], "rows")], {}, None),
        ([*SELECTED], {"limit": 0.25}, None),
        (
            [
                *SELECTED,
                ("NonZero", ["flags"], "rows"),
                ("Greater", ["x", "other"], "mask2"),
                ("NonZero", ["mask2"], "rows2"),
            ],
            {"limit": 0.25, "other": 0.5},
            None,
        ),
    ],
    ids=["cast", "direct", "pixels", "no constant", "no selection", "two"],
)
def test_the_threshold_by_which_rows_are_selected(
    nodes: list[tuple[str, list[str], str]], limits: dict[str, float], expected: float | None
) -> None:
    made = graph(*nodes)
    made.initializer.extend(
        numpy_helper.from_array(np.array(value, np.float32), name) for name, value in limits.items()
    )
    assert find_score_threshold(made) == expected
