"""A head with one box for each anchor of grids: what its numbers say, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from endcap.repository.boxes_and_scores import (
    Numbers,
    are_corners,
    box_unit,
    cover_image,
    have_sizes,
    score_activation,
)
from endcap.repository.decision import Decision
from endcap.repository.grids import Grids
from endcap.repository.head import Head
from endcap.repository.network_output import NetworkOutput

_ULTRALYTICS = "ultralytics"


@dataclass(frozen=True, kw_only=True)
class GridForm:
    """How a tensor is to be read.

    Attributes:
        classes, extras: How many numbers an anchor has for classes, and behind them for masks,
            keypoints or the angle.
        inputs, parameters: Of postprocess, beside the tensor and what its numbers tell.
        is_told: Whether the metadata says so, and the numbers need not.
        lacks: As Head's.
    """

    family: str
    classes: int
    grids: Grids | None
    extras: int = 0
    inputs: Mapping[str, NetworkOutput] = field(default_factory=dict)
    parameters: Mapping[str, Decision] = field(default_factory=dict)
    is_told: bool = False
    lacks: str = ""


def read_grid_head(
    output: NetworkOutput, form: GridForm, size: tuple[int, int], *, is_sure: bool
) -> Iterator[Head]:
    """Yield the head, or nothing where its boxes are not decoded."""
    boxes, scores = _boxes_and_scores(output, form)
    if boxes is not None and not have_sizes(boxes):
        return
    box_format = _format(boxes, form)
    activation = score_activation(scores)
    doubts = [*_doubts(boxes, size)]
    if box_format is None:
        doubts.append("its boxes may be corners as well as centres and sizes")
    if activation is None and not form.lacks:
        doubts.append("its scores are of several kinds, as with keypoints, masks or angles")
    found = {"box_format": box_format, "box_unit": box_unit(boxes), "activation": activation}
    known = {name: decision for name, decision in found.items() if decision is not None}
    where = form.grids or "as many anchors as no usual grids have"
    reason = f"{output.name} [{_parts(output, form)}]: {where}"
    has_objectness = form.family == "yolov5"
    trained = form.grids and (form.grids.anchors > 1 or not has_objectness)
    yield Head(
        family=form.family,
        inputs={"head": output, **form.inputs},
        num_classes=form.classes,
        reason="; but ".join([reason, *doubts]),
        is_sure=is_sure and (form.is_told or not doubts),
        parameters=known | dict(form.parameters),
        # With anchor boxes, or with none and no objectness, it is what Ultralytics' trainers make.
        preset=_ULTRALYTICS if trained else None,
        is_likely=form.grids is not None and (activation is not None or bool(form.lacks)),
        lacks=form.lacks,
    )


def _boxes_and_scores(
    output: NetworkOutput, form: GridForm
) -> tuple[Numbers | None, Numbers | None]:
    """Of each anchor; the objectness counts as a score."""
    if output.values is None:
        return None, None
    if form.family == "yolov5":
        return output.values[:, :4], output.values[:, 4:]
    rows = output.values.T
    return rows[:, :4], rows[:, 4 : 4 + form.classes]


def _parts(output: NetworkOutput, form: GridForm) -> str:
    if form.family == "yolov5":
        return f"{output.dims[0]}, 5 + {form.classes}"
    extras = f" + {form.extras}" if form.extras else ""
    return f"4 + {form.classes}{extras}, {output.dims[1]}"


def _doubts(boxes: Numbers | None, size: tuple[int, int]) -> Iterator[str]:
    if boxes is None:
        yield "it could not be tried"
    elif not cover_image(boxes, size):
        yield "the boxes of a trial run do not cover the image, as if not decoded"


def _format(boxes: Numbers | None, form: GridForm) -> Decision | None:
    """Of boxes around the cells of grids; None where they may be corners, too."""
    if form.is_told or form.family == "yolov8_obb":
        return Decision("cxcywh", "what this family gives")
    if boxes is None:
        return Decision("cxcywh", "what this family gives; it could not be tried")
    if are_corners(boxes):
        return None
    return Decision("cxcywh", "boxes of a trial run cannot be corners: some are the wrong way")
