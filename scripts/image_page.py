"""Writes the table of benchmarks/results/image_size.json into docs/kubernetes.md, in place.

python scripts/image_page.py

`python scripts/image_check.py --wheel WHEEL --output benchmarks/results/image_size.json` measures;
with `--model detect_python` it adds the image with Python models.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "image_size.json"
PAGE = ROOT / "docs" / "kubernetes.md"
BEGIN = "<!-- Made by scripts/image_page.py -->"
END = "<!-- Until here -->"
_MIB = 1 << 20


def table(sizes: dict[str, Any]) -> str:
    """Return a row for each component, a column for each image; the first has the order."""
    components = dict.fromkeys(name for image in sizes.values() for name in image["components"])
    rows = [["MiB", *(f"`{model}`" for model in sizes)], ["---", *["---:"] * len(sizes)]]
    for name in components:
        found = (image["components"].get(name) for image in sizes.values())
        rows.append([name, *("" if size is None else _mib(size) for size in found)])
    rows.append(["**all**", *(f"**{_mib(image['bytes'])}**" for image in sizes.values())])
    rows.append(
        ["compressed, one layer", *(_mib(image["compressed_bytes"]) for image in sizes.values())]
    )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def fill(page: str, sizes: dict[str, Any]) -> str:
    """Return the page with the table between its marks.

    Raises:
        ValueError: The page lacks a mark.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page lacks '{BEGIN}' or '{END}' behind it; put both in")
    return f"{before}{BEGIN}\n\n{table(sizes)}\n\n{END}{after}"


def _mib(size: int) -> str:
    return f"{size / _MIB:.1f}"


if __name__ == "__main__":
    PAGE.write_text(
        fill(PAGE.read_text(encoding="utf-8"), json.loads(RESULTS.read_text(encoding="utf-8"))),
        encoding="utf-8",
    )
