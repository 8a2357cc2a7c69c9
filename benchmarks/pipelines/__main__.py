"""python -m benchmarks.pipelines OUTPUT.json --service-python PYTHON [--quick]: pipelines as JSON.

It runs in the server's environment. It prints a line for each visit of a pipeline, so that a caller
can show how far it is; the first line is their number.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from benchmarks.pipelines.run import COMPLETE, QUICK, run, versions


def main() -> int:
    """Run and writes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pipelines")
    parser.add_argument("output", type=Path)
    parser.add_argument("--service-python", type=Path, required=True)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    plan = QUICK if arguments.quick else COMPLETE
    print(plan.visits, flush=True)
    comparisons = run(plan, arguments.service_python, lambda what: print(what, flush=True))
    result = {
        "versions": versions(),
        "rounds": plan.rounds,
        "seconds": plan.seconds,
        "comparisons": comparisons,
    }
    arguments.output.write_text(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
