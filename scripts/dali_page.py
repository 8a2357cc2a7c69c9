"""Writes the figures of benchmarks/results/dali*.json into docs/dali.md and docs/dali_parity.md.

python scripts/dali_page.py
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.dali import tables

if __name__ == "__main__":
    tables.write()
