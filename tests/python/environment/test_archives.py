"""Archives of environments that somebody made to do harm: refused, and nothing written outside."""

from __future__ import annotations

import gzip
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

from endcap.environment.archive import unpack, unpack_for_stub
from endcap.environment.errors import ExecutionEnvironmentError, StubError

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
    "a hard link up": lambda outside: [hard_link("a", "../outside"), file("a")],
    "a hard link by a link": lambda outside: [link("l", "sub/../.."), hard_link("a", "l/outside")],
    "a hard link to a link": lambda outside: [link("l", "a/b"), hard_link("h", "l"), file("h")],
    "a hard link to nothing": lambda outside: [hard_link("h", "later"), file("later")],
    "a link out": lambda outside: [link("a", str(outside))],
    "a link up": lambda outside: [link("deep/a", "../../outside")],
    "a link up by a link": lambda outside: [link("a", "b/../../outside"), link("b", "c/d")],
    "a link of links": lambda outside: [
        folder("d"), link("d/up", "."), link("out", "d/up/../../outside")
    ],
    "a file through a link": lambda outside: [folder("d"), link("l", "d"), file("l/x")],
    "a file over a link": lambda outside: [file("x"), link("l", "x"), file("l")],
    "a link over a file": lambda outside: [file("l"), link("l", "x")],
    "a link over a link": lambda outside: [link("l", "x"), link("l", "y")],
    "a name that goes up": lambda outside: [file("../outside")],
    "a name that goes down and up": lambda outside: [file("a/../../outside")],
    "an absolute name": lambda outside: [file(str(outside))],
    "a link to itself": lambda outside: [link("l", "l//x")],
    "a long name": lambda outside: [file("n" * 256)],
    "a long path": lambda outside: [file("n/" * 1600 + "n")],
    "folders too deep": lambda outside: [folder("d/" * 200)],
    "a link to nothing": lambda outside: [link("l", "")],
    "a long link": lambda outside: [link("l", "n/" * 3000 + "n")],
    "a device": lambda outside: [("null", tarfile.CHRTYPE, b"", 0o666)],
    "a pipe": lambda outside: [("pipe", tarfile.FIFOTYPE, b"", 0o666)],
    "the folder as a link": lambda outside: [link(".", "/"), file("x")],
    "the folder as a file": lambda outside: [file(".")],
}  # fmt: skip


@pytest.mark.parametrize("case", HARMFUL)
def test_it_is_refused_before_anything_is_written(case: str, tmp_path: Path, outside: Path) -> None:
    archive = write_archive(tmp_path / "env.tar.gz", file("good"), *HARMFUL[case](outside))
    target = tmp_path / "target"
    target.mkdir()
    with pytest.raises(ExecutionEnvironmentError, match=r"env\.tar\.gz"):
        unpack(archive, target)
    assert list(target.iterdir()) == []
    assert (outside.read_text(), stat.S_IMODE(outside.stat().st_mode)) == ("mine", 0o600)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["env.tar.gz", "outside", "target"]


def test_endcap_env_check_refuses_it(tmp_path: Path, outside: Path) -> None:
    archive = write_archive(tmp_path / "env.tar.gz", *HARMFUL["a file through a link"](outside))
    assert_error_message(endcap("env", "check", archive), "endcap: ", str(archive))
    assert outside.read_text() == "mine"


@pytest.mark.parametrize("case", ["a link out", "a file through a link", "a link up by a link"])
def test_a_stub_s_checks_refuse_it(case: str, tmp_path: Path, outside: Path) -> None:
    archive = write_archive(tmp_path / "env.tar.gz", *HARMFUL[case](outside))
    with pytest.raises(StubError):
        unpack_for_stub(archive, tmp_path / "target")
    assert outside.read_text() == "mine"


def test_a_pipe_is_no_archive_of_a_stub(tmp_path: Path) -> None:
    pipe, target = tmp_path / "env.tar.gz", tmp_path / "target"
    os.mkfifo(pipe)
    target.mkdir()
    held = os.open(pipe, os.O_RDWR)  # so that one that reads it finds something, and ends
    try:
        os.write(held, b"no gzip")
        with pytest.raises(StubError, match="is a pipe or a device"):
            unpack_for_stub(pipe, target)
    finally:
        os.close(held)


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
        file("share/.", b"text"),
    )
    target = tmp_path / "target"
    target.mkdir()
    unpack(archive, target)
    assert os.readlink(target / "bin" / "python3") == "python3.11"
    assert (target / "bin" / "python").read_bytes() == b"program"
    assert os.access(target / "bin" / "python3", os.X_OK)
    assert (target / "lib64" / "share").is_dir()
    assert os.readlink(target / "lib" / "gone") == "../nothing/here"


def header(name: str, kind: bytes, size: int) -> bytes:
    member = tarfile.TarInfo(name)
    member.type, member.size = kind, size
    return member.tobuf(tarfile.GNU_FORMAT)


def pax(fields: dict[str, str]) -> bytes:
    member = tarfile.TarInfo("x")
    member.pax_headers = fields
    return member.tobuf(tarfile.PAX_FORMAT)


BOMBS = {
    "a file of 2^50 bytes": header("zeros", tarfile.REGTYPE, 2**50),
    "a file of 2^37 bytes": header("zeros", tarfile.REGTYPE, 2**37),
    "a file of less than none": header("zeros", tarfile.REGTYPE, -1),
    "a long name": header("././@LongLink", tarfile.GNUTYPE_LONGNAME, 2**40),
    "a long pax header": header("pax", tarfile.XHDTYPE, 2**40),
    "headers for all": header("pax", tarfile.XGLTYPE, 0),
    "a sparse file": header("sparse", tarfile.GNUTYPE_SPARSE, 512),
    "a sparse file of version 0.0": pax({"GNU.sparse.size": "1"}),
    "a sparse file of version 0.1": pax({"GNU.sparse.map": "0,1"}),
    "a sparse file of version 1.0": pax({"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}),
    "a size that is none": pax({"size": "-512"}),
    "a name with a null": pax({"path": "a\0b"}),
    "headers without end": header("pax", tarfile.XHDTYPE, 0) * 5000,
}


@pytest.mark.parametrize("case", BOMBS)
def test_a_bomb_is_refused_at_once(case: str, tmp_path: Path) -> None:
    archive = tmp_path / "env.tar.gz"
    archive.write_bytes(gzip.compress(BOMBS[case] + bytes(4096)))
    target = tmp_path / "target"
    target.mkdir()
    with pytest.raises(ExecutionEnvironmentError, match=r"env\.tar\.gz"):
        unpack(archive, target)
    assert list(target.iterdir()) == []


def test_more_than_the_disk_has_free_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = write_archive(tmp_path / "env.tar.gz", file("a", bytes(600)), file("b", bytes(600)))
    target = tmp_path / "target"
    target.mkdir()
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 1000}))
    with pytest.raises(ExecutionEnvironmentError, match=r"1000 free; set TMPDIR"):
        unpack(archive, target)
    assert list(target.iterdir()) == []


@pytest.fixture(params=["with filters", "without filters"])
def python(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python whose `tarfile` has filters, if this one has, and one without, as Debian 12's."""
    if request.param == "without filters":
        monkeypatch.delattr("tarfile.data_filter", raising=False)


@pytest.mark.usefixtures("python")
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
