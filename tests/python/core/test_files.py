"""Files and folders that are written whole or not at all, and the cache folder."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from endcap._files import cache_folder, refuse_links, whole_file, whole_folder, whole_text_file
from endcap.errors import InvalidArgumentError, UnsupportedError


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "x"
    interrupted = contextlib.ExitStack()
    interrupted.enter_context(whole_file(path)).write(b"half")
    interrupted.__exit__(KeyError, KeyError(), None)
    assert list(tmp_path.iterdir()) == []
    with whole_file(path) as file:
        file.write(b"whole")
        assert not path.exists()
    assert path.read_bytes() == b"whole"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_a_file_that_is_replaced_keeps_its_mode(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"before")
    path.chmod(mode)
    with whole_file(path) as file:
        file.write(b"after")
        (partial,) = tmp_path.glob(".endcap-*")
        assert stat.S_IMODE(partial.stat().st_mode) == mode
    assert path.read_bytes() == b"after"
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_links_are_followed_and_devices_written_to(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    link.symlink_to(target)
    with whole_text_file(link) as file:
        file.write("name \udcff\n")
    assert link.is_symlink()
    assert target.read_text() == "name \\udcff\n"
    with whole_file(Path(os.devnull)) as stream:
        stream.write(b"gone")
    assert not Path(os.devnull).is_file()


def test_links_and_devices_are_refused_for_names_of_our_choice(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("precious")
    link.symlink_to(target)
    with (
        pytest.raises(InvalidArgumentError, match="is a symbolic link"),
        whole_file(link, follow_links=False),
    ):
        pass
    assert target.read_text() == "precious"
    with pytest.raises(InvalidArgumentError, match="is not a regular file"):
        refuse_links([target, Path(os.devnull)])


@pytest.mark.parametrize("path", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_an_open_file_is_written_to_and_not_replaced(tmp_path: Path, path: str) -> None:
    """As by `--output /dev/stdout >> results.jsonl`."""
    report = tmp_path / "results.jsonl"
    report.write_text("line 1 precious\n")
    program = (
        "from pathlib import Path\n"
        "from endcap._files import whole_file\n"
        f"with whole_file(Path({path!r})) as file:\n"
        "    file.write(b'line 2\\n')\n"
    )
    for _ in range(2):
        with report.open("a") as file:
            subprocess.run([sys.executable, "-c", program], stdout=file, check=True)
    assert report.read_text() == "line 1 precious\nline 2\nline 2\n"
    refused = pytest.raises(InvalidArgumentError, match="cannot be written: Bad file descriptor")
    with refused, whole_file(Path("/dev/fd/999")):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_link_of_another_user_in_a_folder_for_all_is_not_followed(tmp_path: Path) -> None:
    shared, victim = tmp_path / "shared", tmp_path / "victim"
    shared.mkdir()
    shared.chmod(0o1777)
    victim.write_text("precious")
    link = shared / "out.json"
    link.symlink_to(victim)
    os.chown(link, 65534, 65534, follow_symlinks=False)
    refused = pytest.raises(InvalidArgumentError, match="a symbolic link of user 65534 in a folder")
    with refused, whole_file(link):
        pass
    assert victim.read_text() == "precious"
    shared.chmod(0o755)
    with whole_file(link) as file:
        file.write(b"new")
    assert victim.read_text() == "new"
    os.chown(shared, 65534, 65534)
    with refused, whole_file(link):
        pass
    assert victim.read_text() == "new"


def test_a_full_disk_is_named() -> None:
    with (
        pytest.raises(OSError, match="No space left") as caught,
        whole_file(Path("/dev/full")) as f,
    ):
        f.write(b"lost")
    assert caught.value.filename == "/dev/full"


def test_what_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    for path, reason in ((tmp_path, "a folder"), (tmp_path / "no" / "x", "No such file")):
        with pytest.raises(InvalidArgumentError, match=reason), whole_file(path):
            pass


@pytest.mark.parametrize("is_there", [False, True])
def test_a_folder_is_written_whole_or_not_at_all(tmp_path: Path, is_there: bool) -> None:
    target = tmp_path / "models"
    if is_there:
        target.mkdir()
    before = target.stat().st_ino if is_there else None
    interrupted = contextlib.ExitStack()
    (interrupted.enter_context(whole_folder(target)) / "half").write_text("x")
    interrupted.__exit__(KeyError, KeyError(), None)
    assert list(tmp_path.rglob("*")) == [target] * is_there
    with whole_folder(target) as folder:
        (folder / "a" / "b").mkdir(parents=True)
        (folder / "a" / "b" / "c").write_text("whole")
        (folder / "d").write_text("whole")
        assert not (target / "a").exists()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "b", "c", "d", "models"]
    assert stat.S_IMODE(target.stat().st_mode) & 0o700 == 0o700
    assert before in (None, target.stat().st_ino)


@pytest.mark.parametrize("is_there", [False, True])
def test_what_appears_in_the_folder_meanwhile_stays(tmp_path: Path, is_there: bool) -> None:
    target = tmp_path / "models"
    if is_there:
        target.mkdir()
    refused = pytest.raises(InvalidArgumentError, match="another process has created")
    with refused, whole_folder(target) as folder:
        (folder / "a").write_text("ours")
        (folder / "b").write_text("ours")
        target.mkdir(exist_ok=True)
        (target / "b").write_text("theirs")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["b", "models"]
    assert (target / "b").read_text() == "theirs"


def test_a_missing_file_is_named_where_it_would_be(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught, whole_folder(tmp_path / "models") as folder:
        (folder / "no" / "file").write_text("x")
    assert caught.value.filename == str(tmp_path / "models" / "no" / "file")


def test_the_cache_is_closed_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = cache_folder("server")
    assert folder == tmp_path / "cache" / "endcap" / "server"
    assert not folder.exists()
    folder.mkdir(parents=True)
    assert cache_folder("server") == folder
    folder.parent.chmod(0o777)
    with pytest.raises(UnsupportedError, match="other users may write to the cache"):
        cache_folder("server")


@contextlib.contextmanager
def umask(value: int) -> Iterator[None]:
    before = os.umask(value)
    try:
        yield
    finally:
        os.umask(before)


def test_new_files_and_folders_have_the_modes_of_the_mask(tmp_path: Path) -> None:
    with umask(0o027):
        with whole_file(tmp_path / "file") as file:
            file.write(b"x")
        with whole_folder(tmp_path / "folder"):
            pass
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "folder").stat().st_mode) == 0o750
