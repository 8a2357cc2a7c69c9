#!/usr/bin/env python3
"""Runs of the fuzz targets of tests/fuzz, built by `cmake --preset fuzz`.

`make fuzz` calls it. A run of a number of executions for each target:

    scripts/fuzz.py --runs 1000000

Inputs that reach new code are kept in build/fuzz/corpus; `--minimize` rebuilds
the committed corpora, tests/fuzz/corpus/TARGET.zip, from them and the committed ones.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CORPORA = ROOT / "tests" / "fuzz" / "corpus"
BUILD = ROOT / "build" / "fuzz"
# CMake builds the targets in this folder, and unpacks the committed corpora below it.
BUILT = BUILD / "tests" / "fuzz"

# Longest inputs in bytes: a target learns little from longer ones.
MAX_INPUT_BYTES = {
    **{"heads": 256, "nms": 128, "rle": 600},
    "jpeg_decode": 6144,  # more than the entropy decoder's window holds
}
DEFAULT_MAX_INPUT_BYTES = 2048
# Begins the names of inputs that once failed, which stay.
REGRESSION = "regression-"


def target_command(name: str, *options: str | Path) -> list[str]:
    """Return a target's command line; the limits are far above what one input takes."""
    max_bytes = MAX_INPUT_BYTES.get(name, DEFAULT_MAX_INPUT_BYTES)
    limits = (f"-max_len={max_bytes}", "-rss_limit_mb=2048", "-timeout=20")
    return [str(BUILT / name), *limits, *map(str, options)]


def run_target(name: str, limit: str) -> bool:
    """Run a target once, and print a line; a crash ends it.

    Args:
        name: The target.
        limit: The option of libFuzzer that ends the run.

    Returns:
        Whether it passed.
    """
    corpus, crashes = BUILD / "corpus" / name, BUILD / "crashes"
    corpus.mkdir(parents=True, exist_ok=True)
    crashes.mkdir(exist_ok=True)
    # Entropic scheduling would take a third of the time of targets this fast.
    options = (limit, "-entropic=0", "-print_final_stats=1", f"-artifact_prefix={crashes}/{name}-")
    command = target_command(name, *options, corpus, BUILT / "corpus" / name)
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    runs, edges = (
        (re.findall(pattern, done.stderr) or ["0"])[-1]
        for pattern in (r"stat::number_of_executed_units:\s*(\d+)", r"cov: (\d+)")
    )
    passed = done.returncode == 0
    result = "ok" if passed else "FAILED"
    print(f"{name:15} {runs:>12} executions {edges:>6} edges  {result}", flush=True)
    if not passed:
        lines = done.stderr.splitlines()
        told = re.compile(r"endcap fuzz:|ERROR:|runtime error:|Test unit written to")
        reasons = [line for line in lines if told.search(line)] or lines
        print(*(f"    {line}" for line in reasons[-6:]), sep="\n", flush=True)
        print(f"    repeat it: {BUILT / name} FILE", flush=True)
    return passed


def minimize(name: str) -> bool:
    """Replace a committed corpus by the fewest inputs that reach the same edges.

    Those in build/fuzz/corpus take part. Inputs whose names begin with `regression-` stay.

    Returns:
        Whether it succeeded.
    """
    committed = BUILT / "corpus" / name
    with tempfile.TemporaryDirectory(dir=BUILD) as chosen:
        # Edges alone: how often one is passed would keep many times as many inputs.
        options = ("-set_cover_merge=1", "-use_counters=0", chosen)
        command = target_command(name, *options, committed, BUILD / "corpus" / name)
        if subprocess.run(command, capture_output=True, check=False).returncode != 0:
            print(f"{name:15} failed; run it on its corpus for the reason", flush=True)
            return False
        for file in list(Path(chosen).iterdir()):
            file.rename(file.with_name(file.name[:16]))
        for file in committed.glob(f"{REGRESSION}*"):
            shutil.copy(file, chosen)
        files = sorted(Path(chosen).iterdir())
        with zipfile.ZipFile(CORPORA / f"{name}.zip", "w") as archive:
            for file in files:
                # ZipInfo's fixed date: equal inputs make equal archives.
                entry = zipfile.ZipInfo(file.name)
                archive.writestr(entry, file.read_bytes(), zipfile.ZIP_DEFLATED, 9)
    print(f"{name:15} {len(list(committed.iterdir())):5d} -> {len(files):5d} inputs", flush=True)
    return True


def main() -> int:
    """Run the command line.

    Returns:
        The exit status: 1 where a target failed.
    """
    known = sorted(path.stem for path in CORPORA.glob("*.zip"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("targets", nargs="*", default=known, help="targets; without any, all")
    parser.add_argument("--seconds", type=int, default=60, help="of each target (default 60)")
    parser.add_argument("--runs", type=int, help="executions of each target, in place of --seconds")
    parser.add_argument("--jobs", type=int, default=2, help="targets at a time (default 2)")
    parser.add_argument("--minimize", action="store_true", help="rebuild the committed corpora")
    options = parser.parse_args()
    for name in options.targets:
        if not (BUILT / name).is_file() or name not in known:
            parser.error(f"target '{name}' is not built; `make fuzz` builds {', '.join(known)}")
    if options.minimize:
        failed = [name for name in options.targets if not minimize(name)]
        return 1 if failed else 0
    limit = f"-runs={options.runs}" if options.runs else f"-max_total_time={options.seconds}"
    with ThreadPoolExecutor(options.jobs) as pool:
        passed = list(pool.map(lambda name: run_target(name, limit), options.targets))
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
