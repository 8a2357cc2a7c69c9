"""The sizes of the code, of a working tree and of a revision."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from code_size import count_lines, format_table  # noqa: E402


def git(root: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=test", "-c", "user.email=test@localhost"]
    subprocess.run(["git", "-C", str(root), *identity, *arguments], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository whose working tree has grown by a line and a file since its only commit."""
    (tmp_path / "csrc" / "nms").mkdir(parents=True)
    (tmp_path / "csrc" / "nms" / "a.cc").write_text("1\n2\n3\n")
    (tmp_path / "csrc" / "nms" / "empty.h").write_text("")
    (tmp_path / "csrc" / "README.md").write_text("not counted\n")
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "First")
    (tmp_path / "csrc" / "nms" / "a.cc").write_text("1\n2\n3\n4")
    (tmp_path / "csrc" / "nms" / "b.cu").write_text("1\n" * 50)
    git(tmp_path, "add", ".")
    (tmp_path / "csrc" / "nms" / "untracked.cc").write_text("1\n")
    return tmp_path


def test_lines_of_the_working_tree_and_of_a_revision(repository: Path) -> None:
    now = {"csrc/nms/a.cc": 4, "csrc/nms/b.cu": 50, "csrc/nms/empty.h": 0}
    assert count_lines(repository) == now
    assert count_lines(repository, "HEAD") == {"csrc/nms/a.cc": 3, "csrc/nms/empty.h": 0}


def test_an_unknown_revision_is_an_error(repository: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        count_lines(repository, "v9.9")


def test_the_table_has_sum_median_and_short_files(repository: Path) -> None:
    table = format_table(count_lines(repository), ["csrc", "csrc/nms", "backends"]).splitlines()
    assert table[0].split() == ["area", "files", "lines", "median", "under", "40"]
    assert [row.split() for row in table[1:]] == [
        ["csrc", "3", "54", "4", "2"],
        ["csrc/nms", "3", "54", "4", "2"],
    ]


def test_the_command_prints_every_area() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "code_size.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    areas = [line.split()[0] for line in done.stdout.splitlines()[1:]]
    assert {"csrc", "backends", "pyext/bindings", "pyext/endcap", "tests/cpp"} <= {*areas}
