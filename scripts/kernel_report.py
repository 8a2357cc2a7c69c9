"""Counts the instructions of the CUDA kernels, compiled for sm_90. No GPU is needed.

    python scripts/kernel_report.py [FILE.cu ...]

Prints a row for each kernel, and for each function of _PARTS that is inlined in it: registers,
instructions, barriers, generic loads (the compiler does not know the kind of memory), loads from
shared memory, and accesses to local memory. Counts are of the code, not of its execution.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections import Counter
from pathlib import Path

_SOURCES = Path(__file__).parents[1] / "csrc"
# Those of csrc/cuda_library/CMakeLists.txt, and line numbers.
_FLAGS = ("-arch=sm_90", "-std=c++20", "--fmad=false", "--expt-relaxed-constexpr", "-lineinfo")
_PARTS = ("SortChunk", "SuppressChunk", "AddRow", "Skip", "StageGroup", "FetchPixel")
_COLUMNS = {
    "all": "",
    "barriers": r"BAR\b",
    "generic": r"LD(\.|$)",
    "shared": r"LDS\b",
    "local": r"(LDL|STL)\b",
}
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([\w.]+)")


def _find_tool(name: str, remedy: str) -> str:
    packaged = Path(sysconfig.get_path("purelib"), "nvidia/cu13/bin")
    found = shutil.which(name) or shutil.which(name, path=f"/usr/local/cuda/bin:{packaged}")
    return found or sys.exit(f"{name} was not found: {remedy}")


def _find_parts(source: Path) -> list[tuple[str, range]]:
    """Find the lines of the functions of _PARTS that a file defines."""
    lines = source.read_text().splitlines()
    parts = []
    for begin, line in enumerate(lines, start=1):
        part = re.match(r"( *)__device__ [^(]*\b(\w+)\(.*[^}]$", line)
        if part and part[2] in _PARTS:
            parts.append((part[2], range(begin, lines.index(f"{part[1]}}}", begin) + 2)))
    return parts


def _count(sass: str) -> dict[tuple[str, str], Counter[str]]:
    """Count by mangled kernel and part; the part of a whole kernel is empty."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    parts: dict[str, list[tuple[str, range]]] = {}
    kernel, within, complete = "", {""}, False  # complete: the next frame is another instruction's
    for line in sass.splitlines():
        if line.startswith(".text."):
            kernel, within = line[len(".text.") : -1], {""}
        elif frame := _FRAME.search(line):
            if frame[1] not in parts:
                parts[frame[1]] = _find_parts(Path(frame[1]))
            inlined = {name for name, lines in parts[frame[1]] if int(frame[2]) in lines}
            within = inlined | ({""} if complete else within)
            complete = False
        elif (instruction := _INSTRUCTION.search(line)) and instruction[1] != "NOP":
            complete = True
            columns = [name for name, kind in _COLUMNS.items() if re.match(kind, instruction[1])]
            for part in within:
                counts.setdefault((kernel, part), Counter()).update(columns)
    return counts


def _report(source: Path, nvcc: str, nvdisasm: str) -> None:
    def run(*command: str, text: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, check=True, input=text, capture_output=True, text=True)

    with tempfile.NamedTemporaryFile(suffix=".cubin") as cubin:
        include = (f"-I{_SOURCES}", f"-I{_SOURCES}/include", "-cubin", "-o", cubin.name)
        log = run(nvcc, *_FLAGS, "-Xptxas=-v", *include, str(source)).stderr
        counts = _count(run(nvdisasm, "-c", "-gi", cubin.name).stdout)
    registers = dict(re.findall(r"entry function '(\w+)'.*?Used (\d+) reg", log, re.DOTALL))
    names = run("c++filt", text="\n".join(kernel for kernel, _ in counts)).stdout.splitlines()
    for name, ((kernel, part), count) in sorted(zip(names, counts.items(), strict=True)):
        if "cub::" not in name:
            name = re.sub(r"\((endcap::\w+|anonymous namespace)\)|void |::|endcap|\(.*", "", name)
            row = ("  " + part, "") if part else (name, registers[kernel])
            numbers = (row[1], *(count[column] for column in _COLUMNS))
            print(f"{row[0]:24}", *(f"{number:>9}" for number in numbers))


if __name__ == "__main__":
    tools = (
        _find_tool("nvcc", "install CUDA 13, or pip install --group cuda-build"),
        _find_tool("nvdisasm", "pip install --group kernel-report"),
    )
    print(f"{'':24}", *(f"{column:>9}" for column in ("registers", *_COLUMNS)))
    for path in sys.argv[1:] or sorted(map(str, _SOURCES.glob("*/cuda/*.cu"))):
        _report(Path(path).resolve(), *tools)
