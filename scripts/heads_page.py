"""Writes docs/heads.md: every head family with its inputs, its outputs, and its parameters.

python scripts/heads_page.py > docs/heads.md
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import endcap
from endcap import _core as _compiled
from endcap.repository.family_parameters import FAMILY_PARAMETERS

INTRODUCTION = """\
# Heads

Made from the code by `python scripts/heads_page.py > docs/heads.md`; a test compares.

A head is what a network gives back before anybody has read boxes out of it. Its family is named by
the parameter `head`, and never guessed: the same shape may mean two things. In Python it is the
first argument of `Postprocessor`, on a server a parameter of a model of `endcap_postprocess`.

Shapes are those of one image; a batch dimension goes in front. C = `num_classes`, K =
`max_detections`, M = `mask_coefficients`, P = `num_keypoints`, `*` is for the network to decide.
Inputs of type float32 may be float16 as well. Boxes are in pixels of the network's input unless
`box_unit` is `normalized`, and then `input_size` says how large that is. A score counts when it
is *greater* than `score_threshold`. A GPU reads all of them.
"""

# What a family is; everything that can be read from the code is.
MEANINGS = {
    "yolov5": """\
One row for each anchor: the box, the objectness, one score for each class. A candidate's score
is the objectness times the class score. YOLOv5 exports this.""",
    "yolov8": """\
One column for each anchor: four rows of boxes, then one row of scores for each class; there is
no objectness. YOLOv8, v9, 11 and 12 export this.""",
    "yolov8_seg": """\
`yolov8` with M rows below the scores, and prototypes of masks: a detection's mask is where the
prototypes, each times the detection's number for it, add up to more than 0 inside its box
(YOLACT's method). Height and width of the prototypes are `prototype_size`. `mask_resolution`
says whose pixels a mask has; `mask_size` is their height and width. `detection_rle` has K
strings, COCO's compressed run lengths of the masks, which pycocotools and
`endcap.masks.decode_rle` read (empty in rows that do not count). `detection_masks` has a bit
for each pixel, rows from the left, in whole bytes, as `numpy.unpackbits` reads them; not where
`mask_resolution` is `source`, as then each image's has a size of its own. What nobody asks for
is not made. Only the prototypes' pixels in the boxes of the detections that are kept are worked
on.""",
    "yolov8_pose": """\
`yolov8` with more rows below the scores: x, y and visibility of each keypoint, or x and y where
`keypoint_values` is 2. `detection_keypoints` has x and y in pixels of the source image, clipped
to it, and the visibility as the network gives it (1 without one). Keypoints are read for the
detections that are kept, and for no others.""",
    "yolov8_obb": """\
`yolov8` with a row of angles below the scores, in radians, from the x axis to the side that the
width measures, clockwise to the eye. `detection_boxes` are the boxes before they are turned
around their centres by `detection_angles`, in pixels of the source image and not clipped to it.
`rotated_nms` says how boxes are compared: `polygon` by the exact overlap of the rectangles,
`probiou` by the probabilistic one of arXiv 2106.06072, `probiou_fast` by the latter, and so
that also suppressed boxes suppress, as ultralytics does it.""",
    "end2end": """\
One row for each detection: x1, y1, x2, y2, score, class. Overlaps are suppressed in the network
(YOLOv10, YOLO26, or an export with NMS inside); boxes are mapped back, and `iou_threshold` is
not used.""",
    "rtdetr": """\
One row for each query of a transformer, in two tensors, or in one (`head` `[*, 4 + C]`, boxes
first) where `joined` is true. Nothing is suppressed: every class of every query over the
threshold is a detection, the best K in all; `multi_label` `false` leaves each query its best
class. Boxes are centres and sizes in fractions by default, logits want a sigmoid, joined scores
nothing. DETR has `activation` `softmax` and `background` `last`: a column more, which
`num_classes` does not count.""",
    "ssd": """\
One row for each anchor: offsets of the box from the anchor, and scores; SSD, RetinaNet and
their kind. `background` says where a row of scores has a column for no object (which
`num_classes` does not count): `first` and a softmax by default, `none` and a sigmoid for
RetinaNet. `anchors` are a tensor in `box_format` and `box_unit`; or `grid`, and then
`anchor_grid` describes them and there is no such input; or `none`, where the boxes are decoded
already. Offsets are multiplied by `variances`, then the centre moves by parts of the anchor's
size, and the logarithms of width and height grow by log(1000/16) at most (`variances` are 0.1,
0.1, 0.2, 0.2 for SSD and 1 for RetinaNet). An anchor_grid is a list of levels, each a stride
and its widths and heights in pixels: `8:16x16,32x32;16:64x64` has two anchors in each cell of
8x8 pixels and one in each of 16x16.""",
    "efficient_nms": """\
The outputs of TensorRT's EfficientNMS plugin. The first `num_detections` rows count. Boxes are
mapped back; nothing is suppressed again, and `iou_threshold` is not used.""",
    "classification": """\
One number for each class. The answer holds the best `top_k` classes, best first (of equal
scores the lower class), and the scores of all classes in their order. With `multi_label` `true`
it holds only classes whose score is greater than `score_threshold`, at most `top_k`; the rows
beyond them have score 0 and id -1. Then `activation` is `sigmoid`, or `none` where the network
has applied it. Without `multi_label` the threshold is not used.""",
}

Tensor = tuple[str, str, Sequence[Any]]

# Parameters that shapes follow, and values of theirs that no other dimension has.
SYMBOLS = {
    "C": ("num_classes", 80),
    "K": ("max_detections", 300),
    "M": ("mask_coefficients", 32),
    "P": ("num_keypoints", 17),
}


def families() -> list[str]:
    """The heads of this build, as the parameter table names them."""
    (row,) = (row for row in endcap.Postprocessor().describe() if row.name == "head")
    return row.allowed.removeprefix("one of ").split(", ")


def tensors(family: str) -> tuple[list[Tensor], list[Tensor]]:
    """Inputs and outputs, with symbols where a dimension follows a parameter."""
    base, *changed = [_core(family, more) for more in (None, *SYMBOLS)]
    return (
        _symbolic(base.inputs, [core.inputs for core in changed]),
        _symbolic(base.outputs, [core.outputs for core in changed]),
    )


def _core(family: str, more: str | None) -> Any:
    """A postprocessor in which one of the symbols is 1 more than usual."""
    given = {name: value + (symbol == more) for symbol, (name, value) in SYMBOLS.items()}
    fixed = [("head", family), ("mask_resolution", "prototype")]
    return _compiled.Postprocessor(
        [*fixed, *((name, str(value)) for name, value in given.items())], 1
    )


def _symbolic(base: list[Tensor], changed: list[list[Tensor]]) -> list[Tensor]:
    rows = []
    for place, (name, dtype, shape) in enumerate(base):
        slopes = [
            [each[place][2][axis] - size for each in changed] for axis, size in enumerate(shape)
        ]
        rows.append((name, dtype, [_dim(*pair) for pair in zip(shape, slopes, strict=True)]))
    return rows


def _dim(size: int, slopes: list[int]) -> str:
    if size < 0:
        return "*"
    terms = [
        (f"{slope}{symbol}" if slope > 1 else symbol)
        for symbol, slope in zip(SYMBOLS, slopes, strict=True)
        if slope
    ]
    values = [value for _, value in SYMBOLS.values()]
    constant = size - sum(slope * value for slope, value in zip(slopes, values, strict=True))
    return " + ".join([str(constant)] * (constant != 0 or not terms) + terms)


def section(family: str) -> str:
    """One family."""
    inputs, outputs = tensors(family)
    rows = [
        f"| {side} | `{name}` | {dtype} | `[{', '.join(shape)}]` |"
        for side, each in (("in", inputs), ("out", outputs))
        for name, dtype, shape in each
    ]
    if family == "classification":  # the number of classes in the answer is a parameter, not 5
        rows = [row.replace("[5]", "[top_k]") for row in rows]
    if family == "yolov8_seg":
        rows.insert(-2, "| out | `detection_rle` | string | `[K]` |")
    table = "\n".join(["| | name | dtype | shape |", "|---|---|---|---|", *rows])
    used = ", ".join(f"`{name}`" for name in FAMILY_PARAMETERS[family])
    return f"## {family}\n\n{MEANINGS[family]}\n\n{table}\n\nParameters: {used}."


def main() -> None:
    """Prints the page."""
    parts = [INTRODUCTION.strip(), *map(section, families())]
    parts.append(
        "What each parameter means, may be, and is by default: "
        "[Postprocess](parameters.md#postprocess)."
    )
    print("\n\n".join(parts))


if __name__ == "__main__":
    main()
