"""docs/heads.md: every head family with its inputs, its outputs, and its parameters.

python scripts/heads_page.py > docs/heads.md
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from endcap import _core as _compiled
from endcap.repository.head_families import HEAD_FAMILIES, OPTIONAL_OUTPUTS, readable_families

INTRODUCTION = """\
# Heads

Made from the code by `python scripts/heads_page.py > docs/heads.md`; a test compares.

A head is the output of a network before boxes are decoded. Its family is named by the parameter
`head`, and never guessed: the same shape may mean two things. In Python it is the
first argument of `Postprocessor`, on a server a parameter of a model of `endcap_postprocess`.

Shapes are those of one image; a batch dimension goes in front. C = `num_classes`, K =
`max_detections`, M = `mask_coefficients`, P = `num_keypoints`, `*` depends on the network.
Inputs of type float32 may be float16 as well, and `classes` int64. Boxes are in pixels of the
network's input unless `box_unit` is `normalized`, and then `input_size` says how large that is. A
score counts when it is *greater* than `score_threshold`, or than its class's number in
`score_thresholds`. A GPU reads all of them.

`classes` keeps only some classes: `"0,2,5"` in `config.pbtxt`, `classes=[0, 2, 5]` in Python. The
others are left out before `max_candidates`, suppression and `max_detections`, so they suppress
nothing. Without `multi_label` an anchor's best class is chosen first, as in Ultralytics: an anchor
whose best class is left out, or below its class's threshold, gives no detection.
"""

Tensor = tuple[str, str, Sequence[Any]]

# Parameters that shapes follow, and values of theirs that no other dimension has.
SYMBOLS = {
    "C": ("num_classes", 80),
    "K": ("max_detections", 300),
    "M": ("mask_coefficients", 32),
    "P": ("num_keypoints", 17),
}


def tensors(family: str) -> tuple[list[Tensor], list[Tensor]]:
    """Return inputs and outputs, with symbols where a dimension follows a parameter."""
    base, *changed = [_core(family, more) for more in (None, *SYMBOLS)]
    return (
        _symbolic(base.inputs, [core.inputs for core in changed]),
        _symbolic(base.outputs, [core.outputs for core in changed]),
    )


def _core(family: str, more: str | None) -> Any:
    """Return a postprocessor in which one of the symbols is 1 more than usual."""
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
    """Return the section of one family."""
    inputs, outputs = tensors(family)
    known = HEAD_FAMILIES[family]
    rows = [
        f"| {side} | `{name}` | {dtype} | `[{', '.join(shape)}]` |"
        for side, each in (("in", inputs), ("out", outputs))
        for name, dtype, shape in each
    ]
    if family == "classification":  # the number of classes in the output is a parameter, not 5
        rows = [row.replace("[5]", "[top_k]") for row in rows]
    if any(name == "mask_size" for name, *_ in outputs):
        rows.insert(-2, "| out | `detection_rle` | string | `[K]` |")
    table = "\n".join(["| | name | dtype | shape |", "|---|---|---|---|", *rows])
    used = ", ".join(f"`{name}`" for name in known.parameters)
    text = f"## {family}\n\n{known.description}\n\n{table}\n\nParameters: {used}."
    if known.optional:
        text += f" Not read where a network has them: {OPTIONAL_OUTPUTS[known.optional]}."
    return text


def main() -> None:
    """Print the page."""
    parts = [INTRODUCTION.strip(), *map(section, readable_families())]
    parts.append(
        "What each parameter means, may be, and is by default: "
        "[Postprocess](parameters.md#postprocess)."
    )
    print("\n\n".join(parts))


if __name__ == "__main__":
    main()
