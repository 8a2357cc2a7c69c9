"""Where the benchmarks find and leave their files."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
IMAGES = BUILD / "bench-images"
COMPILED = BUILD / "bench-compiled"
LOAD_GENERATOR = BUILD / "bench-perf-analyzer"
SERVER_REPOSITORY = BUILD / "bench-models"
PIPELINES_REPOSITORY = BUILD / "bench-pipelines"
RESULTS = Path(__file__).resolve().parent / "results"
