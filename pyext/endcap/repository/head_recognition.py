"""Recognition of a network's head.

`_propose` lists the candidates, `recognize_head` takes the only sure one; none or several are an
error that names the choices. The files beside it propose heads from shapes, names and the values of
the trial run, each for its kind of network: `end2end_heads`, `detection_rows`, `detr_ssd_heads`,
`task_heads`, `grid_heads`, `classifier_head`; `unsupported_heads` those that are refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from endcap.errors import UnsupportedError
from endcap.parameters import suggestion
from endcap.repository.classifier_head import propose_classifier
from endcap.repository.detection_rows import propose_detections
from endcap.repository.detr_ssd_heads import (
    HIDDEN_STATE,
    are_anchors,
    propose_joined_queries,
    propose_pair,
)
from endcap.repository.end2end_heads import (
    propose_boxes_with_classes,
    propose_efficient_nms,
    propose_end2end,
    propose_flat_rows,
)
from endcap.repository.errors import RepositoryError
from endcap.repository.graph_edit import edited_output
from endcap.repository.grid_heads import are_grid_maps, propose_grids
from endcap.repository.head_evidence import Head, Hints
from endcap.repository.head_families import HEAD_FAMILIES, NO_HEAD, readable_families
from endcap.repository.network_tensors import NetworkOutput, OutputEdit
from endcap.repository.onnx_file import OnnxFile
from endcap.repository.options import AS_GIVEN
from endcap.repository.task_heads import has_task, propose_task, propose_task_by_values
from endcap.repository.trial_run import Trial
from endcap.repository.unsupported_heads import propose_unsupported

# Families whose outputs may have as many rows as an image has detections.
_FAMILIES_OF_VARYING_ROWS = ("detections", "end2end", "end2end_seg", "end2end_pose", "end2end_obb")


# Names that an ensemble without postprocess has for what preprocess gives and takes.
_TAKEN_NAMES = ("encoded", "images", "geometry", "status")


def leave_outputs(path: Path, trial: Trial) -> Head:
    """Return the head of a network whose outputs are all returned unread, by the ensemble's names.

    Raises:
        RepositoryError: An output is of a type or a shape that Triton cannot return.
    """
    inputs = {}
    for output in trial.outputs:
        if not output.data_type or not output.shape[1:]:
            raise RepositoryError(
                f"{path} gives {output}, and an output of numbers with a dimension behind the "
                "batch is expected, such as [N, 1]; export it like that"
            )
        name = f"network_{output.name}" if output.name in _TAKEN_NAMES else output.name
        edit = OutputEdit(adds_batch=not output.has_batch)
        inputs[name] = edited_output(output, edit) if edit.adds_batch else output
    if trial.batch_error and not any(output.edit.adds_batch for output in inputs.values()):
        raise RepositoryError(trial.batch_error)
    return Head(NO_HEAD, inputs, None, AS_GIVEN, is_sure=True)


class AmbiguousHeadError(RepositoryError):
    """No head is sure, or several are; `heads` are those that the user may choose."""

    def __init__(self, message: str, heads: Sequence[Head]) -> None:
        """Keep the heads with the message."""
        super().__init__(message)
        self.heads = heads


def recognize_head(network: OnnxFile, trial: Trial, hints: Hints) -> Head:
    """Return the head that the user names, else the only sure one among the proposals.

    A head that leaves outputs unread is not sure, unless its family has them as optional ones.

    Raises:
        AmbiguousHeadError: Several proposals fit.
        RepositoryError: No proposal fits, or the trial run gave no usable numbers.
        UnsupportedError: The head is recognised, and postprocess does not read it.
    """
    outputs = trial.outputs
    if hints.wanted is None:
        _refuse_nan(network.path, outputs)
    proposals = tuple(
        _with_unread(head, outputs, hints) for head in _propose(network, outputs, hints)
    )
    listed = "; ".join(map(str, outputs))
    if trial.rows_error and not any(head.family in _FAMILIES_OF_VARYING_ROWS for head in proposals):
        raise RepositoryError(trial.rows_error)
    is_for_one = any(
        output.edit.adds_batch for head in proposals for output in head.inputs.values()
    )
    if trial.batch_error and not is_for_one and not hints.metadata.has_nms:
        raise RepositoryError(trial.batch_error)
    if hints.wanted is not None:
        return _wanted_head(network.path, proposals, listed, hints.wanted)
    return _only_head(network.path, proposals, listed)


def _refuse_nan(path: Path, outputs: tuple[NetworkOutput, ...]) -> None:
    """Raise RepositoryError for numbers that tell nothing of a head, and cannot be served."""
    for output in outputs:
        values = output.values
        if values is None or np.isfinite(values).all():
            continue
        name = "NaN" if np.isnan(values).any() else "infinity"
        count = np.count_nonzero(~np.isfinite(values))
        raise RepositoryError(
            f"{path} gives {name} for noise ({count} of the {values.size} numbers of "
            f"{output.name}), which no detection can be read from; export it again, in float32 if "
            "it is in half precision, or name its --head if it gives numbers for pictures"
        )


def _with_unread(head: Head, outputs: tuple[NetworkOutput, ...], hints: Hints) -> Head:
    """Return a head with the outputs that it leaves unread, not sure where they are not optional.

    Boxes that are left unread make it unlikely, too.
    """
    inputs = head.inputs.values()
    read = {each.name for each in inputs} | {each.edit.appends for each in inputs}
    unread = tuple(each for each in outputs if each.name not in read)
    if not head.inputs or not unread:
        return head
    names = ", ".join(each.name for each in unread)
    is_optional = _ARE_OPTIONAL[HEAD_FAMILIES[head.family].optional]
    if hints.wanted == head.family or is_optional(unread, head, hints):
        return replace(head, reason=f"{head.reason}; {names} not read")
    return replace(
        head,
        reason=f"{head.reason}; but {names} would not be read",
        is_sure=False,
        is_likely=head.is_likely and not any(4 in each.dims[-1:] for each in unread),
    )


_Outputs = tuple[NetworkOutput, ...]


def _are_count(unread: _Outputs, head: Head, hints: Hints) -> bool:
    del hints
    (rows,) = head.inputs.values()
    (count,) = unread if len(unread) == 1 else (None,)
    if count is None or count.is_float or count.shape != (1,) or not rows.edit.adds_batch:
        return False
    return count.values is None or count.values.item() == rows.dims[0]


def _are_masks(unread: _Outputs, head: Head, hints: Hints) -> bool:
    del hints
    scores = head.inputs["scores"]  # whose batch dimension may be the work of an edit
    rows = scores.dims if scores.edit.adds_batch else scores.shape
    return all(len(each.shape) > 1 and each.shape[: len(rows)] == rows for each in unread)


# By the keys of head_families.OPTIONAL_OUTPUTS.
_ARE_OPTIONAL: Mapping[str, Callable[[_Outputs, Head, Hints], bool]] = {
    "": lambda unread, head, hints: False,
    "maps": lambda unread, head, hints: are_grid_maps(unread, hints.size),
    "count": _are_count,
    "hidden states": lambda unread, head, hints: all(HIDDEN_STATE in x.name for x in unread),
    "anchors": lambda unread, head, hints: are_anchors(unread, head),
    "masks": _are_masks,
    "numbers": lambda unread, head, hints: all(len(each.dims) < 2 for each in unread),
}


def _propose(network: OnnxFile, outputs: tuple[NetworkOutput, ...], hints: Hints) -> Iterator[Head]:
    """Yield candidates; the order matters only where a candidate rules out what follows."""
    if proposals := tuple(propose_unsupported(outputs, hints)):
        yield from proposals
        return
    # 1. NMS inside the network, by the outputs' names. Its boxes and scores would pass for a pair.
    if proposals := tuple(propose_efficient_nms(outputs)):
        yield from proposals
        return
    # 2. Detections in three outputs (with more beside them, some would pass for a pair), or in
    # rows of all images.
    if proposals := tuple(propose_detections(outputs, hints)):
        yield from proposals
        return
    rows = (*propose_flat_rows(outputs, hints), *propose_boxes_with_classes(outputs, hints))
    if rows:
        yield from rows
        return
    # 3. Boxes in one output and scores in another, with as many rows.
    if proposals := tuple(propose_pair(outputs, hints)):
        yield from proposals
        return
    # 4. Boxes and scores in one output: by the metadata's task (segment, pose, obb), or by values.
    if has_task(hints.metadata):
        yield from propose_task(outputs, hints)
    else:
        for output in outputs:
            if len(output.dims) == 2 and output.is_float:
                yield from _propose_one_output(output, outputs, hints)
    # 5. One number for each class.
    yield from propose_classifier(network, outputs, hints)


def _propose_one_output(
    output: NetworkOutput, outputs: tuple[NetworkOutput, ...], hints: Hints
) -> Iterator[Head]:
    """Yield what one output [rows, columns] may be."""
    with_more = tuple(propose_task_by_values(output, outputs, hints))
    yield from with_more
    if any(head.is_sure for head in with_more):
        return
    final_rows = tuple(propose_end2end(output, hints))
    yield from final_rows or propose_joined_queries(output, hints)
    yield from propose_grids(output, hints)


def _only_head(path: Path, proposals: Sequence[Head], listed: str) -> Head:
    sure = [head for head in proposals if head.is_sure]
    if len(sure) == 1:
        return _readable(path, sure[0])
    if not proposals:
        raise RepositoryError(
            f"the outputs of {path} ({listed}) have the form of no head that is known "
            f"({', '.join(readable_families())}); --head none returns them unmodified, behind "
            "preprocess, for your own code to read. A detector is recognised if it is exported "
            "with its boxes decoded, or with suppression inside, as `yolo export model=MODEL.pt "
            "format=onnx` does with and without nms=True; the page Exports of the documentation "
            "lists what is known of other exporters"
        )
    candidates = sure or [head for head in proposals if head.is_likely]
    readable = [head.family for head in candidates if head.family in readable_families()]
    if sure and not readable:
        return _readable(path, sure[0])
    if not readable:
        raise RepositoryError(
            f"the outputs of {path} ({listed}) look like no head that is known: "
            f"{' or '.join(map(str, proposals))}; --head none returns them unmodified, for your "
            "own code to read; else export it in another form, or give --head"
        )
    advice = " or ".join(f"--head {family}" for family in dict.fromkeys(readable))
    if len(set(readable)) < len(readable):
        advice += ", and which output by --num-classes or --labels"
    raise AmbiguousHeadError(
        f"the outputs of {path} ({listed}) may be {' or '.join(map(str, candidates))}; say which "
        f"it is: {advice}; or --head none, which returns them unread",
        [head for head in candidates if head.family in readable],
    )


def _wanted_head(path: Path, proposals: Sequence[Head], listed: str, wanted: str) -> Head:
    if wanted not in readable_families():
        raise RepositoryError(
            f"--head is '{wanted}', which is no family that this version reads"
            f"{suggestion('head', wanted) or '.'} Give one of {', '.join(readable_families())}, or "
            f"{NO_HEAD} for outputs that are returned unread"
        )
    fitting = [head for head in proposals if head.family == wanted]
    if not fitting:
        others = ", ".join(map(str, proposals)) or "none of the families"
        raise RepositoryError(
            f"the outputs of {path} ({listed}) do not have the form of {wanted}; they fit {others}"
        )
    if len(fitting) > 1:
        fitting = [head for head in fitting if head.is_sure] or fitting
    if len(fitting) > 1:
        raise RepositoryError(
            f"{path} has several outputs of the form of {wanted} ({listed}); say which one by "
            "--num-classes or --labels, or export it with one"
        )
    return fitting[0]


def _readable(path: Path, head: Head) -> Head:
    if head.family not in readable_families():
        raise UnsupportedError(
            f"{path} ends in a head of the family {head}, which this version of endcap does not "
            "read; --head none returns its outputs unmodified, for your own code, and the families "
            f"that it reads are {', '.join(readable_families())}"
        )
    return head
