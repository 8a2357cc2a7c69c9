#!/usr/bin/env python3
"""Files, lines and median length per area of the repository.

    python scripts/code_size.py [--at REV] [FOLDER...]

Examples:
    python scripts/code_size.py
        the areas of the working tree
    python scripts/code_size.py --at v0.1.0
        the same for a git revision
    python scripts/code_size.py csrc/nms csrc/decode
        single folders instead of the areas

Counted are source files that git tracks: C++, CUDA, C, Python and CMake. `under 40` is the number
of files of fewer than 40 lines.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
SUFFIXES = (".c", ".cc", ".cu", ".cuh", ".cmake", ".h", ".py")
NAMES = ("CMakeLists.txt",)
AREAS = (
    "csrc",
    "backends",
    "pyext/bindings",
    "pyext/endcap",
    "tests/cpp",
    "tests/cuda_emulation",
    "tests/fuzz",
    "tests/gpu",
    "tests/peers",
    "tests/python",
    "tests/support",
    "tests/reference",
    "tests/triton",
    "tests/wheel",
    "benchmarks",
    "scripts",
)
SHORT = 40  # lines


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(root), *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout


def _is_source(path: str) -> bool:
    return path.endswith(SUFFIXES) or path.rsplit("/", 1)[-1] in NAMES


def count_lines(root: Path, revision: str | None = None) -> dict[str, int]:
    """Return the lines of every tracked source file, by path.

    Args:
        root: Root of the repository.
        revision: A git revision; None counts the files of the working tree.

    Raises:
        subprocess.CalledProcessError: `revision` is unknown, or `root` is not in a repository.
    """
    if revision is None:
        paths = filter(_is_source, _git(root, "ls-files", "-z").split("\0"))
        files = (root / path for path in paths)
        return {
            file.relative_to(root).as_posix(): len(file.read_bytes().splitlines())
            for file in files
            if file.is_file()
        }
    # `git grep -c ''` prints REVISION:PATH:LINES and leaves out empty files.
    _git(root, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    counts = {
        path: 0
        for path in _git(root, "ls-tree", "-rz", "--name-only", revision).split("\0")
        if _is_source(path)
    }
    for line in _git(root, "grep", "-Ic", "", revision).splitlines():
        path, lines = line.removeprefix(f"{revision}:").rsplit(":", 1)
        if path in counts:
            counts[path] = int(lines)
    return counts


def format_table(counts: dict[str, int], areas: Iterable[str]) -> str:
    """Return a table with a row for each area that has files.

    Args:
        counts: Lines by path.
        areas: Folders.
    """
    rows = [f"{'area':22} {'files':>6} {'lines':>8} {'median':>7} {'under ' + str(SHORT):>9}"]
    for area in areas:
        lengths = [lines for path, lines in counts.items() if path.startswith(f"{area}/")]
        if not lengths:
            continue
        short = sum(length < SHORT for length in lengths)
        rows.append(f"{area:22} {len(lengths):6} {sum(lengths):8} {median(lengths):7.0f} {short:9}")
    return "\n".join(rows)


def main() -> int:
    """Print the table.

    Returns:
        The exit status: 1 where git fails.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--at", metavar="REV", help="a git revision (default: the working tree)")
    parser.add_argument("folders", nargs="*", metavar="FOLDER", help="folders instead of the areas")
    options = parser.parse_args()
    try:
        counts = count_lines(ROOT, options.at)
    except subprocess.CalledProcessError as error:
        print(f"git failed: {error.stderr.strip() or options.at}", file=sys.stderr)
        return 1
    print(format_table(counts, [folder.rstrip("/") for folder in options.folders] or AREAS))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
