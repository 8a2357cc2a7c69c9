#!/usr/bin/env bash
# Checks and benchmarks on a machine with a GPU; docs/cuda.md ("Tests and measurements") describes them.
#
#   tests/gpu/run.sh [KIT] [--parts smoke,pixels,...] [--out FOLDER] [--limit SECONDS] [--dry-run] [--list]
#
# KIT is made by `make gpu-kit` (build/gpu-kit). The machine needs Python with NumPy, Pillow, torch
# and torchvision; no network and no compiler. PYTHON names the interpreter; PARTS, OUT and LIMIT
# stand for the options. ENDCAP_REQUIRE_CUDA=0: exit status 0 also where something that should have
# run could not.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
python=${PYTHON:-python3}
command -v "$python" >/dev/null || { echo "$python cannot be found: let PYTHON name Python" >&2; exit 2; }
PYTHONPATH="$root/tests/gpu" PYTHONDONTWRITEBYTECODE=1 exec "$python" -m gpu_check run "$@"
