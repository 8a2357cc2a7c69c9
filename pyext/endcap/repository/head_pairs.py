"""Recognises heads of boxes in one output and scores in another: rtdetr and ssd.

Shapes: boxes [N, 4], scores [N, columns], and, for some with anchors, those as [N, 4]. RT-DETR,
DETR and their kind call the boxes pred_boxes, as transformers does. What is read of the scores is
in `pair_scores`, of the boxes in `anchor_boxes`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from endcap.repository.anchor_boxes import read_anchor_boxes
from endcap.repository.boxes_and_scores import box_unit
from endcap.repository.decision import Decision
from endcap.repository.head import Head
from endcap.repository.hints import Hints
from endcap.repository.network_output import NetworkOutput
from endcap.repository.pair_scores import read_pair_scores

_BOXES_OF_QUERIES = "pred_boxes"
_SCORES = ("score", "logit", "cls", "class", "conf")  # what scores are called


def propose_pair(outputs: Sequence[NetworkOutput], hints: Hints) -> Iterator[Head]:
    """Yield what boxes and scores of as many rows may be, the likelier first."""
    planes = [output for output in outputs if len(output.dims) == 2 and output.is_float]
    boxes = [output for output in planes if output.dims[1] == 4 != output.dims[0]]
    scores = [
        output
        for output in planes
        if output not in boxes and any(output.dims[0] == each.dims[0] for each in boxes)
    ]
    if not scores and len(boxes) > 1:  # of four classes, and so told by names alone
        scores = [each for each in boxes if any(part in each.name.lower() for part in _SCORES)]
        boxes = [each for each in boxes if each not in scores]
    if not boxes:
        yield from _propose_transposed(planes)
    for each in scores:
        with_rows = [box for box in boxes if box.dims[0] == each.dims[0]]
        if with_rows:
            yield from _propose_rows(each, with_rows, hints)


def _propose_rows(
    scores: NetworkOutput, boxes: Sequence[NetworkOutput], hints: Hints
) -> Iterator[Head]:
    listed = " and ".join(f"{each.name} {list(each.dims)}" for each in boxes)
    reason = f"{scores.name} {list(scores.dims)} with {listed}"
    of_queries = [each for each in boxes if _BOXES_OF_QUERIES in each.name]
    if of_queries or hints.wanted == "rtdetr":
        yield _queries(scores, (of_queries or boxes)[0], reason, hints)
    if not of_queries or hints.wanted == "ssd":
        yield _anchors(scores, boxes, reason, hints)


def _queries(scores: NetworkOutput, boxes: NetworkOutput, reason: str, hints: Hints) -> Head:
    read = read_pair_scores(scores, hints, background_place="last")
    unit = Decision("normalized", "what this family gives")
    if boxes.values is not None and boxes.values.any():
        unit = box_unit(boxes.values)
    parameters = {"box_unit": unit, **read.parameters}
    if read.has_background:
        parameters["multi_label"] = Decision("false", "as DETR's queries are one object or none")
    return Head(
        "rtdetr",
        {"logits": scores, "boxes": boxes},
        read.num_classes,
        reason,
        is_sure=True,
        parameters=parameters,
        lacks=read.lacks,
    )


def _anchors(
    scores: NetworkOutput, boxes: Sequence[NetworkOutput], reason: str, hints: Hints
) -> Head:
    read = read_pair_scores(scores, hints, background_place=None)
    placed = read_anchor_boxes(boxes, hints, has_background=read.has_background)
    inputs = {"boxes": placed.boxes, "scores": scores}
    if placed.anchors is not None:
        inputs["anchors"] = placed.anchors
    return Head(
        "ssd",
        inputs,
        read.num_classes,
        reason,
        is_sure=True,
        parameters={**read.parameters, **placed.parameters},
        lacks=read.lacks or placed.lacks,
    )


def _propose_transposed(planes: Sequence[NetworkOutput]) -> Iterator[Head]:
    """The same the other way round, so that the exporter can be told."""
    boxes = [each for each in planes if each.dims[0] == 4 != each.dims[1]]
    for scores in planes:
        if scores not in boxes and boxes and scores.dims[1] == boxes[0].dims[1]:
            reason = (
                f"{scores.name} {list(scores.dims)} with {boxes[0].name} {list(boxes[0].dims)}, "
                "boxes and scores the other way round"
            )
            yield Head("ssd_transposed", {}, None, reason, is_sure=True)
