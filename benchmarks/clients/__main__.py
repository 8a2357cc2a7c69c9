"""python -m benchmarks.clients OUTPUT.json [--quick]: the clients' ways as JSON.

It runs in the server's environment. It prints a line for each visit of a way, so that a caller can
show how far it is; the first line is their number.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from benchmarks.clients.run import COMPLETE, QUICK, run


def main() -> int:
    """Run and writes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clients")
    parser.add_argument("output", type=Path)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    plan = QUICK if arguments.quick else COMPLETE
    print(plan.visits, flush=True)
    result = run(plan, lambda what: print(what, flush=True))
    arguments.output.write_text(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
