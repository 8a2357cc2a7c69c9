"""python -m benchmarks.server OUTPUT.json IMAGE... [--quick]: the server's part as JSON.

Prints a line for each run of the load generator, so that a caller can show how far it is; the first
line is their number.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from benchmarks.server.load_generator import LoadError, Window
from benchmarks.server.run import Plan, run, versions
from benchmarks.server.tasks import tasks
from endcap.server import ServerError

COMPLETE = Plan(
    concurrencies=(1, 4, 16),
    repeats=2,
    window=Window(interval_ms=1000, most_trials=12, stability_percent=30),
)
QUICK = Plan(
    concurrencies=(4,),
    repeats=1,
    window=Window(interval_ms=500, most_trials=10, stability_percent=60),
)


def main() -> int:
    """Run and writes; 1 and a message on standard error where that cannot be."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.server")
    parser.add_argument("output", type=Path)
    parser.add_argument("images", type=Path, nargs="+")
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    plan = QUICK if arguments.quick else COMPLETE
    wanted = tasks(arguments.images)
    print(len(wanted) * len(plan.concurrencies) * plan.repeats * 2, flush=True)
    try:
        comparisons = run(wanted, plan, lambda what: print(what, flush=True))
    except (LoadError, ServerError) as error:
        print(error, file=sys.stderr)
        return 1
    result = {"versions": versions(), "comparisons": [asdict(each) for each in comparisons]}
    arguments.output.write_text(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
