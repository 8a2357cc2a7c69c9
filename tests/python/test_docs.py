"""Pages that are made from the code say what the code does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import endcap

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_of_parameters_is_the_codes() -> None:
    # It freezes every preset field by field, too: a changed default shows here.
    script = ROOT / "scripts" / "parameter_tables.py"
    made = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert made.stdout == (ROOT / "docs" / "parameters.md").read_text(encoding="utf-8"), (
        "run: python scripts/parameter_tables.py > docs/parameters.md"
    )


def test_every_parameter_is_explained() -> None:
    for row in endcap.Preprocessor().describe() + endcap.Postprocessor().describe():
        assert row.meaning, row.name
        assert row.allowed, row.name
        assert row.value, row.name
