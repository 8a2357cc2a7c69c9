"""fn.endcap.postprocess equals endcap.Postprocessor for every layout of outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from nvidia.dali import fn

import endcap
from tests.dali.dali_runs import as_bytes, run
from tests.support import jpegs, sample_heads

COUNT = 4
DETECTIONS = ("num_detections", "boxes", "scores", "class_ids", "indices")
Tensors = dict[str, npt.NDArray[Any]]


def heads(family: str) -> tuple[list[Tensors], dict[str, Any]]:
    """A batch of the family's tensors, and the parameters they ask for."""
    sample = sample_heads.FAMILIES[family]
    return sample.images(COUNT), {"num_classes": 7, **sample.parameters}


GEOMETRY = [
    np.array([0.5 + i / 10, 0.5, 3, 20 + i, 900, 700, 1, 0], np.float32) for i in range(COUNT)
]


def postprocess(batch: list[Tensors], head: str, others: Any = (), **fields: Any) -> list[Any]:
    """The operator's outputs; `others`: geometry and status of each sample."""
    inputs = {name: [tensors[name] for tensors in batch] for name in batch[0]}
    inputs |= dict(zip(("geometry", "status"), others, strict=False))
    # The family is an argument of the same name as its first tensor.
    return run(lambda **nodes: fn.endcap.postprocess(*nodes.values(), head=head, **fields), inputs)


def wanted_rows(
    batch: list[Tensors], head: str, geometry: Any, status: Any, fields: dict[str, Any]
) -> list[Any]:
    stacked = {name: np.stack([tensors[name] for tensors in batch]) for name in batch[0]}
    result = endcap.Postprocessor(head, packed_masks=head.endswith("_seg"), **fields)(
        stacked, geometry, status
    )
    if head == "classification":
        return [result.scores, result.class_ids, result.probabilities]
    rows = [getattr(result, name) for name in DETECTIONS]
    rows[0] = rows[0][:, None]
    own = {
        "pose": [result.keypoints],
        "obb": [result.angles],
        "seg": [result.mask_size, result.packed_masks],
    }
    return rows + own.get(head.rpartition("_")[2], [])


def expect_equal(outputs: list[Any], wanted: list[Any]) -> None:
    assert len(outputs) == len(wanted)
    for output, rows in zip(outputs, wanted, strict=True):
        np.testing.assert_array_equal(np.stack(output), rows)
        assert output[0].dtype == rows.dtype


LAYOUTS = ("yolov8", "rtdetr", "yolov8_seg", "yolov8_pose", "yolov8_obb", "classification")


@pytest.mark.parametrize("family", LAYOUTS)
@pytest.mark.parametrize("given", ["head", "geometry and status"])
def test_every_layout(family: str, given: str) -> None:
    batch, fields = heads(family)
    geometry = None if given == "head" else np.stack(GEOMETRY)
    status = None if given == "head" else np.array([0, 1, 0, 2], np.int32)
    others: list[Any] = [] if geometry is None else [GEOMETRY]
    if status is not None:
        others.append([np.array([s], np.int32) for s in status])
    outputs = postprocess(batch, family, others, **fields)
    expect_equal(outputs, wanted_rows(batch, family, geometry, status, fields))
    if family != "classification":
        assert sum(int(n[0]) for n in outputs[0]) > 0


@pytest.mark.parametrize(
    "fields",
    [
        {"multi_label": True, "score_threshold": 0.05, "max_detections": 17},
        {"classes": [0, 2, 5], "score_thresholds": [0.5, 0.25, 0.125, 0.5, 0.5, 0.75, 0.5]},
    ],
    ids=str,
)
def test_parameters_of_every_type(fields: dict[str, Any]) -> None:
    batch, classes = heads("yolov8")
    fields = {**classes, **fields}
    outputs = postprocess(batch, "yolov8", **fields)
    expect_equal(outputs, wanted_rows(batch, "yolov8", None, None, fields))


def test_half_precision_and_heads_of_any_length() -> None:
    batch = [
        {"head": sample_heads.yolov8_head(s, anchors=50 * (s + 1), num_classes=7)} for s in range(3)
    ]
    halves = [{"head": t["head"].astype(np.float16)} for t in batch]
    outputs = postprocess(halves, "yolov8", num_classes=7)
    for i, tensors in enumerate(halves):
        wanted = wanted_rows([tensors], "yolov8", None, None, {"num_classes": 7})
        expect_equal([[output[i]] for output in outputs], wanted)


def test_from_file_to_boxes() -> None:
    files = [jpegs.photo_jpeg(100, 160), b"", jpegs.photo_jpeg(200, 120, seed=1)]
    head = [sample_heads.yolov8_head(s, anchors=300, num_classes=7) for s in range(3)]

    def graph(encoded: Any, head: Any) -> Any:
        _, geometry, status = fn.endcap.preprocess(encoded, size=640)
        return fn.endcap.postprocess(head, geometry, status, head="yolov8", num_classes=7)

    outputs = run(graph, {"encoded": [as_bytes(f) for f in files], "head": head})
    steps = endcap.preprocess(files, size=640, on_error="blank")
    batch = [{"head": h} for h in head]
    wanted = wanted_rows(batch, "yolov8", steps.geometry, steps.status, {"num_classes": 7})
    expect_equal(outputs, wanted)
    assert [int(n[0]) > 0 for n in outputs[0]] == [True, False, True]
