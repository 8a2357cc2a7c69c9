"""Parts of a run, in the order of what they tell, and the commands that run them."""

from __future__ import annotations

import fnmatch
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TIMEOUT_OF_A_TEST = 60
_FEW_TESTS = 3  # of a file in a dry run
_FEW_VARIANTS = 2
SANITIZER = ("compute-sanitizer", "--error-exitcode", "9", "--launch-timeout", "60", "--tool")
# Of the kernels' sections: how much of the bandwidth and of the arithmetic units they use, and why.
_NCU_SECTIONS = ("SpeedOfLight", "MemoryWorkloadAnalysis", "Occupancy", "LaunchStats")


@dataclass(frozen=True)
class Part:
    """A process of a run.

    Attributes:
        name: of the part in `--parts` and in gpu.json.
        group: `--parts` takes it for all parts of the group.
        limit_s: seconds until the process is ended.
        module: Python module with its arguments, which writes a JSON file of Records; or
        test_file: file of tests, relative to the root of the tree.
        tool: command in front of Python, such as compute-sanitizer.
        needs: names of what it needs besides the GPU; see Site.missing.
        in_dry_run: why it cannot run on the emulated GPU; empty where it can.
        is_repeated: whether it is repeated when it fails.
    """

    name: str
    group: str
    limit_s: float
    module: tuple[str, ...] = ()
    test_file: str = ""
    tool: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    in_dry_run: str = ""
    is_repeated: bool = True


def _benchmark(name: str, limit_s: float, needs: tuple[str, ...] = ()) -> Part:
    return Part(name, "benchmark", limit_s, ("gpu_benchmark", name), needs=needs)


def _tests(
    file: str, group: str = "tests", limit_s: float = 90, needs: tuple[str, ...] = ()
) -> Part:
    return Part(Path(file).stem, group, limit_s, test_file=file, needs=needs)


_EMULATED = "the code does not run on a GPU"
PARTS = (
    Part("smoke", "smoke", 60, ("gpu_check.smoke",)),
    _benchmark("pixels", 90),
    _benchmark("heads", 60),
    _tests("tests/gpu/test_preprocess_cuda.py"),
    _tests("tests/python/core/test_cuda_preprocess.py"),
    _tests("tests/gpu/test_postprocess_cuda.py"),
    _tests("tests/python/core/test_cuda_postprocess.py"),
    _benchmark("jpeg", 90),
    _benchmark("masks", 90),
    _benchmark("server", 100, needs=("server",)),
    Part("kernels", "tests", 40, ("gpu_check.every_kernel",), is_repeated=False),
    _tests("tests/gpu/test_nms_cuda.py"),
    _tests("tests/gpu/test_masks_cuda.py"),
    _tests("tests/gpu/test_torch_cuda.py"),
    _tests("tests/gpu/test_threads_cuda.py"),
    _tests("tests/gpu/test_shared_memory_cuda.py"),
    # Not those that are for the emulation alone.
    *(
        _tests(f"tests/python/core/test_cuda_{name}.py")
        for name in (
            "array",
            "streams",
            "rois",
            "nms",
            "yuv",
            "nvjpeg",
            "python_backend",
            "without",
        )
    ),
    *(
        _tests(f"tests/triton/{name}.py", "server-tests", needs=("server", "tritonclient"))
        for name in ("test_gpu_instances", "test_gpu_pools")
    ),
    Part("variants", "variants", 200, needs=("variants",), is_repeated=False),
    *(
        Part(
            tool,
            "sanitizer",
            limit_s,
            ("gpu_check.every_kernel", "--tiny"),
            tool=(*SANITIZER, tool),
            needs=("compute-sanitizer",),
            in_dry_run=_EMULATED,
            is_repeated=False,
        )
        for tool, limit_s in (("memcheck", 150), ("racecheck", 120))
    ),
    Part(
        "ncu",
        "profile",
        120,
        ("gpu_benchmark", "profile"),
        tool=("ncu", *(word for name in _NCU_SECTIONS for word in ("--section", name))),
        needs=("ncu",),
        in_dry_run=_EMULATED,
        is_repeated=False,
    ),
)


def choose_parts(names: str, parts: Sequence[Part] = PARTS) -> list[Part]:
    """Return the parts that a list such as ``smoke,tests,test_gpu_*`` names, in their order.

    Raises:
        ValueError: a name that is neither a part, a group nor a pattern of parts.
    """
    if not names:
        return list(parts)
    chosen = set()
    for name in filter(None, names.split(",")):
        found = {
            p.name for p in parts if p.group == name or fnmatch.fnmatchcase(p.name, name.strip())
        }
        if not found:
            groups = dict.fromkeys(part.group for part in parts)
            raise ValueError(
                f"--parts has {name!r}: give groups ({', '.join(groups)}) or parts "
                f"({', '.join(part.name for part in parts)})"
            )
        chosen |= found
    return [part for part in parts if part.name in chosen]


@dataclass
class Site:
    """Where a run takes place: interpreter, kit, folders and environment of its processes.

    Attributes:
        kit: folder made by ``make gpu-kit``.
        work: temporary folder; the processes' working directory.
        logs: folder of the logs, which becomes logs.tar.gz.
        dry_run: whether the GPU is the emulated one, and sizes are tiny.
        python: interpreter with torch.
    """

    kit: Path
    work: Path
    logs: Path
    dry_run: bool
    python: str = sys.executable
    environment: dict[str, str] = field(default_factory=dict)
    _missing: dict[str, str] = field(default_factory=dict)
    _unpacking: subprocess.Popen[str] | None = None

    def unpack_wheels(self) -> str:
        """Unpack the kit's packages and set the environment; return why that failed, or ""."""
        site = self.work / "site"
        site.mkdir()
        clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        done = subprocess.run(
            self._unpack("wheels", site), env=clean, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            return done.stderr.strip() or "the kit's wheels could not be unpacked"
        self.environment = clean | {
            # In front of what is installed: the kit's versions fit each other.
            "PYTHONPATH": os.pathsep.join(map(str, (site, ROOT, ROOT / "tests" / "gpu"))),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
            "PYTHONFAULTHANDLER": "1",
            # Plug-ins that are installed may not fit the kit's pytest.
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "ENDCAP_REQUIRE_CUDA": "0" if self.dry_run else clean.get("ENDCAP_REQUIRE_CUDA", "1"),
        }
        if library := clean.get("ENDCAP_CUDA_LIBRARY"):
            self.environment["ENDCAP_CUDA_LIBRARY"] = str(Path(library).absolute())
        commit = self.kit / "commit"
        if commit.is_file():
            self.environment["ENDCAP_COMMIT"] = commit.read_text().strip()
        return ""

    def start_unpacking_server(self) -> None:
        """Start to unpack the kit's server, which takes some seconds."""
        self._unpacking = subprocess.Popen(
            self._unpack("server", self.server),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def server(self) -> Path:
        """Folder with bin/tritonserver and lib/."""
        return self.work / "server"

    def missing(self, need: str) -> str:
        """Return why something that a part needs is not there, or ""."""
        if need not in self._missing:
            self._missing[need] = self._look_for(need)
        return self._missing[need]

    def _look_for(self, need: str) -> str:
        if need == "server":
            if self._unpacking is None:
                self.start_unpacking_server()
            assert self._unpacking is not None
            _, errors = self._unpacking.communicate()
            return errors.strip().splitlines()[-1] if self._unpacking.returncode else ""
        if need == "variants":
            command = self._unpack("variants", self.work / "variants")
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                return done.stderr.strip().splitlines()[-1]
            if self.dry_run:
                self._emulate_variants()
            return ""
        if need == "tritonclient":
            done = subprocess.run(
                [self.python, "-c", "import tritonclient.grpc, tritonclient.http"],
                env=self.environment,
                capture_output=True,
                text=True,
                check=False,
            )
            wrong = done.stderr.strip().splitlines()
            return f"tritonclient cannot be imported: {wrong[-1]}" if done.returncode else ""
        return "" if shutil.which(need) else f"{need} is not installed"

    def _emulate_variants(self) -> None:
        """Replace the first of the kit's variants by the emulated library, drop the others."""
        libraries = sorted(self.work.glob("variants/*/libendcap_cuda.so"))
        libraries.sort(key=lambda library: library.parent.name != "default")
        for number, library in enumerate(libraries):
            library.unlink()
            if number < _FEW_VARIANTS:
                shutil.copy2(self.environment["ENDCAP_CUDA_LIBRARY"], library)

    def stop(self) -> None:
        """End the unpacking where it still runs."""
        if self._unpacking is not None and self._unpacking.poll() is None:
            self._unpacking.kill()
            self._unpacking.wait()

    def _unpack(self, what: str, target: Path) -> list[str]:
        program = ROOT / "tests" / "gpu" / "unpack_kit.py"
        return [self.python, str(program), what, str(self.kit), str(target)]

    def environment_of(self, part: Part) -> dict[str, str]:
        """Return the environment of a part's process."""
        environment = dict(self.environment)
        if part.group == "server-tests":
            environment["PATH"] = f"{self.server / 'bin'}{os.pathsep}{environment['PATH']}"
            places = [str(self.server / "lib"), environment.get("LD_LIBRARY_PATH", "")]
            environment["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, places))
        return environment

    def command_of(self, part: Part, name: str, tests: Sequence[str] = ()) -> list[str]:
        """Return the command of a part.

        Args:
            part: the part.
            name: stem of the files that the process writes: NAME.json, NAME.xml, NAME.jsonl.
            tests: of a file of tests, those to run; all of them by default.
        """
        python = [*part.tool, self.python, "-X", "faulthandler"]
        if part.tool[:1] == ("ncu",):
            report = str(self.logs / f"{name}.csv")
            kernels = "regex:Fused|Filter|Write|Settle|Suppress|Find|Order|Make"
            chosen = ["--kernel-name", kernels, "--launch-count", "40"]
            python[len(part.tool) : len(part.tool)] = ["--csv", "--log-file", report, *chosen]
        if part.test_file:
            return [*python, *self._pytest(part, name, tests)]
        if part.name == "variants":
            files = (str(self.work / "variants"), str(self.output_of(name)))
            return [*python, "-m", "gpu_benchmark.variants", *files, "--rounds", "1"]
        more = ["--tiny"] if self.dry_run and "--tiny" not in part.module else []
        if part.name == "server":
            more += ["--server", str(self.server), "--server-log", str(self.logs)]
        return [*python, "-m", *part.module, "--output", str(self.output_of(name)), *more]

    def output_of(self, name: str) -> Path:
        """Return the file of Records that a process writes."""
        return self.work / f"{name}.json"

    def record_of(self, name: str) -> Path:
        """Return the file in which a process of pytest records its tests."""
        return self.work / f"{name}.jsonl"

    def _pytest(self, part: Part, name: str, tests: Sequence[str]) -> list[str]:
        self.record_of(name).unlink(missing_ok=True)
        file = str(ROOT / part.test_file)
        seconds = min(TIMEOUT_OF_A_TEST, part.limit_s / 2)
        return [
            *("-m", "pytest", "-v", "-rs", "--durations=5"),
            *("-p", "pytest_timeout", "-p", "_hypothesis_pytestplugin", "-p", "no:cacheprovider"),
            *("-p", "gpu_check.pytest_record", "--record", str(self.record_of(name))),
            *(("--at-most", str(_FEW_TESTS)) if self.dry_run and not tests else ()),
            *("-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), "-W", "default"),
            # A test that hangs in native code does not notice its timeout: its process ends.
            *("-o", f"timeout={seconds:g}", "-o", f"end_process_after={1.25 * seconds:g}"),
            *("-o", f"faulthandler_timeout={0.75 * seconds:g}"),
            f"--junitxml={self.logs / name}.xml",
            *([f"{file}::{test.partition('::')[2]}" for test in tests] or [file]),
        ]
