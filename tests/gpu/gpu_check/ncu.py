"""Figures of Nsight Compute, read from its table of comma-separated values."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

_METRICS = (
    "Duration",
    "DRAM Throughput",
    "Memory Throughput",
    "Compute (SM) Throughput",
    "L1/TEX Hit Rate",
    "L2 Hit Rate",
    "Achieved Occupancy",
    "Registers Per Thread",
)


def read_ncu(path: Path) -> list[dict[str, Any]]:
    """Return the rows of each kernel launch: its name, metric, value and unit.

    Lines before the header are messages of ncu or of the program. Numbers have commas between
    thousands. A table that was cut short gives the rows before that.
    """
    if not path.is_file():
        return []
    lines = path.read_text(errors="replace").splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith('"ID"')]
    if not starts:
        return []
    rows = []
    for entry in csv.DictReader(lines[starts[0] :]):
        metric, value = entry.get("Metric Name"), entry.get("Metric Value")
        if metric not in _METRICS or not value:
            continue
        rows.append(
            {
                "work": f"launch {entry['ID']}: {entry['Kernel Name']}",
                "by": "ncu",
                "metric": metric,
                "value": float(value.replace(",", "")),
                "unit": entry.get("Metric Unit", ""),
                "notes": entry.get("Section Name", ""),
                "spread": None,
            }
        )
    return rows
