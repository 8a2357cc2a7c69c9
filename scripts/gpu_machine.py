"""Tests and measures endcap on a GPU machine that has no network and no compiler.

    python scripts/gpu_machine.py pack dist/endcap-gpu.tar    (`make gpu-machine` does it)
    tar xf endcap-gpu.tar                                     (on the GPU machine)
    python3 endcap-gpu/scripts/gpu_machine.py run

`pack` needs one wheel of endcap with GPU code for this Python in dist/, and downloads the packages
that the tests import. `run` needs the same version of Python with venv; it uses torch, torchvision,
DALI and CV-CUDA where that Python has them. It runs a smoke test, the tests and the benchmark, each
in its own process, and leaves results.json, gpu.json, tests.xml and the logs in one folder.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FILES = (
    *("tests/gpu", "tests/support", "tests/reference", "tests/__init__.py", "tests/conftest.py"),
    *("pyproject.toml", "benchmarks/__init__.py", "benchmarks/gpu", "scripts/gpu_machine.py"),
)
PACKAGES = ("numpy", "pillow", "pytest", "pytest-timeout")
FOLDER = "endcap-gpu"


def pack(output: Path, dist: Path, *, dry_run: bool) -> None:
    """Write the archive; a dry run leaves the wheels out."""
    commit = _git("describe", "--always", "--dirty", "--abbrev=12").strip()
    with tempfile.TemporaryDirectory(prefix="endcap-gpu-") as temporary:
        wheels = Path(temporary, "wheels")
        wheels.mkdir()
        if not dry_run:
            wheel = find_wheel(dist)
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:"]
            subprocess.run(
                [*command, "--dest", str(wheels), f"{wheel}[cuda]", *PACKAGES], check=True
            )
        Path(temporary, "commit").write_text(commit + "\n")
        output.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(output, "w") as archive:
            for name in _git("ls-files", "--", *FILES).splitlines():
                archive.add(ROOT / name, f"{FOLDER}/{name}")
            for path in (Path(temporary, "commit"), wheels):
                archive.add(path, f"{FOLDER}/{path.name}")
    print(f"{output}: {output.stat().st_size / 1e6:.1f} MB, commit {commit}")


def find_wheel(dist: Path) -> Path:
    """Return the wheel of endcap for this Python; SystemExit without one that has GPU code."""
    tag = "cp{}{}".format(*sys.version_info[:2])
    wheels = sorted(dist.glob(f"endcap-*-{tag}-*.whl"))
    if len(wheels) != 1:
        found = ", ".join(wheel.name for wheel in wheels) or "none"
        raise SystemExit(
            f"{dist} must have one wheel of endcap for {tag}, has {found}: run `make wheel`, or "
            "remove those that are not meant"
        )
    with zipfile.ZipFile(wheels[0]) as archive:
        if "endcap/libendcap_cuda.so" not in archive.namelist():
            raise SystemExit(f"{wheels[0]} has no GPU code: run `make wheel CUDA=ON`")
    return wheels[0].resolve()


def run(out: Path, limit_s: float, *, dry_run: bool) -> bool:
    """Run the steps; returns whether all passed.

    A dry run takes the installed endcap instead of the wheels, collects the tests without running
    them, and lets the benchmark run on tiny sizes, so that the emulated GPU is enough.
    """
    out.mkdir(parents=True, exist_ok=True)
    out = out.resolve()
    python = sys.executable if dry_run else _install(out)
    commit = ROOT / "commit"
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    if commit.is_file():
        environment["ENDCAP_COMMIT"] = commit.read_text().strip()
    pytest = [python, "-m", "pytest", "-p", "no:cacheprovider", "-W", "default", "-rs"]
    tests = ["--collect-only", "-q"] if dry_run else ["-v", f"--junitxml={out / 'tests.xml'}"]
    benchmark = [python, "-m", "benchmarks.gpu", "--output", str(out / "gpu.json")]
    steps = {
        "smoke": [*pytest, "-x", "tests/gpu/test_smoke_cuda.py"],
        "tests": [*pytest, *tests, "tests/gpu"],
        "benchmark": [*benchmark, *(["--tiny"] if dry_run else [])],
    }
    results: dict[str, Any] = {
        "commit": environment.get("ENDCAP_COMMIT", "unknown"),
        "python": sys.version.split()[0],
        "dry_run": dry_run,
        "steps": {},
    }
    for name, command in steps.items():
        # Without a GPU the smoke test fails; what else a test lacks is a reason to skip it.
        required = {"ENDCAP_REQUIRE_CUDA": "1" if name == "smoke" else "0"}
        step = _run_step(command, out / f"{name}.log", environment | required, limit_s)
        results["steps"][name] = step
        print(f"{name}: {step['state']}, {step['seconds']} s, {out / name}.log", flush=True)
        (out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    return all(step["state"] == "passed" for step in results["steps"].values())


def _install(out: Path) -> str:
    """Make an environment of the wheels; return its Python."""
    folder = ROOT / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", folder], check=True)
    python = str(folder / "bin" / "python")
    wheels = ROOT / "wheels"
    command = [python, "-m", "pip", "install", "--no-index", "--find-links", wheels]
    with (out / "install.log").open("w") as log:
        done = subprocess.run(
            [*command, "endcap[cuda]", *PACKAGES], stdout=log, stderr=log, check=False
        )
    if done.returncode != 0:
        found = ", ".join(path.name for path in sorted(wheels.glob("endcap-*.whl"))) or "none"
        raise SystemExit(
            f"The wheels cannot be installed for Python {sys.version.split()[0]}: see "
            f"{out / 'install.log'}, and run this with the Python that they are for ({found})"
        )
    return python


def _run_step(
    command: list[str], log: Path, environment: dict[str, str], limit_s: float
) -> dict[str, Any]:
    start = time.monotonic()
    with log.open("w") as output:
        try:
            status = subprocess.run(
                command,
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=limit_s,
                check=False,
            ).returncode
            state = "passed" if status == 0 else "failed" if status > 0 else "crashed"
        except subprocess.TimeoutExpired:
            status, state = None, "timed out"
    return {"state": state, "status": status, "seconds": round(time.monotonic() - start, 1)}


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def main() -> int:
    """Pack, or run what was packed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    packing = commands.add_parser("pack", help="write the archive")
    packing.add_argument("output", type=Path)
    packing.add_argument("--dist", type=Path, default=ROOT / "dist", help="folder of the wheel")
    running = commands.add_parser("run", help="run smoke test, tests and benchmark")
    running.add_argument("--out", type=Path, default=Path("gpu-results"), help="of the results")
    running.add_argument("--limit", type=float, default=900, help="seconds for each step")
    for each in (packing, running):
        each.add_argument("--dry-run", action="store_true", help="without wheels, measures nothing")
    options = parser.parse_args()
    if options.command == "pack":
        pack(options.output, options.dist, dry_run=options.dry_run)
        return 0
    return 0 if run(options.out, options.limit, dry_run=options.dry_run) else 1


if __name__ == "__main__":
    sys.exit(main())
