"""Sphinx extension: writes parts of pages that follow from the code to `docs/_generated`.

`python docs/generated.py` writes the same files without Sphinx.
"""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import endcap
from endcap.doctor import CHECKS
from endcap.repository.options import HEAD_PARAMETERS
from endcap.triton.model_contract import ModelContract, postprocess_contract
from endcap.triton.tensor_spec import TRITON_TYPES

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "_generated"

# Parameters that shapes follow, and values of theirs that no other dimension has.
SYMBOLS = {
    "C": ("num_classes", 80),
    "K": ("max_detections", 300),
    "M": ("mask_coefficients", 32),
    "P": ("num_keypoints", 17),
}


def setup(app: Any) -> dict[str, Any]:
    """Write the files when a build starts."""
    app.connect("builder-inited", lambda _: write_all())
    return {"parallel_read_safe": True}


def write_all() -> None:
    """Write all files; an unchanged one keeps its time, so that its page is not read again."""
    FOLDER.mkdir(exist_ok=True)
    for name, make in {
        "preprocess": lambda: parameters(endcap.Preprocessor(threads=1).describe()),
        "presets": presets,
        "postprocess": lambda: parameters(endcap.Postprocessor(threads=1).describe()),
        "heads": lambda: "\n\n".join(map(head, HEAD_PARAMETERS)),
        "checks": checks,
        "exports": exports,
        "commands": commands,
    }.items():
        path, text = FOLDER / f"{name}.md", make() + "\n"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    header = list(header)
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def parameters(rows: list[endcap.Parameter]) -> str:
    """Return the table of one stage's parameters."""
    cells = (
        [
            f"`{r.name}`",
            r.meaning,
            r.allowed,
            "see left" if "by default" in r.meaning else f"`{r.value}`",
        ]
        for r in rows
    )
    return table(["name", "meaning", "allowed", "default"], cells)


def presets() -> str:
    """Return each preset's pipeline, and the fields in which presets differ."""
    source = (ROOT / "csrc" / "preprocess" / "presets.cc").read_text(encoding="utf-8")
    comments = re.findall(r"((?:^// .*\n)+)^PreprocessParams (\w+)\(\) {", source, re.MULTILINE)
    origins = {name.lower(): " ".join(re.findall(r"// (.*)", text)) for text, name in comments}
    names = endcap.presets()
    columns = [endcap.Preprocessor(name, threads=1).parameters for name in names]
    rows = [[f"`{field}`", *(column[field] for column in columns)] for field in columns[0]]
    return "\n\n".join(
        [
            table(["preset", "follows"], ([f"`{name}`", origins[name]] for name in names)),
            table(["field", *names], (row for row in rows if len(set(row[1:])) > 1)),
        ]
    )


def head(family: str) -> str:
    """Return the section of a head family: its tensors and parameters."""
    base, *changed = [_contract(family, symbol) for symbol in (None, *SYMBOLS)]
    # A batch's masks of several sizes have no tensor.
    notes = {"detection_masks": " (not with `mask_resolution` `source`)"}
    rows = [
        [side, f"`{name}`{notes.get(name, '')}", dtype, f"`[{', '.join(shape)}]`"]
        for side in ("in", "out")
        for name, dtype, shape in _symbolic(*(_tensors(c, side) for c in (base, *changed)))
    ]
    if family == "classification":  # the number of classes in the output is a parameter, not 5
        rows = [[cell.replace("[5]", "[top_k]") for cell in row] for row in rows]
    read = ", ".join(f"`{name}`" for name in HEAD_PARAMETERS[family])
    return f"## {family}\n\n{table(['', 'name', 'dtype', 'shape'], rows)}\n\nParameters: {read}."


def _contract(family: str, increased: str | None) -> ModelContract:
    """Return the contract of a model in which one of the symbols is 1 more than usual."""
    values = {name: value + (symbol == increased) for symbol, (name, value) in SYMBOLS.items()}
    given = {"head": family, "mask_resolution": "prototype", **values}
    return postprocess_contract({name: str(value) for name, value in given.items()})


Tensors = Sequence[tuple[str, str, Sequence[int]]]


def _tensors(contract: ModelContract, side: str) -> Tensors:
    types = {triton: name for name, triton in TRITON_TYPES.items()} | {"STRING": "string"}
    specs = contract.inputs if side == "in" else contract.outputs
    return [
        (spec.name, types[spec.data_type], [-1 if dim is None else dim for dim in spec.dims])
        for spec in specs
    ]


def _symbolic(base: Tensors, *changed: Tensors) -> list[tuple[str, str, list[str]]]:
    return [
        (
            name,
            dtype,
            [
                _dimension(size, [each[place][2][axis] - size for each in changed])
                for axis, size in enumerate(shape)
            ],
        )
        for place, (name, dtype, shape) in enumerate(base)
    ]


def _dimension(size: int, slopes: list[int]) -> str:
    if size < 0:
        return "*"
    terms = [
        f"{slope if slope > 1 else ''}{symbol}"
        for symbol, slope in zip(SYMBOLS, slopes, strict=True)
        if slope
    ]
    values = [value for _, value in SYMBOLS.values()]
    constant = size - sum(slope * value for slope, value in zip(slopes, values, strict=True))
    return " + ".join([str(constant)] * (constant != 0 or not terms) + terms)


def checks() -> str:
    """Return the table of the checks of `endcap doctor`."""
    rows = ([c.group, c.title, f"`{c.name}`", c.meaning] for c in CHECKS)
    return table(["group", "title", "name", "what is checked"], rows)


def exports() -> str:
    """Return what `endcap init` made of exported networks in tests/peers."""
    results = json.loads((ROOT / "tests" / "peers" / "exports.json").read_text(encoding="utf-8"))
    packages = ", ".join(f"{name} {version}" for name, version in results["packages"].items())
    parts = [f"Exported with {packages}."]
    for library, exported in itertools.groupby(results["exports"], lambda row: row["library"]):
        rows = []
        for row in exported:
            exporter = row["exporter"]
            rows.append(
                [
                    row["network"],
                    exporter if exporter.startswith(("its", "their")) else f"`{exporter}`",
                    f"`{row['head']}`" + (", the rest is not read" if row["without"] else ""),
                    f"`{row['preset']}`" + (f", `{row['fit']}`" if row["fit"] else ""),
                    f"`{row['options']}`" if row["options"] else "none",
                ]
            )
        header = ["network", "exported by", "head", "preset", "options"]
        parts += [f"## {library}", table(header, rows)]
    return "\n\n".join(parts)


def commands() -> str:
    """Return the help of every command, as Typer writes it."""
    command = [sys.executable, "-m", "typer", "endcap.cli.app", "utils", "docs", "--name", "endcap"]
    made = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return made[made.index("\n## ") :].strip()  # the page has its own introduction


if __name__ == "__main__":
    write_all()
