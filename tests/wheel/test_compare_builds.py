"""Two builds are compared byte by byte, and a difference is said with its place."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import build_wheel  # noqa: E402
from compare_builds import compare_files  # noqa: E402
from steps import BuildError  # noqa: E402

TIME = (2026, 1, 2, 3, 4, 6)


def write_wheel(path: Path, files: dict[str, bytes], time: tuple[int, ...] = TIME) -> Path:
    path.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, time[:6]), content)  # type: ignore[arg-type]
    return path


FILES = {"a.py": b"x = 1\n", "b.py": b""}


@pytest.mark.parametrize(
    ("files", "time", "said"),
    [
        (FILES, TIME, None),
        ({**FILES, "a.py": b"x = 2\n"}, TIME, "a.py differs in byte 4 of 6 and 6"),
        ({**FILES, "c.py": b""}, TIME, "c.py is in one of the two only"),
        ({"b.py": b"", "a.py": b"x = 1\n"}, TIME, "in another order"),
        (FILES, (2026, 1, 2, 3, 4, 8), "a.py differs in its time, mode or owner"),
    ],
)
def test_wheels(
    tmp_path: Path, files: dict[str, bytes], time: tuple[int, ...], said: str | None
) -> None:
    first = write_wheel(tmp_path / "1" / "x.whl", FILES)
    differences = list(compare_files(first, write_wheel(tmp_path / "2" / "x.whl", files, time)))
    if said is None:
        assert differences == []
    else:
        assert said in differences[0]


def test_sections_of_a_shared_object_are_named(tmp_path: Path) -> None:
    source = tmp_path / "one.c"
    wheels = []
    for i in (1, 2):
        source.write_text(f"int one(void) {{ return {i}; }}\n")
        library = tmp_path / "one.so"
        command = ["gcc", "-shared", "-fPIC", "-Wl,--build-id=none", source, "-o", library]
        subprocess.run(command, check=True)
        wheels.append(write_wheel(tmp_path / str(i) / "x.whl", {"one.so": library.read_bytes()}))
    assert list(compare_files(*wheels)) == ["x.whl: one.so differs in the sections .text"]


def test_source_archives(tmp_path: Path) -> None:
    archives = []
    for i, owner in enumerate(("root", "builder")):
        path = tmp_path / str(i) / "x.tar"
        path.parent.mkdir()
        with tarfile.open(path, "w") as archive:
            member = tarfile.TarInfo("a.py")
            member.uname = owner
            archive.addfile(member, io.BytesIO())
        archives.append(path)
    (difference,) = compare_files(*archives)
    assert "a.py differs in its time, mode or owner" in difference
    assert list(compare_files(archives[0], archives[0])) == []


def test_the_time_of_the_source_is_that_of_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1234567890")
    assert build_wheel.source_epoch() == 1234567890
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    git = ["git", "-C", str(ROOT), "show", "--no-patch", "--format=%ct"]
    done = subprocess.run(git, capture_output=True, text=True, check=False)
    expected = (ROOT / "pyproject.toml").stat().st_mtime if done.returncode else done.stdout
    assert build_wheel.source_epoch() == int(expected)


@pytest.mark.parametrize(
    ("file", "command", "said"),
    [
        ("a.cc", "g++ -fstack-protector-strong -D_FORTIFY_SOURCE=3 a.cc", None),
        ("a.cu", "nvcc -Xcompiler=-fstack-protector-strong a.cu", None),
        ("a.cc", "g++ -fstack-protector-strong a.cc", "without -D_FORTIFY_SOURCE="),
        ("a.cc", "g++ -D_FORTIFY_SOURCE=3 a.cc", "without -fstack-protector-strong"),
        ("a.cc", "g++ -mavx2 a.cc", "with -mavx2, which other machines cannot run"),
    ],
)
def test_compilations_are_portable_and_protected(file: str, command: str, said: str | None) -> None:
    commands = [{"file": file, "command": command}]
    if said is None:
        build_wheel.check_commands(commands)
    else:
        with pytest.raises(BuildError, match=said):
            build_wheel.check_commands(commands)
