"""The cache of built DALI operators when others may write to it, and what it does with links."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest
from dali_builds import response_of, start_python, write_compiler, write_sources

from endcap.dali import DaliError, built_for, installation
from endcap.dali.building import build_from
from endcap.dali.cache import cached_library
from endcap.dali.compiler import find_compiler
from endcap.dali.loading import find_library

NOBODY = 65534
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    return write_sources(tmp_path / "sources")


@pytest.fixture
def kept(dali_operators: Path) -> Path:
    """A library in the cache that fits what is installed."""
    place = cached_library(built_for.wanted(installation.find_dali()))
    place.parent.mkdir(parents=True)
    return Path(shutil.copy(dali_operators, place))


def open_the_library(kept: Path) -> Path:
    kept.chmod(0o666)
    return kept


def open_its_folder(kept: Path) -> Path:
    kept.parent.chmod(0o777)
    return kept.parent


def open_the_cache(kept: Path) -> Path:
    kept.parents[3].chmod(0o757)
    return kept.parents[3]


def give_the_library_away(kept: Path) -> Path:
    os.chown(kept, NOBODY, NOBODY)
    return kept


def give_its_folder_away(kept: Path) -> Path:
    os.chown(kept.parents[1], NOBODY, NOBODY)
    return kept.parents[1]


def link_the_library(kept: Path) -> Path:
    moved = kept.with_name("elsewhere")
    kept.rename(moved)
    kept.symlink_to(moved)
    return kept


@pytest.mark.parametrize(
    "change",
    [
        open_the_library,
        open_its_folder,
        open_the_cache,
        pytest.param(give_the_library_away, marks=AS_ROOT),
        pytest.param(give_its_folder_away, marks=AS_ROOT),
        link_the_library,
    ],
    ids=lambda change: change.__name__,
)
def test_a_library_that_others_may_have_put_there_is_refused(change, kept: Path) -> None:
    here = built_for.wanted(installation.find_dali())
    assert find_library(here) == kept
    place = change(kept)
    with pytest.raises(DaliError, match=rf"{place} .*; .*XDG_CACHE_HOME") as caught:
        find_library(here)
    said = response_of(start_python("""
import endcap.dali
try:
    endcap.dali.load()
except endcap.dali.DaliError as error:
    print(error)
"""))  # fmt: skip
    assert said == str(caught.value)


def test_nothing_is_built_where_others_may_write(cache: Path, sources: Path) -> None:
    cache.mkdir()
    cache.chmod(0o777)
    with pytest.raises(DaliError, match=f"{cache} lets other users replace"):
        build_from(sources)
    assert list(cache.iterdir()) == []
    cache.chmod(0o1777)
    built = build_from(sources)
    for folder in (built.path.parent, *built.path.parents[1:3]):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o755


def test_new_folders_are_closed_to_other_writers_with_any_umask(sources: Path) -> None:
    before = os.umask(0)
    try:
        built = build_from(sources)
    finally:
        os.umask(before)
    assert built_for.fits(built.path, built_for.wanted(installation.find_dali()))
    assert [stat.S_IMODE(folder.stat().st_mode) & 0o022 for folder in built.path.parents[:4]] == (
        [0] * 4
    )
    assert build_from(sources).cached


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path, sources: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("mine")
    folder = cached_library(built_for.wanted(installation.find_dali()), sources).parent
    folder.mkdir(parents=True)
    (folder / ".lock").symlink_to(mine)
    with pytest.raises(OSError, match=r"\.lock"):
        build_from(sources)
    assert mine.read_text() == "mine"
    (folder / ".lock").unlink()
    os.link(mine, folder / ".lock")
    build_from(sources)
    assert mine.read_text() == "mine"


def test_a_log_that_is_a_link_is_replaced(tmp_path: Path, sources: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("mine")
    folder = cached_library(built_for.wanted(installation.find_dali()), sources).parent
    folder.mkdir(parents=True)
    (folder / "compiler.log").symlink_to(mine)
    fails = write_compiler(
        tmp_path / "fails",
        f'case "$*" in *-fsyntax-only*) exec {find_compiler()[0]} "$@";; esac\n'
        "echo 'x.cc: error: made to fail'\nexit 1",
    )
    with pytest.raises(DaliError, match="made to fail"):
        build_from(sources, compiler=fails)
    assert mine.read_text() == "mine"
    assert (folder / "compiler.log").read_text() == "x.cc: error: made to fail\n"
    assert not (folder / "compiler.log").is_symlink()
