"""What the compiler made of the GPU's kernels: a table for people, from the library itself.

    python scripts/kernel_report.py build/dev/libendcap_cuda.so

Needs `cuobjdump` and `nvdisasm` of the CUDA toolkit, on PATH or from the Python packages
nvidia-cuda-cuobjdump and nvidia-cuda-nvdisasm. Exits with 1 when a kernel uses local memory beyond
what is known.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

_FUNCTION = re.compile(r"Function\s*:?\s*(\S+?):?$")
_USAGE = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)")
# Bytes a thread, none of them for a spilled register, as ptxas tells.
KNOWN_LOCAL = {"WriteDetections": 48, "WriteByPolygons": 32, "WriteByProbiou": 32}
_WIDE = re.compile(r"\b(LDG(?:STS)?\.E(?:\.BYPASS)?\.128|STG\.E\.128|STS\.128)")


@dataclass
class Kernel:
    """One kernel in machine code."""

    registers: int = 0
    stack: int = 0
    shared: int = 0
    local: int = 0
    wide: Counter[str] = field(default_factory=Counter)

    @property
    def wide_loads(self) -> int:
        """Loads of 16 bytes from global memory."""
        return sum(count for what, count in self.wide.items() if what.startswith("LDG"))

    @property
    def wide_stores(self) -> int:
        """Stores of 16 bytes to global memory."""
        return self.wide["STG.E.128"]


def _folders() -> str:
    """PATH, and where NVIDIA's Python packages of this environment have their programs."""
    packages = [str(Path(folder, "nvidia", "cu13", "bin")) for folder in sys.path if folder]
    return os.pathsep.join([os.environ.get("PATH", os.defpath), *packages])


def find_tool(name: str) -> str | None:
    """Return the path of a program, None where it is not installed."""
    return shutil.which(name, path=_folders())


def run(name: str, *arguments: str, text: str | None = None) -> list[str]:
    """Return the lines that a program prints."""
    command = [find_tool(name) or name, *arguments]
    environment = {**os.environ, "PATH": _folders()}  # cuobjdump starts nvdisasm
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, check=True, env=environment
    )
    return done.stdout.splitlines()


def read(library: Path, architecture: str) -> dict[str, Kernel]:
    """Return endcap's own kernels by name, in the order of the library; CUB's are left out."""
    options = ("--gpu-architecture", architecture, str(library))
    kernels: dict[str, Kernel] = {}
    name = ""
    for line in run("cuobjdump", "--dump-resource-usage", *options):
        if found := _FUNCTION.search(line.strip()):
            name = found[1]
        elif found := _USAGE.search(line):
            registers, stack, shared, local = map(int, found.groups())
            kernels[name] = Kernel(registers, stack, shared, local)
    for line in run("cuobjdump", "--dump-sass", *options):
        if found := _FUNCTION.search(line.strip()):
            name = found[1]
        elif (found := _WIDE.search(line)) and name in kernels:
            kernels[name].wide[found[1]] += 1
    named = dict(zip(readable(kernels), kernels.values(), strict=True))
    return {name: kernel for name, kernel in named.items() if "cub::" not in name}


def readable(mangled: Iterable[str]) -> list[str]:
    """Return kernels' names as the table shows them."""
    return [short(name) for name in run("c++filt", "-p", text="\n".join(mangled))]


def short(name: str) -> str:
    """Return a kernel's name without its namespaces."""
    name = name.replace("endcap::", "").replace("(anonymous namespace)::", "")
    return name.removeprefix("void ")


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("library", type=Path)
    parser.add_argument("--architecture", default="sm_90", help="default: %(default)s")
    arguments = parser.parse_args()
    kernels = read(arguments.library, arguments.architecture)
    if not kernels:
        print(f"{arguments.library} has no code for {arguments.architecture}", file=sys.stderr)
        return 1
    print("| kernel | registers | shared bytes | local bytes | 16-byte loads | 16-byte stores |")
    print("|---|---|---|---|---|---|")
    for name, kernel in sorted(kernels.items()):
        local = kernel.stack + kernel.local
        row = (
            *(f"`{name}`", kernel.registers, kernel.shared, local),
            *(kernel.wide_loads, kernel.wide_stores),
        )
        print("| " + " | ".join(str(cell) for cell in row) + " |")
    more = [name for name, each in kernels.items() if each.stack + each.local > known_local(name)]
    if more:
        print(f"local memory beyond what is known: {', '.join(sorted(more))}", file=sys.stderr)
    return 1 if more else 0


def known_local(name: str) -> int:
    """Bytes of local memory that a kernel of this name is known to use."""
    return KNOWN_LOCAL.get(name.partition("(")[0], 0)


if __name__ == "__main__":
    sys.exit(main())
