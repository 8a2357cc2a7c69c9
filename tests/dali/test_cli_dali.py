"""endcap dali build, as a user calls it; and what the doctor says of DALI."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from endcap.dali import built_for, installation
from endcap.dali.built_for import cached_library
from endcap.dali.installation import LIBRARY_NAME
from tests.support.cli_runs import endcap
from tests.support.doctor_world import doctor


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def own_cache(empty_cache: Path, dali_operators: Path) -> Path:
    """A cache that holds the session's library."""
    place = cached_library(built_for.find_required_build(installation.find_dali()))
    place.parent.mkdir(parents=True)
    return Path(shutil.copy(dali_operators, place))


def test_the_output_is_a_folder_of_libraries(tmp_path: Path, own_cache: Path) -> None:
    result = endcap("dali", "build", "--output", tmp_path / "a" / "b")
    assert result.stdout == f"{tmp_path / 'a' / 'b' / LIBRARY_NAME}: built before\n"
    assert (tmp_path / "a" / "b" / LIBRARY_NAME).read_bytes() == own_cache.read_bytes()


def test_the_doctor_has_tried_the_operators(own_cache: Path) -> None:
    finding = doctor().findings["dali"]
    assert finding["severity"] == "ok"
    assert finding["found"] == str(own_cache)


def test_the_doctor_says_how_to_build_them(empty_cache: Path) -> None:
    doctor().expect("dali", "note", "are not built for DALI", "`endcap dali build`")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("__version__ = '1.40.0'\n", "DALI 1.40.0 is older than"),
        ("import nowhere\n", "DALI is there, but cannot be imported (No module named 'nowhere')"),
        ("import os\nos._exit(3)\n", "DALI cannot be loaded (exit code 3)"),
    ],
    ids=["old", "incomplete", "crashing"],
)
def test_the_doctor_refuses_a_dali(
    tmp_path: Path, empty_cache: Path, content: str, problem: str
) -> None:
    """Another package that calls itself DALI goes before the real one."""
    folder = tmp_path / "path" / "nvidia" / "dali"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    (folder / "__init__.py").write_text(content)
    response = doctor(environment={"PYTHONPATH": str(tmp_path / "path")})
    response.expect("dali", "note", problem, "`pip install --", "nvidia-dali")
