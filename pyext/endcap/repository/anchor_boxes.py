"""What boxes [N, 4] beside scores are: decoded already, or offsets from anchors, and from which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from endcap.repository.boxes_and_scores import (
    Numbers,
    are_corners,
    box_unit,
    cover_image,
    have_sizes,
)
from endcap.repository.decision import Decision
from endcap.repository.hints import Hints
from endcap.repository.network_output import NetworkOutput

_ANCHORS = ("anchor", "prior")  # what anchors are called
_EXAMPLE = "--set anchors=grid --set 'anchor_grid=8:16x16,32x32;16:64x64'"


@dataclass(frozen=True)
class AnchorBoxes:
    """anchors: None where they are no output. parameters: of postprocess. lacks: what has to be
    said, and how, "" where nothing.
    """

    boxes: NetworkOutput
    anchors: NetworkOutput | None = None
    parameters: Mapping[str, Decision] = field(default_factory=dict)
    lacks: str = ""


def read_anchor_boxes(
    outputs: Sequence[NetworkOutput], hints: Hints, *, has_background: bool
) -> AnchorBoxes:
    """Find out which of the outputs [N, 4] are boxes, and how they are read.

    Args:
        has_background: Whether scores have a column for no object, as SSD's and not RetinaNet's.
    """
    forms = {output.name: _form(output.values, hints.size) for output in outputs}
    said = hints.settings.get("anchors")
    named = [each for each in outputs if any(part in each.name.lower() for part in _ANCHORS)]
    if len(named) == len(outputs):  # a name of boxes, and not of what they are relative to
        named = []
    unnamed = [output for output in outputs if output not in named]
    offsets = [output for output in unnamed if forms[output.name] is None]
    decoded = [output for output in unnamed if forms[output.name] is not None]
    if said == "grid":
        return AnchorBoxes((offsets or decoded)[0], None, _variances(has_background))
    if said == "none":
        boxes = (decoded or offsets)[0]
        return AnchorBoxes(boxes, None, forms[boxes.name] or {})
    anchors = named or (decoded if offsets else [])
    if len(anchors) == len(offsets) == 1:
        where = Decision("input", f"{anchors[0].name} are boxes all over the image")
        form = forms[anchors[0].name] or {}
        parameters = {"anchors": where, **_variances(has_background), **form}
        return AnchorBoxes(offsets[0], anchors[0], parameters)
    if len(decoded) == 1 and not offsets:
        where = Decision("none", "boxes of a trial run lie all over the image")
        return AnchorBoxes(decoded[0], None, {"anchors": where, **(forms[decoded[0].name] or {})})
    return AnchorBoxes(outputs[0], lacks=_lacks(outputs))


def _lacks(outputs: Sequence[NetworkOutput]) -> str:
    listed = " and ".join(output.name for output in outputs)
    if len(outputs) > 1:
        return (
            f"nothing tells which of {listed} are its boxes and which their anchors; export it "
            "with one of the two called anchors"
        )
    return (
        f"{listed} look like offsets from anchors, which are no output; describe the anchors, for "
        f"example {_EXAMPLE}, export it with them as an output, or say --set anchors=none where "
        "its boxes are decoded"
    )


def _form(values: Numbers | None, size: tuple[int, int]) -> dict[str, Decision] | None:
    """Format and unit of boxes that lie all over the image; None of others, such as offsets."""
    if values is None or not values.any():
        return None
    if are_corners(values):
        centres = np.hstack([(values[:, :2] + values[:, 2:]) / 2, values[:, 2:]])
        name, reason = "xyxy", "no box of a trial run has its corners the wrong way"
    elif have_sizes(values):
        centres, name = values, "cxcywh"
        reason = "boxes of a trial run cannot be corners: some are the wrong way"
    else:
        return None
    if not cover_image(centres, size):
        return None
    return {"box_format": Decision(name, reason), "box_unit": box_unit(values)}


def _variances(has_background: bool) -> dict[str, Decision]:
    if has_background:
        return {"variances": Decision("0.1,0.1,0.2,0.2", "SSD's, as a score is for no object")}
    return {"variances": Decision("1,1,1,1", "RetinaNet's, as each score is a class's")}
