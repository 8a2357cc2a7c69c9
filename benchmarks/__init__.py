"""endcap next to its peers; docs/benchmarks.md describes the programs and their results."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
