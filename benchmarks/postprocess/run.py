"""Verifies and times the postprocessing comparisons, on one thread and one CPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.postprocess import head_peers, rotated, task_heads
from benchmarks.postprocess.head import NUM_CLASSES, Floats, Ids, candidates, make
from benchmarks.postprocess.head_peers import TASKS, Head, HeadTask
from benchmarks.postprocess.nms_peers import NMS_PEERS, Kept
from benchmarks.postprocess.verify import OFFSET_SHARE, KeptAgreement, compare
from benchmarks.timing import Budget, Case, Ready, Row, comparison, load, one_cpu

NUM_BOXES = 30_000


@dataclass(frozen=True)
class Comparison:
    """One task: how much there was to do, and the rows by entry."""

    name: str
    candidates: int
    rows: dict[str, Row]


def names(num_boxes: int) -> list[str]:
    """Return the comparisons in their order."""
    return [*TASKS, *task_heads.TASKS, *_nms_names(num_boxes), *rotated.TASKS]


def _nms_names(num_boxes: int) -> list[str]:
    return [f"nms, {num_boxes:,} boxes", f"batched_nms, {num_boxes:,} boxes, {NUM_CLASSES} classes"]


def run(num_boxes: int, budget: Budget, done: Callable[[str], None]) -> list[Comparison]:
    """All comparisons, suppression alone with so many boxes; `done` is called after each."""
    head = make()
    results = []
    with one_cpu():
        for name, task in TASKS.items():
            of_dtype = head.astype(task.dtype, copy=False)
            rows = comparison(_head_entries(of_dtype, task), "endcap", budget)
            results.append(Comparison(name, _count(of_dtype, task), rows))
            done(name)
        for name, make_task in task_heads.TASKS.items():
            with_more = make_task()
            rows = comparison(_task_entries(with_more), "endcap", budget)
            results.append(Comparison(name, with_more.candidates(), rows))
            done(name)
        boxes, scores, class_ids = candidates(head, 0.001, num_boxes)
        for name, ids in zip(_nms_names(num_boxes), (None, class_ids), strict=True):
            entries = _nms_entries(boxes, scores, ids)
            results.append(Comparison(name, len(scores), comparison(entries, "endcap", budget)))
            done(name)
        rotated_candidates = rotated.candidates()
        for name, rotated_task in rotated.TASKS.items():
            entries = _rotated_entries(*rotated_candidates, rotated_task)
            rows = comparison(entries, "endcap", budget)
            results.append(Comparison(name, rotated.NUM_BOXES, rows))
            done(name)
    return results


def _count(head: Head, task: HeadTask) -> int:
    over = head[4:] > task.score_threshold
    return int(over.sum() if task.multi_label else over.any(axis=0).sum())


def _head_entries(head: Head, task: HeadTask) -> dict[str, Ready | Row]:
    case, kept = head_peers.ours(head, task)
    entries: dict[str, Ready | Row] = {"endcap": Ready(case, f"{len(kept)} detections")}
    theirs = load(lambda: head_peers.ultralytics(head, task))
    if isinstance(theirs, Row):
        entries["ultralytics"] = theirs
    else:
        entries["ultralytics"] = _judge(theirs[0], compare(theirs[1], kept, OFFSET_SHARE))
    return entries


def _task_entries(task: task_heads.TaskHead) -> dict[str, Ready | Row]:
    entries: dict[str, Ready | Row] = {}
    for name, make_ours in task.ours.items():
        case, ours = make_ours()
        entries[name] = Ready(case, f"{len(ours.kept)} detections")
    theirs = load(task.theirs)
    if isinstance(theirs, Row):
        entries["ultralytics"] = theirs
        return entries
    agreement = compare(theirs[1].kept, ours.kept)
    entries["ultralytics"] = _judge(theirs[0], agreement)
    if agreement.passed:
        order = [theirs[1].kept.index(each) for each in ours.kept]
        off = task.difference(ours.values, theirs[1].values[order])
        if not off <= task.worst:
            note = f"values differ by {off:.2g}, and {task.worst:g} is allowed"
            entries["ultralytics"] = Row("not verified", note)
    return entries


def _nms_entries(boxes: Floats, scores: Floats, class_ids: Ids | None) -> dict[str, Ready | Row]:
    kept = _indices(NMS_PEERS["endcap"].make(boxes, scores, class_ids)())
    entries: dict[str, Ready | Row] = {}
    for name, peer in NMS_PEERS.items():
        function = load(lambda peer=peer: peer.make(boxes, scores, class_ids))  # type: ignore[misc]
        if isinstance(function, Row):
            entries[name] = function
            continue
        agreement = compare(_indices(function()), kept, peer.share)
        entries[name] = _judge(_case(function), agreement)
    return entries


def _rotated_entries(
    boxes: Floats, scores: Floats, task: rotated.RotatedTask
) -> dict[str, Ready | Row]:
    ours = task.ours(boxes, scores)
    kept = _indices(ours())
    entries: dict[str, Ready | Row] = {"endcap": Ready(_case(ours), f"{len(kept)} kept")}
    theirs = load(lambda: task.make_peer(boxes, scores))
    if isinstance(theirs, Row):
        entries[task.peer] = theirs
    else:
        agreement = compare(_indices(theirs()), kept, task.share)
        entries[task.peer] = _judge(_case(theirs), agreement)
    return entries


def _judge(case: Case, agreement: KeptAgreement) -> Ready | Row:
    if not agreement.passed:
        return Row("not verified", agreement.text)
    return Ready(case, agreement.text)


def _case(function: Kept) -> Case:
    return Case(run=lambda _: function())


def _indices(kept: Any) -> list[int]:
    return [int(index) for index in np.asarray(kept).ravel()]
