"""Writes docs/parameters.md from the code: every parameter, and every preset field by field.

python scripts/parameter_tables.py > docs/parameters.md
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import endcap

PRESETS_SOURCE = Path(__file__).resolve().parents[1] / "csrc" / "preprocess" / "presets.cc"

INTRODUCTION = """\
# Parameters

Made from the code by `python scripts/parameter_tables.py > docs/parameters.md`; a test compares.

The names are the same in Python (keyword arguments) and in a model's `config.pbtxt`:

    parameters { key: "size" value { string_value: "480,640" } }

Lists are written with commas. What is not given keeps the value of the preset, or the default.

A default is the initializer of a field in `csrc/include/endcap`: of
`PreprocessParams` (`preprocess.h`), of `HeadParams` (`box_decode.h`: `score_threshold` and what
else belongs to a head), or of `PostprocessParams` (`postprocess.h`: `iou_threshold`,
`max_detections` and others). The backends, Python (`describe()`), DALI operators and
`endcap init --help` read it from there. CONTRIBUTING.md says what follows a change.
"""


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    header = list(header)
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def stage(title: str, rows: list[endcap.Parameter]) -> str:
    """Return the table of one stage's parameters."""
    cells = ([f"`{r.name}`", r.meaning, r.allowed, f"`{r.value}`"] for r in rows)
    return f"## {title}\n\n" + table(["name", "meaning", "allowed", "default"], cells)


def origins() -> dict[str, str]:
    """Preset -> the pipeline that it follows: the comment at its function in presets.cc."""
    source = PRESETS_SOURCE.read_text(encoding="utf-8")
    found = re.findall(r"((?:^// .*\n)+)^PreprocessParams (\w+)\(\) {", source, re.MULTILINE)
    return {name.lower(): " ".join(re.findall(r"// (.*)", text)) for text, name in found}


def presets() -> str:
    """Every preset with its origin and all its fields."""
    names = endcap.presets()
    columns = [endcap.Preprocessor(name, threads=1).parameters for name in names]
    rows = ([f"`{field}`", *(c[field] for c in columns)] for field in columns[0])
    origin = origins()
    return "\n\n".join(
        [
            "## Presets",
            "A preset is the recipe of a whole training pipeline; `preset` names one, "
            "and any field given beside it wins.",
            table(["preset", "follows"], ([f"`{name}`", origin[name]] for name in names)),
            table(["field", *names], rows),
        ]
    )


def main() -> None:
    """Print the page."""
    preprocess = endcap.Preprocessor(threads=1).describe()
    postprocess = endcap.Postprocessor(threads=1).describe()
    parts = [
        INTRODUCTION,
        stage("Preprocess", preprocess),
        presets(),
        stage("Postprocess", postprocess),
    ]
    print("\n\n".join(part.strip() for part in parts))


if __name__ == "__main__":
    main()
