"""Archives of environments that somebody made to do harm: refused, and nothing written outside."""

from __future__ import annotations

import io
import os
import stat
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from endcap.environment import ExecutionEnvironmentError
from endcap.environment.checking import unpack

Member = tuple[str, bytes, bytes | str, int]  # name, type, content or where a link leads, mode


def file(name: str, content: bytes = b"harm", mode: int = 0o644) -> Member:
    return name, tarfile.REGTYPE, content, mode


def link(name: str, target: str) -> Member:
    return name, tarfile.SYMTYPE, target, 0o777


def hard_link(name: str, target: str) -> Member:
    return name, tarfile.LNKTYPE, target, 0o666


def write_archive(path: Path, *members: Member) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, kind, content, mode in members:
            member = tarfile.TarInfo(name)
            member.type, member.mode = kind, mode
            if isinstance(content, str):
                member.linkname, content = content, b""
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A file of the user's that lies beside the folder that archives are unpacked into."""
    file = tmp_path / "outside"
    file.write_text("mine")
    file.chmod(0o600)
    return file


HARMFUL: dict[str, Callable[[Path], list[Member]]] = {
    "a hard link out": lambda outside: [hard_link("a", str(outside)), file("a")],
    "a file through a link": lambda outside: [link("l", ".."), file("l/outside")],
}


@pytest.mark.parametrize("case", HARMFUL)
def test_harmful_members_are_refused(case: str, tmp_path: Path, outside: Path) -> None:
    archive = write_archive(tmp_path / "env.tar.gz", file("good"), *HARMFUL[case](outside))
    target = tmp_path / "target"
    target.mkdir()
    with pytest.raises(ExecutionEnvironmentError, match=r"env\.tar\.gz"):
        unpack(archive, target)
    assert (outside.read_text(), stat.S_IMODE(outside.stat().st_mode)) == ("mine", 0o600)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["env.tar.gz", "outside", "target"]


def test_a_python_without_the_filter_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("tarfile.data_filter")
    archive = write_archive(tmp_path / "env.tar.gz", file("good"))
    with pytest.raises(ExecutionEnvironmentError, match=r"use Python 3\.10\.12"):
        unpack(archive, tmp_path)


def test_endcap_env_check_does_not_wait_for_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "env.tar.gz"
    os.mkfifo(pipe)
    command = [sys.executable, "-c", "from endcap.cli.app import main; main()", "env", "check"]
    done = subprocess.run(
        [*command, str(pipe)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "a pipe, a device or a folder" in done.stderr
