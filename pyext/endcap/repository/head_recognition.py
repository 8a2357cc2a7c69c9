"""Recognition of a network's head.

`find_heads` tries `_EXCLUSIVE_FORMS` in order, of which the first that fits ends the search, else
all of `_OTHER_FORMS`. A form proposes a head where the shapes of outputs fit, and says whether it
`is_sure`:

1. What the user gives comes first: `--head` keeps one family of those that fit, `--num-classes` or
   `--labels` replace the number of classes of the metadata (grids of YOLO compare their names).
2. The metadata (`task`, names), the names of outputs, and a Softmax at the graph's end choose
   between forms of equal shape.
3. What these leave open, the values of the trial run decide: boxes that are corners, scores from 0
   to 1, anchors of a grid. Sizes below 0 refute a head of the metadata, too.

The only sure head is taken, or the only one that `--head` names; an output that no head reads and
that may matter makes a head unsure. Otherwise `plan` raises MissingOptionError, before anything is
written, with the candidates and what each lacks; RepositoryError without a candidate.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from endcap.repository.errors import RepositoryError
from endcap.repository.finished_forms import (
    read_detections,
    read_efficient_nms,
    read_reordered_rows,
    read_rows_with_classes,
)
from endcap.repository.head_evidence import Head, Hints, Outputs
from endcap.repository.network_tensors import NetworkInput, NetworkOutput
from endcap.repository.onnx_file import OnnxFile
from endcap.repository.options import AS_GIVEN, HEAD_PARAMETERS, NO_HEAD, InitOptions
from endcap.repository.pair_forms import ANCHOR_NAMES, HIDDEN_STATE, read_pair
from endcap.repository.segmentation_forms import read_semantic
from endcap.repository.single_forms import are_grid_maps, read_classifier, read_single
from endcap.repository.trial_run import Trial
from endcap.triton.labels import read_labels

# The first of these forms that yields a head ends the search, since its outputs might fit later
# forms, too. Shapes are for one image.
_EXCLUSIVE_FORMS = (
    read_efficient_nms,  # num_dets, det_boxes, det_scores, det_classes, or names like them
    read_detections,  # boxes [K, 4], scores [K] and class ids [K]
    read_reordered_rows,  # rows [K, 6] and a count, or [K, 7], in another order
    read_rows_with_classes,  # rows [K, 5] of box and score, and class ids [K]
    read_pair,  # boxes [N, 4] and scores [N, C]; masks [N, h, w] or anchors [N, 4]
)
_OTHER_FORMS = (
    read_single,  # [4 + C + extras, A], [A, 5 + C], [Q, 4 + C] or [K, 6 + extras]
    read_classifier,  # [C]
    read_semantic,  # [C, h, w], or class ids [height, width]
)
# Families whose outputs may have as many rows as an image has detections.
_FAMILIES_OF_VARYING_ROWS = ("detections", "end2end", "end2end_seg", "end2end_pose", "end2end_obb")
# Names that an ensemble without postprocess has for what preprocess gives and takes.
_TAKEN_NAMES = ("encoded", "images", "geometry", "status")


def leave_outputs(path: Path, trial: Trial) -> Head:
    """Return the head of a network whose outputs are all returned unread."""
    inputs = {}
    for output in trial.outputs:
        if not output.data_type or not output.shape[1:]:
            raise RepositoryError(
                f"{path} has the output {output}; expected numbers and a dimension after "
                "the batch, such as [N, 1]; export it like that"
            )
        name = f"network_{output.name}" if output.name in _TAKEN_NAMES else output.name
        inputs[name] = output.with_batch()
    head = Head(NO_HEAD, inputs, None, AS_GIVEN)
    if trial.batch_error and not head.is_for_one_image:
        raise RepositoryError(trial.batch_error)
    return head


def find_heads(
    network: OnnxFile, image: NetworkInput, trial: Trial, options: InitOptions
) -> tuple[str, list[Head]]:
    """Return the head that the user names, else the only sure one, else a message and several.

    A head that leaves outputs unread is not sure, unless they are such as are never read.

    Raises:
        RepositoryError: No head fits, or the trial run gave no usable numbers.
        UnsupportedError: The head is recognised, and postprocess does not read it.
    """
    path, outputs, wanted = network.path, trial.outputs, options.head
    if wanted is None:
        _refuse_nan(path, outputs)
    metadata, classes = network.metadata, options.num_classes or network.metadata.num_classes
    if options.num_classes is None and options.labels is not None:
        classes = len(read_labels(options.labels))
    graph = network.model.graph
    hints = Hints(image.size, metadata, classes, options, trial.score_columns, graph)
    exclusive = ([*read(outputs, hints)] for read in _EXCLUSIVE_FORMS)
    proposed = next(filter(None, exclusive), None)
    if proposed is None:
        proposed = [head for read in _OTHER_FORMS for head in read(outputs, hints)]
    heads = [_with_unread(head, outputs, hints) for head in proposed]
    if trial.rows_error and not any(head.family in _FAMILIES_OF_VARYING_ROWS for head in heads):
        raise RepositoryError(trial.rows_error)
    is_for_one = any(head.is_for_one_image for head in heads)
    if trial.batch_error and not is_for_one and not network.metadata.has_nms:
        raise RepositoryError(trial.batch_error)
    listed = "; ".join(map(str, outputs))
    candidates = [head for head in heads if wanted in (None, head.family)]
    candidates = [head for head in candidates if head.is_sure] or candidates
    if wanted and not candidates:
        others = ", ".join(map(str, heads)) or "none of the families"
        raise RepositoryError(
            f"the outputs of {path} ({listed}) do not have the form of {wanted}; they fit {others}"
        )
    if not candidates:
        raise RepositoryError(
            f"the outputs of {path} ({listed}) have the form of no head that is known "
            f"({', '.join(HEAD_PARAMETERS)}); --head none returns them unmodified, for your "
            "own code. A detector is recognised if it is exported with its boxes decoded, or with "
            "suppression inside, as by `yolo export model=MODEL.pt format=onnx`"
        )
    if len(candidates) == 1 and (wanted or candidates[0].is_sure):
        return "", candidates
    families = [*dict.fromkeys(head.family for head in candidates)]
    advice = " or ".join(f"--head {family}" for family in families)
    if len(families) < len(candidates):
        advice += ", and which output by --num-classes or --labels"
    return (
        f"the outputs of {path} ({listed}) may be {' or '.join(map(str, candidates))}; say which "
        f"it is: {advice}; or --head none, which returns them unread"
    ), candidates


def _refuse_nan(path: Path, outputs: Outputs) -> None:
    """Raise RepositoryError for numbers that tell nothing of a head, and cannot be served."""
    for output in outputs:
        count = np.count_nonzero(~np.isfinite(output.values))
        if count:
            raise RepositoryError(
                f"{path} gives {'NaN' if np.isnan(output.values).any() else 'infinity'} for noise "
                f"({count} of the {output.values.size} numbers of {output.name}), which no "
                "detection can be read from; export it again, in float32 if it is in half "
                "precision, or name its --head if it gives numbers for pictures"
            )


def _with_unread(head: Head, outputs: Outputs, hints: Hints) -> Head:
    """Return a head with the outputs that it leaves unread, not sure where these may matter."""
    read = {name for each in head.inputs.values() for name in (each.name, each.edit.appends)}
    unread = [each for each in outputs if each.name not in read]
    if not unread:
        return head
    names = ", ".join(each.name for each in unread)
    is_named = hints.options.head == head.family
    is_usual = are_grid_maps(unread, hints.size) or all(_is_never_read(x, head) for x in unread)
    if is_named or is_usual:
        return replace(head, reason=f"{head.reason}; {names} not read")
    return replace(head, reason=f"{head.reason}; but {names} would not be read", is_sure=False)


def _is_never_read(output: NetworkOutput, head: Head) -> bool:
    """Return whether an output is a number, features, hidden states, anchors, or of detections."""
    if head.family == "detections":  # such as masks
        scores = head.inputs["scores"]  # whose batch dimension may be the work of an edit
        rows = scores.dims if scores.edit.adds_batch else scores.shape
        return len(output.shape) > 1 and output.shape[: len(rows)] == rows
    is_anchors = any(part in output.name.lower() for part in ANCHOR_NAMES)
    return len(output.dims) < 2 or HIDDEN_STATE in output.name or is_anchors
