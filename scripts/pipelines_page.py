"""Writes the figures of benchmarks/results/pipelines.json into docs/pipelines.md, in place.

python scripts/pipelines_page.py
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.pipelines import tables

if __name__ == "__main__":
    tables.write()
