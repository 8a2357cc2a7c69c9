"""Checks and benchmarks on a machine with a GPU: ``run KIT``, and ``merge`` of several results."""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NoReturn

from gpu_check.parts import ROOT, Part, Site, choose_parts
from gpu_check.processes import PASSED, end_of, run_process
from gpu_check.results import Results, continued, merge_files
from gpu_check.runner import Runner

_PROBE_SECONDS = 60.0


def main(arguments: list[str] | None = None) -> int:
    """Run, or merge; returns the exit status."""
    parser = argparse.ArgumentParser(prog="gpu_check", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run the parts and write gpu.json")
    run.add_argument("kit", type=Path, nargs="?", default=ROOT / "build" / "gpu-kit")
    run.add_argument(
        "--parts",
        default=os.environ.get("PARTS", ""),
        help="parts, groups of parts or patterns, separated by commas; all of them by default",
    )
    run.add_argument(
        "--out", type=Path, default=Path(os.environ.get("OUT") or ROOT / "build" / "gpu-check")
    )
    run.add_argument("--limit", type=float, default=float(os.environ.get("LIMIT") or 560))
    run.add_argument(
        "--dry-run",
        action="store_true",
        help="every part on tiny sizes, on the emulated library; nothing is measured",
    )
    run.add_argument("--list", action="store_true", help="name the parts in their order")
    merge = commands.add_parser("merge", help="merge the gpu.json of several runs")
    merge.add_argument("out", type=Path, help="folder that gets gpu.json and summary.txt")
    merge.add_argument("inputs", type=Path, nargs="+")
    options = parser.parse_args(arguments)
    try:
        if options.command == "merge":
            merged = merge_files(options.inputs, options.out)
            print(merged.summary())
            return merged.exit_status()
        parts = choose_parts(options.parts)
    except ValueError as error:
        parser.error(str(error))
    if options.list:
        for part in parts:
            print(f"{part.name} ({part.group}), at most {part.limit_s:.0f} s")
        return 0
    return _run(options, parts)


def _run(options: argparse.Namespace, parts: list[Part]) -> int:
    started = time.time()
    signal.signal(signal.SIGTERM, _interrupt)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    out: Path = options.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="endcap-gpu-check-") as folder:
        work = Path(folder)
        logs = work / "logs"
        logs.mkdir()
        site = Site(options.kit.absolute(), work, logs, options.dry_run)
        try:
            return _run_at(site, parts, out, started, options.limit)
        finally:
            site.stop()


def _run_at(site: Site, parts: list[Part], out: Path, started: float, limit_s: float) -> int:
    if problem := site.unpack_wheels():
        print(problem, file=sys.stderr)
        return 2
    if any("server" in part.needs for part in parts):
        site.start_unpacking_server()
    machine, problem = _probe(site)
    emulated = bool(machine.get("emulated"))
    if not problem and emulated != site.dry_run:
        problem = (
            "this is the emulated GPU, on which nothing can be measured: add --dry-run"
            if emulated
            else "--dry-run is for the emulated GPU: let ENDCAP_CUDA_LIBRARY name its library"
        )
        print(problem, file=sys.stderr)
        return 2
    results = continued(out, Results(machine, emulated), site.logs)
    runner = Runner(site, results, out, started=started, limit_s=limit_s)
    if problem:
        results.begin_run([part.name for part in parts], limit_s)
        for part in parts:
            runner.leave_out(part, problem, required=True)
    else:
        try:
            runner.run(parts)
        except KeyboardInterrupt:
            runner.say("interrupted")
            for part in parts:
                if part.name not in results.parts:
                    runner.leave_out(part, "the run was interrupted", required=True)
    runner.write()
    print(f"\n{results.summary()}")
    only_left_out = not results.failures()
    if only_left_out and os.environ.get("ENDCAP_REQUIRE_CUDA") == "0":
        return 0
    return results.exit_status()


def _probe(site: Site) -> tuple[dict[str, Any], str]:
    """Return the machine, and why nothing can run on it, or ""; a crash stops nothing."""
    output = site.work / "machine.json"
    log = site.logs / "machine.log"
    command = [site.python, "-X", "faulthandler", "-m", "gpu_check.machine", str(output)]
    outcome = run_process(
        command, log=log, limit_s=_PROBE_SECONDS, environment=site.environment, folder=site.work
    )
    if outcome.state == PASSED:
        machine: dict[str, Any] = json.loads(output.read_text())
        print(f"{machine['gpus']}, {machine['driver']}, commit {machine['commit']}", flush=True)
        if machine["available"]:
            return machine, ""
        return machine, f"this machine has no GPU that can be used: {machine['reason']}"
    print(end_of(log), flush=True)
    if outcome.state == "failed":
        return {}, "endcap could not be imported; machine.log says why"
    return {"emulated": site.dry_run, "gpus": [f"unknown: looking {outcome.state}"]}, ""


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
