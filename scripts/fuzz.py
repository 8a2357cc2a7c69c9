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
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CORPORA = ROOT / "tests" / "fuzz" / "corpus"
BUILD = ROOT / "build" / "fuzz"

# Bytes of an input at most: of longer ones a target learns little.
MAX_INPUT_BYTES = {
    **{"exif": 256, "heads": 256, "masks": 256, "nms": 128, "rle": 600},
    "jpeg_decode": 6144,  # more than the entropy decoder's window holds
}
DEFAULT_MAX_INPUT_BYTES = 2048
# Begins the names of inputs that once failed, which stay.
REGRESSION = "regression-"
# What one input may take. Limits and parameters of the targets keep them far below.
MEMORY_LIMIT_MIB = 2048
TIMEOUT_SECONDS = 20


@dataclass(frozen=True)
class TargetRun:
    """The result of a target's run."""

    name: str
    seconds: float
    executions: int
    coverage: int
    crashes: tuple[Path, ...]
    failed: bool
    output: str

    def line(self) -> str:
        """Return the run as one line of a report."""
        per_second = self.executions / max(self.seconds, 1e-9)
        return (
            f"{self.name:15} {self.seconds:7.0f} s {self.executions:12d} executions "
            f"{per_second:9.0f}/s {self.coverage:6d} edges  {'FAILED' if self.failed else 'ok'}"
        )


def find_targets() -> list[str]:
    """Return the names of the targets, which are those of the committed corpora."""
    return sorted(path.stem for path in CORPORA.glob("*.zip"))


def committed_corpus(name: str) -> Path:
    """Return the folder into which CMake has unpacked a committed corpus."""
    return BUILD / "tests" / "fuzz" / "corpus" / name


def pack_corpus(name: str, folder: str) -> int:
    """Replace a committed corpus by the files of a folder; return their number."""
    files = sorted(Path(folder).iterdir())
    with zipfile.ZipFile(CORPORA / f"{name}.zip", "w") as archive:
        for file in files:
            # ZipInfo's fixed date: equal inputs make equal archives.
            archive.writestr(zipfile.ZipInfo(file.name), file.read_bytes(), zipfile.ZIP_DEFLATED, 9)
    return len(files)


def find_executable(name: str) -> Path:
    """Return a target's executable.

    Raises:
        SystemExit: it is not built.
    """
    path = BUILD / "tests" / "fuzz" / name
    if not path.is_file():
        raise SystemExit(f"fuzz: {path} does not exist: build it with 'make fuzz'")
    return path


def common_options(name: str) -> list[str]:
    """Return the options of libFuzzer that all runs of a target share."""
    return [
        f"-max_len={MAX_INPUT_BYTES.get(name, DEFAULT_MAX_INPUT_BYTES)}",
        f"-rss_limit_mb={MEMORY_LIMIT_MIB}",
        f"-timeout={TIMEOUT_SECONDS}",
    ]


def run_target(name: str, limit: list[str]) -> TargetRun:
    """Run a target once.

    Args:
        name: The target.
        limit: The option of libFuzzer that ends the run.

    Returns:
        The run's result; a crash ends it.
    """
    corpus = BUILD / "corpus" / name
    crashes = BUILD / "crashes"
    corpus.mkdir(parents=True, exist_ok=True)
    crashes.mkdir(parents=True, exist_ok=True)
    prefix = f"{crashes}/{name}-"
    known = set(crashes.glob(f"{name}-*"))
    start = time.monotonic()
    command = [
        *(str(find_executable(name)), *common_options(name), *limit),
        # Entropic scheduling would take a third of the time of targets this fast.
        *("-entropic=0", "-print_final_stats=1", f"-artifact_prefix={prefix}"),
        *(str(corpus), str(committed_corpus(name))),
    ]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    counts = re.findall(r"stat::number_of_executed_units:\s*(\d+)", done.stderr)
    edges = re.findall(r"cov: (\d+)", done.stderr)
    return TargetRun(
        name=name,
        seconds=time.monotonic() - start,
        executions=int(counts[-1]) if counts else 0,
        coverage=int(edges[-1]) if edges else 0,
        crashes=tuple(sorted(set(crashes.glob(f"{name}-*")) - known)),
        failed=done.returncode != 0,
        output=done.stderr,
    )


def explain_failure(run: TargetRun) -> str:
    """Return what a failed run printed of its reason, and the command that repeats it."""
    lines = run.output.splitlines()
    reasons = [text for text in lines if re.search(r"endcap fuzz:|ERROR:|runtime error:", text)]
    text = "\n".join(f"    {reason}" for reason in reasons[:4] or lines[-4:])
    for crash in run.crashes:
        text += f"\n    repeat it: {find_executable(run.name)} {crash}"
    return text


def fuzz(names: list[str], limit: list[str], jobs: int) -> int:
    """Run targets, and print a line for each.

    Returns:
        The exit status: 1 where a target failed.
    """
    failed = []
    with ThreadPoolExecutor(jobs) as pool:
        for run in pool.map(lambda name: run_target(name, limit), names):
            print(run.line(), flush=True)
            if run.failed:
                print(explain_failure(run), flush=True)
                failed.append(run.name)
    if failed:
        print(f"fuzz: {', '.join(failed)} failed")
    return 1 if failed else 0


def minimize(names: list[str]) -> int:
    """Replace the committed corpora by the fewest inputs that reach the same edges.

    Those in build/fuzz/corpus take part. Inputs whose names begin with `regression-` stay.

    Returns:
        The exit status: 1 where a target failed.
    """
    status = 0
    for name in names:
        committed = committed_corpus(name)
        with tempfile.TemporaryDirectory(dir=BUILD) as chosen:
            command = [
                *(str(find_executable(name)), *common_options(name), "-set_cover_merge=1"),
                # Edges alone: how often one is passed would keep many times as many inputs.
                *("-use_counters=0", chosen, str(committed), str(BUILD / "corpus" / name)),
            ]
            done = subprocess.run(command, capture_output=True, check=False)
            if done.returncode != 0:
                print(f"{name:15} failed; run it on its corpus for the reason", flush=True)
                status = 1
                continue
            for file in list(Path(chosen).iterdir()):
                file.rename(file.with_name(file.name[:16]))
            old = list(committed.iterdir())
            for file in old:
                if file.name.startswith(REGRESSION):
                    shutil.copy(file, chosen)
            count = pack_corpus(name, chosen)
            print(f"{name:15} {len(old):5d} -> {count:5d} inputs", flush=True)
    return status


def main() -> int:
    """Run the command line.

    Returns:
        The exit status.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("targets", nargs="*", help="targets; without any, all")
    parser.add_argument("--seconds", type=int, default=60, help="of each target (default 60)")
    parser.add_argument("--runs", type=int, help="executions of each target, in place of --seconds")
    parser.add_argument("--jobs", type=int, default=2, help="targets at a time (default 2)")
    parser.add_argument("--minimize", action="store_true", help="rebuild the committed corpora")
    options = parser.parse_args()
    known = find_targets()
    names = options.targets or known
    for name in names:
        if name not in known:
            parser.error(f"target '{name}' is unknown: there are {', '.join(known)}")
    if options.minimize:
        return minimize(names)
    limit = (
        f"-max_total_time={options.seconds}" if options.runs is None else f"-runs={options.runs}"
    )
    return fuzz(names, [limit], options.jobs)


if __name__ == "__main__":
    sys.exit(main())
