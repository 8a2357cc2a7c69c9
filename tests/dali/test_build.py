"""endcap.dali.build: what is compiled, kept and copied, also when something is damaged or full."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import endcap
from endcap.dali import DaliError, build, building, built_for, installation
from endcap.dali.building import build_from, copy_with_neighbours, find_compiler
from endcap.dali.built_for import cached_library
from endcap.dali.installation import CORE_NAME, LIBRARY_NAME, find_sources
from tests.dali.dali_builds import (
    read_response,
    start_build,
    start_python,
    write_compiler,
    write_sources,
)

COMPILER = find_compiler()[0]


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    return write_sources(tmp_path / "sources")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "endcap" / "dali"


def libraries(folder: Path) -> list[str]:
    """Every file that is, or may become, a library."""
    return [path.name for path in folder.rglob("*") if LIBRARY_NAME in path.name]


def test_a_library_is_compiled_once(sources: Path, cache: Path) -> None:
    import nvidia.dali

    first = build_from(sources)
    there = built_for.read(first.path)
    assert (there.dali, there.endcap) == (nvidia.dali.__version__, endcap.__version__)
    assert there == built_for.find_required_build(installation.find_dali())
    assert (first.cached, first.path.name) == (False, LIBRARY_NAME)
    assert first.path.is_relative_to(cache)
    assert first.seconds > 0
    again = build_from(sources)
    assert (again.path, again.cached, again.seconds) == (first.path, True, 0)


@pytest.mark.slow
def test_the_library_is_protected_as_those_of_the_wheel() -> None:
    """The real operators: what write_sources gives has no array that a protector would guard."""
    library = build_from(find_sources()).path
    command = ["readelf", "--segments", "--dynamic", "--dyn-syms", "--wide", str(library)]
    facts = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "GNU_RELRO" in facts
    assert re.search(r"FLAGS.*\bNOW\b", facts)
    assert re.search(r"GNU_STACK\s.*\sRW\s", facts)
    assert "TEXTREL" not in facts
    assert "__stack_chk_fail" in facts


def test_what_is_kept_belongs_to_the_sources_and_to_dali(sources: Path) -> None:
    here = built_for.find_required_build(installation.find_dali())
    library = cached_library(here, sources)
    (sources / "other.h").write_text("// one more")
    more = cached_library(here, sources)
    (sources / "other.h").write_text("// one other")
    other = cached_library(here, sources)
    (sources / "notes.txt").write_text("no source")
    assert cached_library(here, sources) == other
    fields = {"dali": here.dali, "dali_identity": "x", "endcap": here.endcap, "c_abi": here.c_abi}
    another_dali = cached_library(built_for.BuiltFor(**fields), sources)
    another_endcap = cached_library(built_for.BuiltFor(**{**fields, "endcap": "9"}), sources)
    assert len({library, more, other, another_dali, another_endcap}) == 5


def test_the_core_may_lie_in_a_folder_with_a_comma_but_not_with_a_colon(
    sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a,b", "a:b"):
        (tmp_path / name).mkdir()
        shutil.copy(installation.find_core(), tmp_path / name)
    monkeypatch.setattr(building, "find_core", lambda: tmp_path / "a,b" / CORE_NAME)
    built = build_from(sources).path
    read = subprocess.run(
        ["readelf", "--dynamic", "--wide", str(built)], capture_output=True, text=True, check=True
    )
    assert f"[$ORIGIN:{tmp_path}/a,b]" in read.stdout
    monkeypatch.setattr(building, "find_core", lambda: tmp_path / "a:b" / CORE_NAME)
    with pytest.raises(DaliError, match="has a colon in its name"):
        build_from(sources, force=True)


def test_unwritable_cache_is_reported(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/endcap")  # not even root can make a folder there
    with pytest.raises(DaliError, match=r"cannot be made \(.*\); set XDG_CACHE_HOME"):
        build_from(sources)


def test_code_that_does_not_compile_leaves_what_the_compiler_said(
    tmp_path: Path, cache: Path
) -> None:
    sources = write_sources(tmp_path / "sources", "int one() { return nowhere; }\n")
    with pytest.raises(DaliError, match=r"other\.cc:1:.*error: .*nowhere") as caught:
        build_from(sources)
    (log,) = cache.rglob("compiler.log")
    assert f"{log} has all of it" in str(caught.value)
    assert "nowhere" in log.read_text()
    assert libraries(cache) == []


def test_two_processes_build_one_library(sources: Path) -> None:
    responses = [read_response(process) for process in [start_build(sources), start_build(sources)]]
    paths, cached = zip(*(response.split() for response in responses), strict=True)
    assert paths[0] == paths[1]
    assert sorted(cached) == ["False", "True"]


def test_a_killed_build_leaves_nothing(
    tmp_path: Path, sources: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = tmp_path / "started"
    waits = write_compiler(tmp_path / "waits", f"touch {started}\nsleep 5")
    with monkeypatch.context() as patch:
        patch.setenv("CXX", waits)
        process = start_build(sources)
    while not started.exists() and process.poll() is None:
        time.sleep(0.05)
    process.kill()
    process.communicate()
    assert started.exists()
    assert libraries(cache) == []
    assert not build_from(sources).cached


def test_a_copy_needs_nothing_of_where_it_was_built(tmp_path: Path, dali_operators: Path) -> None:
    kept = cached_library(built_for.find_required_build(installation.find_dali()))
    kept.parent.mkdir(parents=True)
    shutil.copy(dali_operators, kept)
    built = build(tmp_path / "plugins")
    assert (built.path, built.cached) == (tmp_path / "plugins" / LIBRARY_NAME, True)
    moved = built.path.parent.rename(tmp_path / "moved")
    code = """
import sys
import endcap.dali
endcap.dali.load(sys.argv[1])
lines = open("/proc/self/maps").read().splitlines()
print(*{line.split()[-1] for line in lines if "libendcap_" in line})
"""
    mapped = read_response(start_python(code, moved / LIBRARY_NAME)).split()
    assert {str(moved / LIBRARY_NAME), str(moved / CORE_NAME)} <= set(mapped)
    assert not (moved / "libendcap_jpeg.so").is_symlink()


def test_a_copy_replaces_copies_alone(tmp_path: Path, dali_operators: Path) -> None:
    folder = tmp_path / "plugins"
    for _ in range(2):
        assert copy_with_neighbours(dali_operators, folder) == folder / LIBRARY_NAME
    (tmp_path / "victim").write_text("precious")
    for name in (CORE_NAME, LIBRARY_NAME):
        (folder / name).unlink()
        for make in (
            lambda path: path.write_text("mine"),
            lambda path: path.symlink_to(tmp_path / "victim"),
        ):
            make(folder / name)
            with pytest.raises(
                DaliError, match=f"{name} exists and was not created by endcap; move it away"
            ):
                copy_with_neighbours(dali_operators, folder)
            assert (folder / name).read_text() in ("mine", "precious")
            (folder / name).unlink()
        copy_with_neighbours(dali_operators, folder)
    assert (tmp_path / "victim").read_text() == "precious"


def test_cxx_names_the_compiler(
    tmp_path: Path, sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = tmp_path / "ran"
    own = write_compiler(tmp_path / "own", f'touch {ran}\nexec {COMPILER} "$@"')
    monkeypatch.setenv("CXX", f"{own} -DANY")
    build_from(sources)
    assert ran.exists()


def write_headers(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def test_the_cuda_headers_of_a_folder_or_of_python_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where another folder's nvidia/__init__.py hides the package, as nvimgcodec's does."""
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(building, "_SYSTEM_CUDA", (tmp_path,))
    monkeypatch.setattr(sys, "path", [str(tmp_path / "hides"), str(tmp_path / "packages")])
    write_headers(tmp_path / "hides/nvidia", "__init__.py")
    with pytest.raises(DaliError, match=re.escape(f"(searched {tmp_path})")) as caught:
        building.find_cuda_headers()
    assert "`pip install nvidia-cuda-runtime nvidia-cuda-crt" in str(caught.value)
    packages = tmp_path / "packages/nvidia/cu13/include"
    write_headers(packages, "cuda_runtime.h", "crt/host_config.h", "nv/target")
    assert building.find_cuda_headers() == [packages]
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    include = tmp_path / "home/include"
    write_headers(include, "cuda_runtime.h", "crt/host_config.h")
    assert building.find_cuda_headers() == [packages]  # one of them is missing in CUDA_HOME
    write_headers(include, "cccl/nv/target")
    assert building.find_cuda_headers() == [include, include / "cccl"]


def test_an_old_dali_is_refused(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nvidia.dali.__version__", "1.52.9")
    message = f"DALI 1.52.9 is older than {installation.MIN_RELEASE}.*; update it with `pip install"
    with pytest.raises(DaliError, match=message):
        build_from(sources)


def test_without_dali_an_error_message_says_how_to_get_it() -> None:
    code = """
import sys
sys.modules["nvidia.dali"] = None
import endcap.dali
try:
    endcap.dali.build()
except endcap.dali.DaliError as error:
    print(error)
"""
    said = read_response(start_python(code))
    assert re.fullmatch(
        r"DALI is not installed; install it with `pip install .* 'nvidia-dali-cuda130>=2.0'`", said
    )


# --- damage ---------------------------------------------------------------------------------------


def test_a_compiler_that_is_missing_or_says_nothing(
    tmp_path: Path, sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "absent-compiler -m64")
    message = "CXX is absent-compiler -m64, not a program that can be run; install g"
    with pytest.raises(DaliError, match=message):
        build_from(sources)
    for end, how in (("exit 4", "exit code 4"), ("kill -9 $$", "signal 9")):
        monkeypatch.setenv("CXX", write_compiler(tmp_path / "silent", end))
        with pytest.raises(DaliError, match=f"ended (with|by) {how} and without output: .*TMPDIR"):
            build_from(sources)
