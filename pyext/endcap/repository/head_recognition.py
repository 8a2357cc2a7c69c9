"""Recognition of a network's head.

`recognize_head` goes through `FORMS` and takes the only sure candidate; none or several
are an error that names the choices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from endcap.errors import UnsupportedError
from endcap.parameters import suggestion
from endcap.repository.errors import RepositoryError
from endcap.repository.graph_edit import edited_output
from endcap.repository.head_evidence import Head, Hints, Outputs
from endcap.repository.head_families import HEAD_FAMILIES, NO_HEAD, readable_families
from endcap.repository.network_tensors import NetworkOutput, OutputEdit
from endcap.repository.options import AS_GIVEN
from endcap.repository.pair_forms import HIDDEN_STATE, are_anchors, read_pair
from endcap.repository.single_forms import are_grid_maps, read_classifier, read_single
from endcap.repository.suppressed_forms import (
    read_detections,
    read_efficient_nms,
    read_reordered_rows,
    read_rows_with_classes,
)
from endcap.repository.trial_run import Trial


@dataclass(frozen=True)
class Form:
    """A form of outputs.

    Attributes:
        outputs: Of one image.
        read: Yields the heads that they may be.
        is_exclusive: Whether outputs of this form are not looked at for those that follow, whose
            conditions they might meet as well.
    """

    outputs: str
    read: Callable[[Outputs, Hints], Iterator[Head]]
    is_exclusive: bool = True


FORMS = (
    Form("num_dets, det_boxes, det_scores, det_classes, or names like them", read_efficient_nms),
    Form("boxes [K, 4], scores [K] and class ids [K]", read_detections),
    Form("rows [K, 6] and a count, or [K, 7], in another order", read_reordered_rows),
    Form("rows [K, 5] of box and score, and class ids [K]", read_rows_with_classes),
    Form("boxes [N, 4] and scores [N, C]; masks [N, h, w] or anchors [N, 4]", read_pair),
    Form("[4 + C + extras, A], [A, 5 + C], [Q, 4 + C] or [K, 6 + extras]", read_single, False),
    Form("[C]", read_classifier, False),
)

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
    return Head(NO_HEAD, inputs, None, AS_GIVEN)


class AmbiguousHeadError(RepositoryError):
    """No head is sure, or several are; `heads` are those that the user may choose."""

    def __init__(self, message: str, heads: Sequence[Head]) -> None:
        """Keep the heads with the message."""
        super().__init__(message)
        self.heads = heads


def recognize_head(path: Path, trial: Trial, hints: Hints) -> Head:
    """Return the head that the user names, else the only sure one among the proposals.

    A head that leaves outputs unread is not sure, unless its family has them as optional ones.

    Raises:
        AmbiguousHeadError: Several proposals fit.
        RepositoryError: No proposal fits, or the trial run gave no usable numbers.
        UnsupportedError: The head is recognised, and postprocess does not read it.
    """
    outputs = trial.outputs
    if hints.options.head is None:
        _refuse_nan(path, outputs)
    proposals = tuple(_with_unread(head, outputs, hints) for head in _propose(outputs, hints))
    listed = "; ".join(map(str, outputs))
    if trial.rows_error and not any(head.family in _FAMILIES_OF_VARYING_ROWS for head in proposals):
        raise RepositoryError(trial.rows_error)
    is_for_one = any(
        output.edit.adds_batch for head in proposals for output in head.inputs.values()
    )
    if trial.batch_error and not is_for_one and not hints.metadata.has_nms:
        raise RepositoryError(trial.batch_error)
    if hints.options.head is not None:
        return _wanted_head(path, proposals, listed, hints.options.head)
    return _only_head(path, proposals, listed)


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
    if hints.options.head == head.family or is_optional(unread, head, hints):
        return replace(head, reason=f"{head.reason}; {names} not read")
    return replace(
        head,
        reason=f"{head.reason}; but {names} would not be read",
        is_sure=False,
        is_likely=head.is_likely and not any(4 in each.dims[-1:] for each in unread),
    )


def _are_count(unread: Outputs, head: Head, hints: Hints) -> bool:
    del hints
    (rows,) = head.inputs.values()
    (count,) = unread if len(unread) == 1 else (None,)
    if count is None or count.is_float or count.shape != (1,) or not rows.edit.adds_batch:
        return False
    return count.values is None or count.values.item() == rows.dims[0]


def _are_masks(unread: Outputs, head: Head, hints: Hints) -> bool:
    del hints
    scores = head.inputs["scores"]  # whose batch dimension may be the work of an edit
    rows = scores.dims if scores.edit.adds_batch else scores.shape
    return all(len(each.shape) > 1 and each.shape[: len(rows)] == rows for each in unread)


# By the keys of head_families.OPTIONAL_OUTPUTS.
_ARE_OPTIONAL: Mapping[str, Callable[[Outputs, Head, Hints], bool]] = {
    "": lambda unread, head, hints: False,
    "maps": lambda unread, head, hints: are_grid_maps(unread, hints.size),
    "count": _are_count,
    "hidden states": lambda unread, head, hints: all(HIDDEN_STATE in x.name for x in unread),
    "anchors": lambda unread, head, hints: are_anchors(unread, head),
    "masks": _are_masks,
    "numbers": lambda unread, head, hints: all(len(each.dims) < 2 for each in unread),
}


def _propose(outputs: Outputs, hints: Hints) -> Iterator[Head]:
    """Yield the candidates of the first exclusive form that fits, else of all others that do."""
    for form in FORMS:
        heads = tuple(form.read(outputs, hints))
        yield from heads
        if heads and form.is_exclusive:
            return


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
            f"--head is '{wanted}', which is not a family that this version reads"
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
