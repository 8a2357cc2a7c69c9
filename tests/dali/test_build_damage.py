"""Builds of DALI operators when something is damaged, full or silent."""

from __future__ import annotations

from pathlib import Path

import pytest

from endcap.dali import DaliError, built_for
from endcap.dali.building import build_from
from endcap.dali.compiler import find_compiler
from tests.dali.dali_builds import response_of, start_python, write_compiler, write_sources

COMPILER = find_compiler()[0]


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    return write_sources(tmp_path / "sources")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.parametrize("left", [0, 3, 20, 1000, -1])
def test_a_library_that_is_cut_short_is_built_anew(sources: Path, left: int) -> None:
    """The loader would end the process."""
    library = build_from(sources).path
    whole = library.read_bytes()
    library.write_bytes(whole[:left])
    with pytest.raises(DaliError, match=r"is cut short; build it anew with `endcap dali build"):
        built_for.read(library)
    again = build_from(sources)
    assert (again.path, again.cached) == (library, False)
    assert len(library.read_bytes()) == len(whole)


@pytest.mark.parametrize(("end", "how"), [("exit 4", "exit code 4"), ("kill -9 $$", "signal 9")])
def test_a_compiler_that_says_nothing(tmp_path: Path, sources: Path, end: str, how: str) -> None:
    silent = write_compiler(tmp_path / "silent", end)
    with pytest.raises(DaliError, match=f"ended (with|by) {how} and without output: .*TMPDIR"):
        build_from(sources, compiler=silent)


def test_a_copy_that_finds_no_room_names_its_place(tmp_path: Path, dali_operators: Path) -> None:
    code = """
import resource, sys
from pathlib import Path
from endcap.dali.building import copy_with_neighbours
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    copy_with_neighbours(Path(sys.argv[1]), Path(sys.argv[2]))
except OSError as error:
    print(error)
"""
    folder = tmp_path / "full"
    said = response_of(start_python(code, dali_operators, folder))
    assert str(folder / "libendcap_c.so") in said
    assert list(folder.iterdir()) == []
