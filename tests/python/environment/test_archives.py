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
from cli_runs import assert_error_message, endcap

from endcap.environment.archive import unpack
from endcap.environment.errors import ExecutionEnvironmentError

Member = tuple[str, bytes, bytes | str, int]  # name, type, content or where a link leads, mode


def file(name: str, content: bytes = b"harm", mode: int = 0o644) -> Member:
    return name, tarfile.REGTYPE, content, mode


def link(name: str, target: str) -> Member:
    return name, tarfile.SYMTYPE, target, 0o777


def hard_link(name: str, target: str) -> Member:
    return name, tarfile.LNKTYPE, target, 0o666


def folder(name: str) -> Member:
    return name, tarfile.DIRTYPE, b"", 0o755


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
    "a link out": lambda outside: [link("a", str(outside))],
    "a link up": lambda outside: [link("deep/a", "../../outside")],
    "a file through a link": lambda outside: [link("l", ".."), file("l/outside")],
    "a name that goes up": lambda outside: [file("../outside")],
    "a device": lambda outside: [("null", tarfile.CHRTYPE, b"", 0o666)],
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


def test_endcap_env_check_refuses_it(tmp_path: Path, outside: Path) -> None:
    archive = write_archive(tmp_path / "env.tar.gz", *HARMFUL["a file through a link"](outside))
    assert_error_message(endcap("env", "check", archive), "endcap: ", str(archive))
    assert outside.read_text() == "mine"


def test_endcap_env_check_does_not_wait_for_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "env.tar.gz"
    os.mkfifo(pipe)
    command = [sys.executable, "-c", "from endcap.cli.app import main; main()", "env", "check"]
    done = subprocess.run(
        [*command, str(pipe)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert f"{pipe} is a pipe or a device" in done.stderr


def test_links_within_the_folder_stay_links(tmp_path: Path) -> None:
    """As conda's packages have them, some of them to files that are not there."""
    archive = write_archive(
        tmp_path / "env.tar.gz",
        folder("./"),
        file("bin/python3.11", b"program", 0o755),
        link("bin/python3", "python3.11"),
        hard_link("bin/python", "bin/python3.11"),
        folder("lib/terminfo"),
        link("lib/share", "../lib/terminfo/"),
        link("lib/gone", "../nothing/here"),
        link("lib64", "lib"),
        folder("lib"),
        file("bin//./python3.11", b"program", 0o755),
    )
    target = tmp_path / "target"
    target.mkdir()
    unpack(archive, target)
    assert os.readlink(target / "bin" / "python3") == "python3.11"
    assert (target / "bin" / "python").read_bytes() == b"program"
    assert os.access(target / "bin" / "python3", os.X_OK)
    assert (target / "lib64" / "share").is_dir()
    assert os.readlink(target / "lib" / "gone") == "../nothing/here"


def test_owners_and_modes_are_not_taken_over(tmp_path: Path) -> None:
    packed = tmp_path / "env.tar.gz"
    modes = {"private": 0o000, "open": 0o666, "program": 0o6777, "odd": 0o411}
    with tarfile.open(packed, "w:gz") as content:
        closed = tarfile.TarInfo("closed")
        closed.type, closed.mode = tarfile.DIRTYPE, 0o000
        content.addfile(closed)
        for name, mode in modes.items():
            member = tarfile.TarInfo(f"closed/{name}")
            member.mode, member.uid, member.gid = mode, 12345, 12345
            member.uname = member.gname = "nobody"
            content.addfile(member)
        alias = tarfile.TarInfo("alias")
        alias.type, alias.linkname, alias.uid = tarfile.SYMTYPE, "closed/open", 12345
        content.addfile(alias)
    target = tmp_path / "target"
    target.mkdir()
    unpack(packed, target)
    made = {name: (target / "closed" / name).stat() for name in modes}
    assert {name: stat.S_IMODE(about.st_mode) for name, about in made.items()} == {
        "private": 0o600,
        "open": 0o644,
        "program": 0o755,
        "odd": 0o600,
    }
    everything = [
        target / "closed",
        target / "alias",
        *(target / "closed" / name for name in modes),
    ]
    assert {(path.lstat().st_uid, path.lstat().st_gid) for path in everything} == {
        (os.geteuid(), os.getegid())
    }
    assert stat.S_IMODE((target / "closed").stat().st_mode) & 0o7700 == 0o700
