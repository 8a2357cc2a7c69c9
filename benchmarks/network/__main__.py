"""python -m benchmarks.network [--quick] [--output FILE.json]: the network step, measured.

Needs the environment of `make build`, with a Triton server. Takes ten minutes on two CPUs; a line
for each measurement says how far it is.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from benchmarks import machine, paths
from benchmarks.network import page
from benchmarks.network.run import QUICK, Plan, run, steps


def main() -> int:
    """Measure, writes the JSON, prints the tables; without --quick also fills docs/triton.md."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.network",
        description="The network step on a CPU: endcap_onnx beside ONNX Runtime, and its threads.",
        epilog="example: make bench-network BENCH_OPTIONS=--quick",
    )
    parser.add_argument("--quick", action="store_true", help="half a minute; figures are rough")
    parser.add_argument("--output", type=Path, help="JSON file; benchmarks/results/network.json")
    arguments = parser.parse_args()
    plan = QUICK if arguments.quick else Plan()
    default = paths.BUILD / "bench-quick" if arguments.quick else paths.RESULTS
    output: Path = arguments.output or default / "network.json"
    about, done, total = machine.describe(), 0, steps(plan)

    def report(what: str) -> None:
        nonlocal done
        done += 1
        print(f"{done}/{total} {what}", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory(prefix="endcap-bench-") as folder:
        document = {"machine": about, "network": run(plan, Path(folder), report)}
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(document, indent=1) + "\n")
    print(page.figures(document), f"\nwritten: {output}")
    if output == page.DOCUMENT:
        page.write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
