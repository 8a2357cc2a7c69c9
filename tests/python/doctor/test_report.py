"""endcap doctor: the form of its reports."""

from __future__ import annotations

from pathlib import Path

from endcap.doctor import CHECKS, Check, Severity, Subject, run_checks
from tests.support.damage import SHIPPED
from tests.support.doctor_world import doctor, run, subject


def test_every_check_is_reported_and_nothing_here_is_an_error() -> None:
    report = doctor()
    assert list(report.findings) == [check.name for check in CHECKS]
    assert report.errors == set()
    assert report.stderr == ""
    for finding in report.findings.values():
        keys = ["name", "group", "title", "severity", "found", "problem", "remedy"]
        assert list(finding) == keys
        assert finding["found"]
        if finding["severity"] in ("warning", "error"):
            assert finding["problem"]
            assert finding["remedy"]


def test_a_problem_is_followed_by_its_remedy(tmp_path: Path) -> None:
    done = run("--repository", tmp_path / "nowhere")
    assert done.returncode == 2
    lines = done.stdout.splitlines()
    place = lines.index("repository")
    assert lines[place + 1].split() == ["error", "models", "unusable"]
    assert lines[place + 2].endswith("nowhere is not a folder")
    assert lines[place + 3].strip() == "-> give a folder of model folders"
    assert lines[-1].startswith("1 error")
    assert lines[-1].endswith(" --verbose shows all.")
    assert not {"ok", "note"} & {line.split()[0] for line in lines}


def test_verbose_shows_all_by_group() -> None:
    lines = run("--verbose").stdout.splitlines()
    headings = [line for line in lines[:-1] if not line.startswith(" ")]
    assert headings == list(dict.fromkeys(check.group for check in CHECKS))
    titles = {line[11:].partition("  ")[0] for line in lines if line[:11].strip()}
    assert {check.title for check in CHECKS} <= titles


def test_a_check_that_breaks_is_an_error_and_the_others_go_on() -> None:
    def broken(_: Subject) -> str:
        raise ZeroDivisionError("nobody foresaw this")

    tracebacks: list[None] = []
    checks = [Check("numbers", "group", "title", broken), CHECKS[0]]
    first, second = run_checks(subject(SHIPPED), checks, on_broken=lambda: tracebacks.append(None))
    assert first.severity is Severity.ERROR
    assert first.problem == (
        "the check 'numbers' itself failed: ZeroDivisionError: nobody foresaw this"
    )
    assert "endcap doctor --verbose" in str(first.remedy)
    assert second.severity is Severity.OK
    assert len(tracebacks) == 1
