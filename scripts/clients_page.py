"""Writes the figures of benchmarks/results/clients.json into docs/clients.md, in place.

python scripts/clients_page.py
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.clients import tables

if __name__ == "__main__":
    tables.write()
