"""tests/gpu/run.sh: its runner, its results, a dry run on the emulated GPU, and no GPU."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import tarfile
import textwrap
import time
import zipfile
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

GPU = Path(__file__).resolve().parents[2] / "gpu"
sys.path.insert(0, str(GPU))

from gpu_check.ncu import read_ncu  # noqa: E402
from gpu_check.parts import PARTS, Part, Site, choose_parts  # noqa: E402
from gpu_check.results import Results, ResultsError, continued  # noqa: E402
from gpu_check.runner import Runner  # noqa: E402
from gpu_check.targets import judge  # noqa: E402


def program(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(GPU / name), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def make_wheel(folder: Path, name: str, *files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / name, "w") as archive:
        for file in files:
            archive.writestr(file, f"FROM = {name!r}\n")


def this_python() -> str:
    return "cp{}{}".format(*sys.version_info[:2])


def test_wheels_of_this_python_are_unpacked(tmp_path: Path) -> None:
    tag = this_python()
    wheels = tmp_path / "kit" / "wheels"
    make_wheel(wheels, f"endcap-1-{tag}-{tag}-manylinux_2_35_x86_64.whl", "endcap/__init__.py")
    make_wheel(wheels, "endcap-1-cp27-cp27-manylinux_2_35_x86_64.whl", "endcap/other.py")
    make_wheel(wheels, "protobuf-1-cp39-abi3-manylinux2014_x86_64.whl", "google/protobuf.py")
    files = ("nvidia/__init__.py", "nvidia/cu13/lib/libnvjpeg.so.13")
    make_wheel(wheels, "nvidia_nvjpeg-1-py3-none-manylinux2014_x86_64.whl", *files)
    site = tmp_path / "site"
    done = program("unpack_kit.py", "wheels", tmp_path / "kit", site)
    assert done.returncode == 0, done.stderr
    found = sorted(str(path.relative_to(site)) for path in site.rglob("*") if path.is_file())
    assert found == ["endcap/__init__.py", "google/protobuf.py", "nvidia/cu13/lib/libnvjpeg.so.13"]


def test_a_kit_for_other_pythons_names_both_versions(tmp_path: Path) -> None:
    wheels = tmp_path / "kit" / "wheels"
    make_wheel(wheels, "pytest-1-py3-none-any.whl", "pytest.py")
    done = program("unpack_kit.py", "wheels", tmp_path / "kit", tmp_path / "site")
    assert done.returncode == 1
    assert "holds no wheel of endcap" in done.stderr
    for tag in ("cp27", "cp399"):
        make_wheel(wheels, f"endcap-1-{tag}-{tag}-manylinux_2_35_x86_64.whl", "endcap/one.py")
    done = program("unpack_kit.py", "wheels", tmp_path / "kit", tmp_path / "site")
    assert done.returncode == 1
    version = "{}.{}".format(*sys.version_info[:2])
    assert f"holds endcap for Python 2.7 and 3.99, this is Python {version}" in done.stderr
    assert f"make gpu-kit GPU_PYTHON=python{version}" in done.stderr
    assert not (tmp_path / "site").exists()


@pytest.mark.parametrize("what", ["wheels", "server"])
def test_a_kit_that_was_cut_off_is_an_error(what: str, tmp_path: Path) -> None:
    kit = tmp_path / "kit"
    tag = this_python()
    name = f"endcap-1-{tag}-{tag}-manylinux_2_35_x86_64.whl"
    make_wheel(kit / "wheels", name, "endcap/__init__.py")
    with tarfile.open(kit / "tritonserver.tar.xz", "w:xz") as archive:
        archive.add(__file__, "bin/tritonserver")
    assert program("unpack_kit.py", what, kit, tmp_path / "site").returncode == 0
    cut = kit / {"wheels": f"wheels/{name}", "server": "tritonserver.tar.xz"}[what]
    cut.write_bytes(cut.read_bytes()[: cut.stat().st_size // 2])
    done = program("unpack_kit.py", what, kit, tmp_path / "again")
    assert done.returncode == 1
    assert f"{cut} cannot be unpacked" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("what", ["wheels", "server", "variants"])
def test_a_kit_that_lacks_something_is_told(what: str, tmp_path: Path) -> None:
    done = program("unpack_kit.py", what, tmp_path, tmp_path / "site")
    assert done.returncode == 1
    assert str(tmp_path) in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("required", ["0", "1"])
def test_without_a_gpu_the_run_says_so_at_once(required: str, tmp_path: Path) -> None:
    tag = this_python()
    wheel = f"endcap-1-{tag}-{tag}-manylinux_2_35_x86_64.whl"
    make_wheel(tmp_path / "kit" / "wheels", wheel, "endcap/marker.py")
    environment = os.environ | {
        "PYTHON": sys.executable,
        "OUT": str(tmp_path / "out"),
        "ENDCAP_REQUIRE_CUDA": required,
        "ENDCAP_CUDA_LIBRARY": "/no/such/library",
    }
    command = [str(GPU / "run.sh"), str(tmp_path / "kit")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == int(required), done.stdout + done.stderr
    assert "this machine has no GPU that can be used" in done.stdout
    content = json.loads((tmp_path / "out" / "gpu.json").read_text())
    [line] = content["left_out"]
    names = ", ".join(each.name for each in PARTS)
    assert line.startswith(f"{names}: this machine has no GPU that can be used: ")
    assert {target["met"] for target in content["targets"]} == {"not measured"}


# The runner: real processes, parts of our own.


def site_of(tmp_path: Path, **environment: str) -> Site:
    folders = [tmp_path / name for name in ("kit", "work", "logs", "out")]
    for folder in folders:
        folder.mkdir()
    site = Site(folders[0], folders[1], folders[2], dry_run=False)
    site.environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(GPU), str(GPU.parents[1])]),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        **environment,
    }
    return site


def run_parts(
    tmp_path: Path, parts: list[Part], limit_s: float = 300, **environment: str
) -> Results:
    """Runs parts as run.sh does, and returns what gpu.json then has."""
    site = site_of(tmp_path, **environment)
    out = tmp_path / "out"
    results = Results({"commit": "c", "gpus": ["g"]}, emulated=False)
    Runner(site, results, out, started=time.time(), limit_s=limit_s).run(parts)
    return Results.read(out / "gpu.json")


def module(tmp_path: Path, name: str, code: str) -> tuple[str, ...]:
    """A module that a part can run; it gets --output FILE."""
    (tmp_path / f"{name}.py").write_text(textwrap.dedent(code))
    return (name,)


def part(tmp_path: Path, name: str, code: str, **more: Any) -> Part:
    return Part(name, "benchmark", more.pop("limit_s", 30), module(tmp_path, name, code), **more)


RECORDS = """
    import os, signal, sys, time
    from pathlib import Path
    from gpu_check.records import Records, Row
    records = Records(Path(sys.argv[2]), emulated=False)
    records.rows.append(Row("64 x a", "endcap", "share", 70.0, "%"))
    records.write()
"""
GOOD = RECORDS
SEGFAULT = RECORDS + "    os.kill(os.getpid(), signal.SIGSEGV)\n"
HANG = RECORDS + "    def stuck():\n        time.sleep(600)\n    stuck()\n"


def test_a_part_that_crashes_or_hangs_loses_itself_alone(tmp_path: Path) -> None:
    (tmp_path / "modules").mkdir()
    parts = [
        part(tmp_path / "modules", "crashes", SEGFAULT, is_repeated=False),
        part(tmp_path / "modules", "hangs", HANG, limit_s=3, is_repeated=False),
        part(tmp_path / "modules", "passes", GOOD),
    ]
    environment = {"PYTHONPATH": f"{tmp_path / 'modules'}:{GPU}"}
    results = run_parts(tmp_path, parts, **environment)
    states = {name: part["state"] for name, part in results.parts.items()}
    assert states == {"crashes": "crashed", "hangs": "timed out", "passes": "passed"}
    crashed, hung = results.parts["crashes"], results.parts["hangs"]
    assert crashed["reason"] == "SIGSEGV"
    assert "Segmentation fault" in crashed["end_of_log"]
    assert "in stuck" in hung["end_of_log"]  # the stack, by faulthandler
    assert hung["seconds"] < 8
    # What was written before is kept.
    assert [row["value"] for row in crashed["rows"]] == [70.0]
    assert results.exit_status() == 1
    assert any("crashes: crashed (SIGSEGV)" in line for line in results.content["failed"])


def test_children_of_a_part_end_with_it(tmp_path: Path) -> None:
    (tmp_path / "modules").mkdir()
    child = tmp_path / "child"
    code = f"""
        import subprocess, os, signal
        process = subprocess.Popen(["sleep", "600"])
        open({str(child)!r}, "w").write(str(process.pid))
        os.kill(os.getpid(), signal.SIGKILL)
    """
    parts = [part(tmp_path / "modules", "parent", code, is_repeated=False)]
    results = run_parts(tmp_path, parts, PYTHONPATH=f"{tmp_path / 'modules'}:{GPU}")
    assert results.parts["parent"]["reason"] == "SIGKILL"
    stat = Path(f"/proc/{child.read_text()}/stat")
    deadline = time.monotonic() + 5  # until whoever inherits it has taken its exit status
    while stat.exists() and stat.read_text().split()[2] != "Z":
        assert time.monotonic() < deadline, "the child still runs"
        time.sleep(0.02)


TESTS = """
    import os
    import pytest

    def test_good():
        pass

    @pytest.mark.parametrize("name", ["a b", "c"])
    def test_bad(name):
        print("blocking is", os.environ.get("CUDA_LAUNCH_BLOCKING"))
        assert name == "c"

    @pytest.mark.skip(reason="no torch here")
    def test_skipped():
        pass
"""


def write_tests(tmp_path: Path, code: str) -> str:
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "test_it.py").write_text(textwrap.dedent(code))
    return str(folder / "test_it.py")


@pytest.fixture
def sanitizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compute-sanitizer that runs the command behind its options, with a report in front."""
    program = tmp_path / "bin" / "compute-sanitizer"
    program.parent.mkdir()
    program.write_text(
        "#!/bin/sh\necho '========= COMPUTE-SANITIZER'\n"
        'while [ "${1#--}" != "$1" ]; do shift 2; done\nexec "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)


def test_failed_tests_alone_are_repeated(tmp_path: Path, sanitizer: None) -> None:
    parts = [Part("test_it", "tests", 60, test_file=write_tests(tmp_path, TESTS))]
    results = run_parts(tmp_path, parts)
    failed = results.parts["test_it"]
    assert failed["state"] == "failed"
    assert [len(failed["tests"][kind]) for kind in ("passed", "failed", "skipped")] == [2, 1, 1]
    assert list(failed["tests"]["skipped"].values()) == ["no torch here"]
    blocking, memcheck = failed["repeats"]
    assert failed["tests"]["failed"][0].endswith("::test_bad[a b]")
    for repeat in (blocking, memcheck):
        assert repeat["tests"] == failed["tests"]["failed"]
        assert repeat["state"] == "failed"
        assert "collected 1 item" in repeat["end_of_log"]
    assert "blocking is 1" in blocking["end_of_log"]
    assert "blocking is None" in memcheck["end_of_log"]
    assert "COMPUTE-SANITIZER" in memcheck["end_of_log"]
    assert "repeated under memcheck: failed" in results.summary()
    with tarfile.open(tmp_path / "out" / "logs.tar.gz") as archive:
        assert {"logs/test_it.xml", "logs/test_it-blocking.log"} <= set(archive.getnames())


def test_a_test_that_crashes_is_the_one_that_is_repeated(tmp_path: Path) -> None:
    code = """
        import os, signal

        def test_good():
            pass

        def test_crash():
            os.kill(os.getpid(), signal.SIGSEGV)

        def test_later():
            pass
    """
    file = write_tests(tmp_path, code)
    results = run_parts(tmp_path, [Part("test_it", "tests", 60, test_file=file)], PATH="/usr/bin")
    crashed = results.parts["test_it"]
    assert crashed["state"] == "crashed"
    assert [test.rpartition("::")[2] for test in crashed["tests"]["failed"]] == ["test_crash"]
    assert "in test_crash" in crashed["end_of_log"]
    blocking = crashed["repeats"][0]
    assert (blocking["state"], blocking["tests"]) == ("crashed", crashed["tests"]["failed"])


def test_a_test_that_hangs_shows_its_stack(tmp_path: Path) -> None:
    code = "import time\n\ndef test_stuck():\n    time.sleep(600)\n"
    part = Part("test_it", "tests", 8, test_file=write_tests(tmp_path, code), is_repeated=False)
    results = run_parts(tmp_path, [part])
    hung = results.parts["test_it"]
    assert hung["state"] == "failed"  # pytest's timeout comes before that of the process
    assert "in test_stuck" in hung["end_of_log"]
    assert "Timeout (0:00:03)!" in (tmp_path / "logs" / "test_it.log").read_text()
    assert len(hung["tests"]["failed"]) == 1


def test_a_file_that_skips_itself_is_left_out(tmp_path: Path) -> None:
    code = "import pytest\npytest.skip('no GPU pools', allow_module_level=True)\n"
    file = write_tests(tmp_path, code)
    results = run_parts(tmp_path, [Part("test_it", "tests", 60, test_file=file)])
    assert results.parts["test_it"]["state"] == "left out"
    assert results.omissions() == ["test_it: no GPU pools"]
    assert results.exit_status() == 0


def test_a_file_that_cannot_be_imported_fails(tmp_path: Path) -> None:
    part = Part("test_it", "tests", 60, test_file=write_tests(tmp_path, "import no_such_module\n"))
    results = run_parts(tmp_path, [part])
    assert results.parts["test_it"]["state"] == "failed"
    assert "no_such_module" in results.parts["test_it"]["end_of_log"]
    assert results.exit_status() == 1


def test_parts_without_time_are_listed(tmp_path: Path) -> None:
    (tmp_path / "modules").mkdir()
    parts = [
        part(tmp_path / "modules", "slow", HANG, limit_s=100),
        part(tmp_path / "modules", "later", GOOD),
    ]
    start = time.monotonic()
    environment = {"PYTHONPATH": f"{tmp_path / 'modules'}:{GPU}"}
    results = run_parts(tmp_path, parts, limit_s=22, **environment)
    assert time.monotonic() - start < 22
    assert results.parts["slow"]["state"] == "timed out"
    assert results.parts["slow"]["seconds"] < 16
    assert {repeat["reason"] for repeat in results.parts["slow"]["repeats"]} <= {
        "no time was left",
        "compute-sanitizer is not installed",
    }
    assert results.omissions(required_only=True) == ["later: no time was left"]
    assert "later: no time was left" in (tmp_path / "out" / "summary.txt").read_text()
    assert results.exit_status() == 1


def test_a_sanitizer_that_refuses_the_device_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "modules").mkdir()
    code = "import sys\nsys.exit('========= Error: Device not supported')\n"
    tool = part(tmp_path / "modules", "memcheck", code, tool=("/usr/bin/env",), is_repeated=False)
    results = run_parts(tmp_path, [tool], PYTHONPATH=f"{tmp_path / 'modules'}:{GPU}")
    assert results.parts["memcheck"]["state"] == "left out"
    assert results.exit_status() == 0


# Results of several runs.


def results_with(**parts: dict[str, Any]) -> Results:
    results = Results({"commit": "c", "gpus": ["g"]}, emulated=False)
    results.begin_run(list(parts), 560)
    for name, content in parts.items():
        results.set_part(
            name, {"state": "passed", "reason": "", "required": True, "run": 0, **content}
        )
    return results


def row(metric: str, value: float, work: str = "64 x a", by: str = "endcap") -> dict[str, Any]:
    return {"work": work, "by": by, "metric": metric, "value": value, "unit": "x"}


NO_TIME = {"state": "left out", "reason": "no time was left"}


def test_runs_are_merged_by_part(tmp_path: Path) -> None:
    first = results_with(
        pixels={"rows": [row("share", 50), row("share", 51, "64 x b")]},
        heads={"rows": [row("kernel / bound", 3)]},
        jpeg=NO_TIME,
    )
    second = results_with(
        pixels={"rows": [row("share", 80)]},
        heads=NO_TIME,
        jpeg={"rows": [row("peer / call", 2, by="endcap, hybrid, 16 threads")]},
    )
    for number, results in enumerate((first, second)):
        (tmp_path / str(number)).mkdir()
        results.write(tmp_path / str(number), None)
    files = [tmp_path / str(number) / "gpu.json" for number in (0, 1)]
    command = [sys.executable, "-m", "gpu_check", "merge", str(tmp_path / "all"), *map(str, files)]
    environment = os.environ | {"PYTHONPATH": str(GPU)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    merged = json.loads((tmp_path / "all" / "gpu.json").read_text())
    assert [each["value"] for each in merged["parts"]["pixels"]["rows"]] == [80]  # replaced
    assert [each["value"] for each in merged["parts"]["heads"]["rows"]] == [3]  # kept
    assert merged["parts"]["jpeg"]["state"] == "passed"  # had no time before
    assert [part["run"] for part in merged["parts"].values()] == [1, 0, 1]
    assert len(merged["runs"]) == 2
    assert merged["left_out"] == []


@pytest.mark.parametrize("change", ["commit", "gpus", "emulated"])
def test_results_that_do_not_belong_together_are_not_merged(change: str, tmp_path: Path) -> None:
    fresh = results_with(pixels={})
    earlier = results_with(pixels={})
    if change == "emulated":
        earlier.content["emulated"] = True
    else:
        earlier.content["machine"] = earlier.content["machine"] | {change: "other"}
    with pytest.raises(ResultsError, match="emulated" if change == "emulated" else "other"):
        earlier.merge(fresh)
    earlier.write(tmp_path, None)
    assert continued(tmp_path, fresh, tmp_path) is fresh
    assert Results.read(tmp_path / "gpu-1.json").content["machine"] == earlier.content["machine"]
    assert not (tmp_path / "gpu.json").exists()


# Targets.


def test_targets_are_ranked_worst_first() -> None:
    results = results_with(
        pixels={
            "rows": [
                row("share", 30, "64 x b"),
                row("share", 95, "64 x a"),
                row("share", 1, "1 x a"),  # no batch: it counts for nothing
                row("peer / call", 6),
            ],
            "checks": [{"name": "equal", "passed": True}],
        },
        heads={
            "rows": [
                row("kernel / bound", 1.5),
                row("call / bound", 8.5),
                row("peer / call", 19.9),
                row("peer / call", 500, by="torchvision"),
            ]
        },
        memcheck={"state": "failed", "reason": "exit status 9"},
    )
    ranked = [(each["target"], each["work"], each["met"]) for each in judge(results.content)]
    assert ranked[:4] == [
        ("memcheck: reports", "", "no"),
        (
            "heads: from Python by enqueue against reading once",
            "64 x a",
            "no",
        ),  # 0.47 of what is required
        ("pixels: share of the copy bandwidth", "64 x b", "no"),  # 0.5
        ("heads against torchvision", "64 x a", "no"),  # 0.995
    ]
    assert {target for target, _, met in ranked[4:7] if met == "not measured"} == {
        "racecheck: reports",
        "JPEG, hybrid, against torchvision",
        "JPEG, nvJPEG, against torchvision",
    }
    assert ranked[7:] == [
        ("GPU equals CPU", "", "aim"),
        ("pixels against torchvision", "64 x a", "yes"),
        ("pixels: share of the copy bandwidth", "64 x a", "aim"),
        ("heads: kernels against reading once", "64 x a", "aim"),
    ]
    lines = results.summary().splitlines()
    heading = next(number for number, line in enumerate(lines) if line.startswith("target"))
    assert lines[heading + 1].split()[:3] == ["memcheck:", "reports", "no"]
    assert lines[heading + 2].split()[-5:] == ["a", "8.5", "4", "1.6", "x"]


def test_one_difference_from_the_cpu_misses_the_target() -> None:
    checks = [{"name": "a", "passed": True}, {"name": "b", "passed": False}]
    tests = {"passed": ["t"] * 3, "failed": [], "skipped": {}}
    results = results_with(smoke={"checks": checks}, test_it={"tests": tests})
    [exact] = [each for each in judge(results.content) if each["target"] == "GPU equals CPU"]
    assert (exact["figure"], exact["at_least"], exact["met"]) == (4, 5, "no")


def test_an_emulated_run_measures_nothing() -> None:
    results = results_with(
        pixels={"rows": [row("share", 95)], "checks": [{"name": "equal", "passed": True}]}
    )
    results.content["emulated"] = True
    assert {each["met"] for each in judge(results.content)} == {"not measured"}
    assert results.summary().startswith("DRY RUN ON AN EMULATED GPU")


# Parts and figures.


def test_the_runner_needs_the_standard_library_alone() -> None:
    """The kit's packages are for the parts' processes."""
    command = [sys.executable, "-S", "-m", "gpu_check", "run", "--list"]
    environment = {"PYTHONPATH": str(GPU), "PATH": os.environ["PATH"]}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(PARTS)


def test_parts_are_chosen_by_name_group_and_pattern() -> None:
    names = [each.name for each in choose_parts("sanitizer,heads,test_gpu_*,pixels")]
    expected = ["pixels", "heads", "test_gpu_instances", "test_gpu_pools", "memcheck", "racecheck"]
    assert names == expected
    assert choose_parts("") == list(PARTS)
    with pytest.raises(ValueError, match="'pixel': give groups"):
        choose_parts("heads,pixel")


def test_every_file_of_gpu_tests_is_a_part() -> None:
    files = {each.test_file for each in PARTS if each.test_file}
    root = GPU.parents[1]
    assert {str(path.relative_to(root)) for path in GPU.glob("test_*.py")} <= files
    assert all((root / file).is_file() for file in files)


def test_every_kernel_has_a_case() -> None:
    from gpu_check.every_kernel import cases

    sources = [*GPU.parents[1].glob("csrc/**/*.cu"), *GPU.parents[1].glob("csrc/**/*.cuh")]
    pattern = re.compile(
        r"__global__\s+(?:void\s+)?(?:__launch_bounds__\([^{;]*?\)\s+)?(\w+)\(const"
    )
    text = "\n".join(path.read_text() for path in sources)
    kernels = {name.removeprefix("void ") for name in pattern.findall(text)}
    assert len(kernels) >= 20
    assert kernels == {name for case in cases() for name in case.kernels}
    ways = {way for case in cases() for way in case.ways}
    assert ways == {(arithmetic, way) for arithmetic in range(4) for way in range(4)}


def test_source_bytes_are_whole_sectors_of_rows_with_a_weight() -> None:
    from gpu_benchmark.preprocess import least_bytes, source_rows

    # Three times the tensor's height: the middle row of three has all the weight.
    assert source_rows(1080, 360).tolist() == list(range(1, 1080, 3))
    # Twice: both rows count the same.
    assert source_rows(720, 360).tolist() == list(range(720))
    assert least_bytes(64, 1080, 1920, 640) == 64 * (640 * 640 * 12 + 360 * 5760)
    # Rows of 117 bytes do not begin where sectors do, and neighbours may share one.
    rows = source_rows(39, 13)
    sectors = {byte // 32 for row in rows for byte in range(row * 117, row * 117 + 117)}
    assert least_bytes(1, 39, 39, 13) == 13 * 13 * 12 + 32 * len(sectors)


class FakeProfile:
    """torch's profiler, as far as kernel_times uses it."""

    def __init__(self, events: list[tuple[str, int, float]]) -> None:
        self._events = [
            SimpleNamespace(key=key, count=count, device_time_total=total)
            for key, count, total in events
        ]

    def __enter__(self) -> FakeProfile:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def key_averages(self) -> list[SimpleNamespace]:
        return self._events


def fake_torch(events: list[tuple[str, int, float]]) -> Any:
    return SimpleNamespace(
        cuda=SimpleNamespace(synchronize=lambda: None),
        profiler=SimpleNamespace(
            ProfilerActivity=SimpleNamespace(CUDA="CUDA"),
            profile=lambda activities: FakeProfile(events),
        ),
    )


def test_kernel_times_are_counts_and_means_by_name() -> None:
    from gpu_benchmark.timing import kernel_times, kernels_ms

    fused = "void endcap::(anonymous namespace)::FusedKernel<(endcap::Way)0>(endcap::Launch)"
    events = [
        (fused, 4, 400.0),
        ("endcap::MakeKeys(float const*, unsigned long*, int)", 8, 80.0),
        ("Memcpy HtoD (Pinned -> Device)", 4, 1000.0),
        ("cudaLaunchKernel", 12, 0.0),
    ]
    times = kernel_times(fake_torch(events), lambda: None, rounds=4)
    assert times == {"FusedKernel<(Way)0>": (1.0, 100.0), "MakeKeys": (2.0, 10.0)}
    assert kernels_ms(fake_torch(events), lambda: None, rounds=4) == pytest.approx(0.12)
    with pytest.raises(RuntimeError, match="no kernel"):
        kernel_times(fake_torch(events[2:]), lambda: None, rounds=1)


def test_figures_of_nsight_compute_are_rows(tmp_path: Path) -> None:
    table = tmp_path / "ncu.csv"
    table.write_text(
        "==PROF== Connected to process 1\n"
        '"ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"\n'
        '"0","FusedKernel","SpeedOfLight","Duration","us","1,234.5"\n'
        '"0","FusedKernel","LaunchStats","Grid Size","","64"\n'
    )
    [found] = read_ncu(table)
    assert (found["work"], found["metric"]) == ("launch 0: FusedKernel", "Duration")
    assert (found["value"], found["unit"]) == (1234.5, "us")
    assert read_ncu(tmp_path / "none") == []


# The whole run on the emulated GPU.

LIBRARIES = sorted(GPU.parents[1].glob("build/dev/tests/cuda_emulation/libendcap_cuda_emulated.so"))
needs_emulation = pytest.mark.skipif(
    not LIBRARIES, reason="the emulated library is not built (ENDCAP_BUILD_TESTS)"
)


def add_variants(kit: Path, *names: str) -> None:
    """Adds libraries for another machine: files that cannot be loaded here."""
    with tarfile.open(kit / "variants.tar.xz", "w:xz") as archive:
        for name in names:
            content = b"machine code for a GPU"
            member = tarfile.TarInfo(f"{name}/libendcap_cuda.so")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def make_kit(folder: Path) -> None:
    """A kit as of `make gpu-kit`: the endcap of this environment, and links to its server.

    The tests' packages are not in it: they are those of this environment.
    """
    import endcap

    tag = this_python()
    wheels = folder / "wheels"
    wheels.mkdir(parents=True)
    written = set()
    with zipfile.ZipFile(wheels / f"endcap-1-{tag}-{tag}-linux_x86_64.whl", "w") as archive:
        for package in map(Path, endcap.__path__):
            for path in sorted(package.rglob("*")):
                name = f"endcap/{path.relative_to(package)}"
                if path.is_file() and path.suffix != ".pyc" and name not in written:
                    written.add(name)
                    archive.write(path, name)
    (folder / "commit").write_text("0123abcd\n")
    server = find_spec("pytriton")
    if server is None or not server.submodule_search_locations:
        return
    package = Path(server.submodule_search_locations[0])
    with tarfile.open(folder / "tritonserver.tar.xz", "w:xz", preset=0) as packed:
        for name, target in (
            ("bin", package / "tritonserver" / "bin"),
            ("lib", package.parent / "nvidia_pytriton.libs"),
        ):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, str(target)
            packed.addfile(link)


def run_sh(
    kit: Path, out: Path, *options: str, library: Path | None = None, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHON": sys.executable, "OUT": str(out)}
    for name in ("PARTS", "LIMIT", "ENDCAP_REQUIRE_CUDA", "PYTHONPATH"):
        environment.pop(name, None)
    if library is not None:
        environment["ENDCAP_CUDA_LIBRARY"] = str(library)
    command = [str(GPU / "run.sh"), str(kit), *options]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
@needs_emulation
def test_a_dry_run_runs_every_part_and_measures_nothing(tmp_path: Path) -> None:
    make_kit(tmp_path / "kit")
    add_variants(tmp_path / "kit", "default", "one", "two")
    done = run_sh(tmp_path / "kit", tmp_path / "out", "--dry-run", library=LIBRARIES[0])
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    content = json.loads((tmp_path / "out" / "gpu.json").read_text())
    assert (content["emulated"], content["complete"], content["failed"]) == (True, True, [])
    assert set(content["parts"]) == {each.name for each in PARTS}
    passed = {name for name, part in content["parts"].items() if part["state"] == "passed"}
    assert {"smoke", "pixels", "heads", "jpeg", "masks", "kernels", "test_nms_cuda"} <= passed
    assert set(content["parts"]["variants"]["data"]["variants"]) == {"default", "one"}
    if (tmp_path / "kit" / "tritonserver.tar.xz").exists():
        assert "server" in passed
    for name, part in content["parts"].items():
        assert part["state"] in ("passed", "left out"), name
        assert part["state"] == "passed" or part["reason"], name
        assert all(each["emulated"] is True for each in part.get("rows", [])), name
    for name in ("pixels", "heads", "jpeg", "masks"):
        assert content["parts"][name]["rows"]
        assert all(check["passed"] for check in content["parts"][name]["checks"])
    assert len(content["parts"]["smoke"]["checks"]) >= 7
    assert {target["met"] for target in content["targets"]} == {"not measured"}
    assert "no figure of this run is a measurement" in done.stdout
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "gpu.json",
        "logs.tar.gz",
        "summary.txt",
    ]
    assert done.stdout.endswith((tmp_path / "out" / "summary.txt").read_text())
    # A second run adds to the first.
    more = run_sh(
        *(tmp_path / "kit", tmp_path / "out", "--dry-run", "--parts", "smoke"), library=LIBRARIES[0]
    )
    assert more.returncode == 0, more.stdout + more.stderr
    again = json.loads((tmp_path / "out" / "gpu.json").read_text())
    assert set(again["parts"]) == set(content["parts"])
    assert [again["parts"][name]["run"] for name in ("smoke", "pixels")] == [1, 0]
    with tarfile.open(tmp_path / "out" / "logs.tar.gz") as archive:
        assert {"logs/smoke.log", "logs/pixels.log"} <= set(archive.getnames())


@needs_emulation
def test_the_emulated_gpu_is_not_measured_by_mistake(tmp_path: Path) -> None:
    make_kit(tmp_path / "kit")
    name = Path(LIBRARIES[0].name)  # relative to the working directory
    done = run_sh(tmp_path / "kit", tmp_path / "out", library=name, folder=LIBRARIES[0].parent)
    assert done.returncode == 2
    assert "add --dry-run" in done.stderr
    assert not (tmp_path / "out" / "gpu.json").exists()
