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

# Name, backends, meaning and default of what is in no table of the core.
BACKENDS = [
    (
        "`threads`",
        "`endcap_preprocess`, `endcap_postprocess`",
        "images processed at the same time, by all instances of the model together; 0: all CPUs",
        "0",
    ),
    (
        "`max_queue_cost`",
        "`endcap_preprocess`, on a CPU",
        "milliseconds of predicted work that may wait before a request; more is "
        "[refused](overload.md). 0: no limit",
        "0",
    ),
    (
        "`labels_file`",
        "`endcap_postprocess`, `head: classification`",
        "class names, one a line in the order of the ids; path relative to the model's folder",
        "no names",
    ),
    (
        "`labels_separator`",
        "`endcap_postprocess`, with `labels_file`",
        "separates the parts of a line that is a path in a taxonomy, such as `/` in "
        "`animal/dog/beagle`",
        "lines are names",
    ),
    (
        "`max_sequences`",
        "`endcap_track`",
        "[sequences](tracking.md) that are open at a time",
        "1000",
    ),
    (
        "`detect_model`",
        "`endcap_bls`",
        "a model with the input `encoded` and detections as outputs",
        "`detect`",
    ),
    (
        "`classifiers`",
        "`endcap_bls`",
        "`CLASSES=ROIS_MODEL+CLASSIFIER`, separated by commas; CLASSES are class ids "
        "separated by bars, or `*` for the remaining ones",
        "no detection is classified",
    ),
    (
        "`classify_threshold`",
        "`endcap_bls`",
        "detections with a greater score are classified",
        "0.25",
    ),
    (
        "`classify_batch_size`",
        "`endcap_bls`",
        "the most crops in one request to a classifier",
        "16",
    ),
    (
        "`max_in_flight`",
        "`endcap_bls`",
        "images that a model processes at the same time; more wait in the server's queue, "
        "which limits its memory",
        "16",
    ),
    (
        "`labels`",
        "`endcap_bls`, ensembles",
        "for clients: the names of the detections' classes",
        "none",
    ),
]


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


def backends() -> str:
    """Return the table of what only a config.pbtxt has."""
    return "\n\n".join(
        [
            "## Of the backends alone",
            "In a model's `config.pbtxt` only:",
            table(["name", "backend", "meaning", "default"], BACKENDS),
            "[](triton.md#triton-onnx) has those of `endcap_onnx`.",
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
        backends(),
    ]
    print("\n\n".join(part.strip() for part in parts))


if __name__ == "__main__":
    main()
