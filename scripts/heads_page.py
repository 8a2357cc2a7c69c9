"""Writes docs/heads.md: every head family with its inputs, its outputs, and its parameters.

python scripts/heads_page.py > docs/heads.md
"""

from __future__ import annotations

from collections.abc import Sequence

import endcap
from endcap import _core
from endcap.repository.family_parameters import FAMILY_PARAMETERS

INTRODUCTION = """\
# Heads

Made from the code by `python scripts/heads_page.py > docs/heads.md`; a test compares.

A head is what a network gives back before anybody has read boxes out of it. Its family is named by
the parameter `head`, and never guessed: the same shape may mean two things. In Python it is the
first argument of `Postprocessor`, on a server a parameter of a model of `endcap_postprocess`.

Shapes are those of one image; a batch dimension goes in front. C = `num_classes`,
K = `max_detections`, `*` is for the network to decide. Inputs of type float32 may be float16 as
well. Boxes are in pixels of the network's input unless `box_unit` is `normalized`, and then
`input_size` says how large that is. A score counts when it is *greater* than `score_threshold`.
"""

# What a family is; everything that can be read from the code is.
MEANINGS = {
    "yolov5": """\
One row for each anchor: the box, the objectness, one score for each class. A candidate's score is
the objectness times the class score. YOLOv5 exports this.""",
    "yolov8": """\
One column for each anchor: four rows of boxes, then one row of scores for each class; there is no
objectness. YOLOv8, v9, 11 and 12 export this.""",
    "end2end": """\
One row for each detection: x1, y1, x2, y2, score, class. Overlaps are suppressed in the network
(YOLOv10, YOLO26, or an export with NMS inside); boxes are mapped back, and `iou_threshold` is not
used.""",
    "efficient_nms": """\
The outputs of TensorRT's EfficientNMS plugin. The first `num_detections` rows count. Boxes are
mapped back; nothing is suppressed again, and `iou_threshold` is not used.""",
    "classification": """\
One number for each class. The answer holds the best `top_k` classes, best first (of equal scores
the lower class), and the scores of all classes in their order.""",
}

Tensor = tuple[str, str, Sequence[int]]


def families() -> list[str]:
    """The heads of this build, as the parameter table names them."""
    (row,) = (row for row in endcap.Postprocessor().describe() if row.name == "head")
    return row.allowed.removeprefix("one of ").split(", ")


def tensors(family: str) -> tuple[list[Tensor], list[Tensor]]:
    """Inputs and outputs, with the symbols C and K where a dimension follows a parameter."""
    sizes = [(80, 300), (81, 300), (80, 301)]
    cores = [
        _core.Postprocessor(
            [("head", family), ("num_classes", str(c)), ("max_detections", str(k))], 1
        )
        for c, k in sizes
    ]
    inputs = _symbolic(*(core.inputs for core in cores))
    outputs = _symbolic(*(core.outputs for core in cores))
    return inputs, outputs


def _symbolic(base: list[Tensor], more_classes: list[Tensor], more_rows: list[Tensor]) -> list:
    return [
        (name, dtype, [_dim(*sizes) for sizes in zip(shape, c[2], k[2], strict=True)])
        for (name, dtype, shape), c, k in zip(base, more_classes, more_rows, strict=True)
    ]


def _dim(base: int, with_a_class_more: int, with_a_row_more: int) -> str:
    if base < 0:
        return "*"
    if with_a_class_more > base:
        return f"{base - 80} + C" if base > 80 else "C"
    return "K" if with_a_row_more > base else str(base)


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
