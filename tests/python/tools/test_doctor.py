"""endcap doctor: the form of its reports, and what it says with parts of endcap taken away."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from doctor_world import World, doctor, in_own_mounts, run

from endcap.cli.files import find_repository
from endcap.tools.doctor import CHECKS, Check, Finding, Subject, run_checks
from endcap.tools.doctor.finding import Group


def subject() -> Subject:
    return Subject(find_repository=find_repository)


# --- the form -------------------------------------------------------------------------------------


def test_every_check_is_reported_and_nothing_here_is_an_error() -> None:
    report = doctor()
    assert list(report.findings) == [check.topic.name for check in CHECKS]
    assert report.errors == set()
    assert report.stderr == ""
    for finding in report.findings.values():
        keys = ["name", "group", "title", "severity", "found", "problem", "remedy"]
        assert list(finding) == keys
        assert finding["found"]
        assert (finding["problem"] is None) == (finding["remedy"] is None)
        if finding["severity"] in ("warning", "error"):
            assert finding["problem"]


def test_the_report_is_grouped_and_fits_80_columns() -> None:
    done = run("--verbose", environment={"COLUMNS": "80"})
    lines = done.stdout.splitlines()
    wide = [line for line in lines if len(line) > 80]
    assert all(re.search("`[^`]+`", line) for line in wide), wide  # commands, of long paths
    headings = [line for line in lines[:-1] if line and not line.startswith(" ")]
    assert headings == [group.value for group in Group if group is not Group.START]
    for mark, title in (("ok", "version"), ("ok", "compiled backends"), ("ok", "NumPy")):
        assert any(line.split()[:1] == [mark] and title in line for line in lines)
    assert lines[-1].endswith(("note.", "notes."))
    assert "\x1b" not in done.stdout


def test_without_a_problem_one_line_is_printed() -> None:
    done = run()
    if done.returncode == 0:
        (line,) = done.stdout.splitlines()
        assert line.startswith("No problem; ")
    else:  # of this machine: warnings alone, and no note
        marks = {line.split()[0] for line in done.stdout.splitlines() if line.startswith("    ")}
        assert not marks & {"ok", "note"}
    assert done.stdout.endswith(" --verbose shows all.\n")


@pytest.mark.parametrize("columns", [40, 60])
def test_only_commands_are_wider_than_a_narrow_terminal(tmp_path: Path, columns: int) -> None:
    absent = tmp_path / "a_name_that_is_longer_than_a_line" / "nowhere"
    done = run("--repository", absent, environment={"COLUMNS": str(columns)})
    lines = done.stdout.splitlines()
    wide = [line for line in lines if len(line) > columns]
    assert all(re.search("`[^`]+`", line) for line in wide), wide
    assert str(absent) in "".join(line.strip() for line in lines), "folded, and nothing lost"


def test_a_problem_is_followed_by_its_remedy(tmp_path: Path) -> None:
    done = run("--repository", tmp_path / "nowhere", environment={"COLUMNS": "80"})
    assert done.returncode == 2
    lines = [line.strip() for line in done.stdout.splitlines()]
    place = next(n for n, line in enumerate(lines) if line.startswith("error"))
    text = " ".join(lines[place : place + 6])
    assert "is not a folder -> give a folder in which each folder is a model" in text
    assert lines[-1].startswith("1 error")
    assert not {"ok", "note"} & {line.split()[0] for line in lines if line}


def test_a_check_that_breaks_is_an_error_and_the_others_go_on() -> None:
    def broken(_: Subject) -> Finding:
        raise ZeroDivisionError("nobody foresaw this")

    tracebacks: list[None] = []
    checks = [Check(CHECKS[2].topic, broken), CHECKS[3]]
    first, second = run_checks(subject(), checks, on_broken=lambda: tracebacks.append(None))
    assert first.severity.value == "error"
    assert first.name == CHECKS[2].topic.name
    assert first.problem == (
        f"the check '{first.name}' itself failed: ZeroDivisionError: nobody foresaw this"
    )
    assert first.remedy is not None
    assert "endcap doctor --verbose" in first.remedy
    assert second.severity.value == "ok"
    assert len(tracebacks) == 1


def test_a_check_breaks_in_earnest(tmp_path: Path) -> None:
    world = World(tmp_path)
    (metadata,) = world.site.glob("endcap-*.dist-info")
    (metadata / "direct_url.json").write_text("{")
    report = world.doctor("--verbose")
    report.expect("endcap", "error", "the check 'endcap' itself failed: JSONDecodeError")
    report.expect("endcap", "error", "`endcap doctor --verbose`")
    assert "Traceback" in report.stderr
    assert report.errors == {"endcap"}


def test_an_empty_path_hides_no_system_program(tmp_path: Path) -> None:
    report = doctor(environment={"PATH": str(tmp_path)})
    for name in ("core", "backends", "server_libraries"):
        assert report.findings[name]["severity"] == "ok", report.findings[name]


def test_without_ldd_libraries_are_not_looked_at() -> None:
    ldd = shutil.which("ldd")
    report = doctor(before=in_own_mounts(f"mount --bind /dev/null {ldd}"))
    for name in ("core", "backends", "server_libraries"):
        assert report.findings[name]["severity"] == "note"
        assert report.findings[name]["found"] == "not checked: ldd is not installed"
    assert report.errors == set()


# --- endcap itself --------------------------------------------------------------------------------


def test_the_kind_of_installation_is_reported(tmp_path: Path) -> None:
    world = World(tmp_path)
    found = world.doctor().findings["endcap"]["found"]
    assert f"installed in {world.endcap}" in found


def test_a_backend_that_is_not_there(tmp_path: Path) -> None:
    world = World(tmp_path)
    (world.endcap / "backends/endcap_postprocess/libtriton_endcap_postprocess.so").unlink()
    report = world.doctor()
    report.expect(
        "backends",
        "error",
        "compiled backend endcap_postprocess is not in this installation",
        "pip install --force-reinstall --no-deps endcap-",
    )
    assert report.errors == {"backends"}
    assert report.exit_code == 2


def test_a_backend_without_its_libjpeg(tmp_path: Path) -> None:
    world = World(tmp_path)
    (world.endcap / "backends/endcap_preprocess/libendcap_jpeg.so").unlink()
    report = world.doctor()
    report.expect(
        "backends",
        "error",
        "libtriton_endcap_preprocess.so needs libendcap_jpeg.so",
        "pip install --force-reinstall",
    )
    assert report.exit_code == 2


def test_a_backend_that_is_no_library(tmp_path: Path) -> None:
    world = World(tmp_path)
    library = world.endcap / "backends/endcap_preprocess/libtriton_endcap_preprocess.so"
    library.unlink()
    library.write_bytes(b"\x7fELF, and then the download broke off")
    report = world.doctor()
    report.expect("backends", "error", f"{library} needs {library.name}", "reinstall")


def test_another_libjpeg_than_ours(tmp_path: Path) -> None:
    # LD_LIBRARY_PATH comes before the folder of the module.
    world = World(tmp_path / "world")
    other = tmp_path / "other"
    other.mkdir()
    (other / "libendcap_jpeg.so").write_bytes((world.endcap / "libendcap_jpeg.so").read_bytes())
    report = world.doctor(environment={"LD_LIBRARY_PATH": str(other)})
    report.expect("core", "warning", f"libendcap_jpeg.so ({other}", "unset LD_LIBRARY_PATH")


def test_a_forced_implementation_that_does_not_exist() -> None:
    report = doctor(environment={"ENDCAP_FORCE_IMPLEMENTATION": "fastest"})
    report.expect(
        "implementations",
        "error",
        "ENDCAP_FORCE_IMPLEMENTATION is 'fastest'",
        "`unset ENDCAP_FORCE_IMPLEMENTATION`, or set it to auto or ",
        "scalar",
    )
    assert report.errors == {"implementations"}


@pytest.mark.parametrize("kind", ["auto", "scalar"])
def test_a_forced_implementation_that_exists(kind: str) -> None:
    finding = doctor(environment={"ENDCAP_FORCE_IMPLEMENTATION": kind}).findings["implementations"]
    assert finding["severity"] == "ok"
    assert f"ENDCAP_FORCE_IMPLEMENTATION is {kind}" in finding["found"]


# --- packages -------------------------------------------------------------------------------------


def test_packages_that_are_not_there(tmp_path: Path) -> None:
    world = World(tmp_path, without=["triton*", "aiohttp*", "pycocotools*", "opencv*", "cv2"])
    report = world.doctor()
    report.expect(
        "client_packages",
        "note",
        "tritonclient is not installed",
        "`pip install 'tritonclient[grpc,http]>=",
    )
    report.expect(
        "evaluate_packages",
        "note",
        "opencv-python-headless is not installed, pycocotools is not installed",
        "'pycocotools>=",
    )
    assert report.errors == set()


def test_packages_in_part_too_old_or_by_another_name(tmp_path: Path) -> None:
    replaced = ["aiohttp-*", "rich-*", "opencv*"]
    world = World(tmp_path, without=["grpc", "grpcio-*", *replaced])
    world.add_distribution("aiohttp", "3.1.0")
    world.add_distribution("rich", "12.0")
    world.add_distribution("opencv-contrib-python-headless", "4.10.0.84")
    report = world.doctor()
    report.expect("client_packages", "note", "aiohttp is 3.1.0, needed is <4.0.0,>=3.8.1")
    report.expect("client_packages", "note", "grpcio is not installed", "'tritonclient[")
    report.expect("packages", "error", "rich is 12.0, needed is >=13", "'rich>=13'")
    assert report.findings["evaluate_packages"]["severity"] == "ok"
    assert report.exit_code == 2


def test_without_packaging_the_command_line_still_starts(tmp_path: Path) -> None:
    report = World(tmp_path, without=["packaging*"]).doctor()
    report.expect("packages", "error", "packaging is not installed", "'packaging>=")


def test_help_fits_80_columns_and_has_examples() -> None:
    done = run("--help", environment={"COLUMNS": "80"})
    assert done.returncode == 0
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "endcap doctor --repository my_models --start" in done.stdout
    assert "2 for errors" in done.stdout
