"""Standard output that is closed, full, or read to no end."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from endcap.cli.console import describe_error

SHELL = ["bash", "-o", "pipefail", "-c"]
PROGRAM = [sys.executable, "-m", "endcap"]


def in_shell(redirected: str, *arguments: object) -> tuple[int, str, str]:
    """Runs endcap with the arguments, and `redirected` of the shell behind them."""
    run = subprocess.run(
        [*SHELL, f'"$@" {redirected}', "bash", *PROGRAM, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "COLUMNS": "80"},
    )
    return run.returncode, run.stdout, run.stderr


@pytest.mark.parametrize("arguments", [["--version"], ["infer", "x.jpg"]], ids=str)
def test_closed_standard_output_is_an_error(arguments: list[str]) -> None:
    assert in_shell(">&-", *arguments) == (
        2, "", "endcap: standard output is closed: give it a file, or /dev/null\n"
    )  # fmt: skip


def test_closed_standard_error_leaves_the_report_alone(url: str, pictures: Path) -> None:
    code, out, _ = in_shell("2>&-", "infer", pictures / "b.jpg", "--url", url, "--csv")
    assert code == 0
    assert len(out.splitlines()) == 3


@pytest.mark.parametrize("option", [[], ["--json"]], ids=["table", "json"])
def test_what_cannot_be_written_is_named(url: str, pictures: Path, option: list[str]) -> None:
    arguments = ["infer", pictures, "--url", url, *option]
    printed = in_shell("> /dev/full", *arguments)
    assert printed == (2, "", "endcap: standard output: No space left on device\n")
    code, _, err = in_shell("", *arguments, "--output", "/dev/full")
    assert (code, err) == (2, "endcap: /dev/full: No space left on device\n")


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]], ids=str)
def test_what_cannot_be_written_outside_of_a_command_is_named(arguments: list[str]) -> None:
    printed = in_shell("> /dev/full", *arguments)
    assert printed == (2, "", "endcap: standard output: No space left on device\n")


@pytest.mark.parametrize("option", [[], ["--json"]], ids=["table", "json"])
def test_a_reader_that_has_seen_enough_ends_it_quietly(
    url: str, pictures: Path, option: list[str]
) -> None:
    arguments = ["infer", pictures, "--url", url, *option]
    assert in_shell("| true", *arguments) == (141, "", "")
    code, out, err = in_shell("| cat", *arguments)
    assert (code, err) == (0, "")
    assert out


def test_without_a_temporary_folder_the_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/nowhere"])
    with pytest.raises(FileNotFoundError) as caught:
        tempfile.gettempdir()
    assert describe_error(caught.value).endswith("; set TMPDIR to a folder that you may write to")
