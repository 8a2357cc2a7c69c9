"""endcap.dali.load: which library is taken, that it is loaded once, and what is refused."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import endcap.dali
from endcap.dali import DaliError
from endcap.dali.compiler import find_compiler
from endcap.dali.installation import CORE_NAME, LIBRARY_NAME
from tests.dali.dali_builds import response_of, start_python

LOAD = """
import sys
import endcap.dali
try:
    print(endcap.dali.load(*sys.argv[1:]))
except endcap.dali.DaliError as error:
    print(error)
"""


def loaded(*arguments: object) -> str:
    """The library that a new process loads, or its message."""
    return response_of(start_python(LOAD, *arguments))


@pytest.fixture
def copy(tmp_path: Path, dali_operators: Path) -> Path:
    """A copy of the library whose core is the package's."""
    return Path(shutil.copy(dali_operators, tmp_path / LIBRARY_NAME))


def test_the_operators_are_there_and_stay(dali_operators: Path) -> None:
    from nvidia.dali import fn

    assert endcap.dali.load() == dali_operators
    assert endcap.dali.load(dali_operators) == dali_operators
    for name in ("preprocess", "resize_normalize", "postprocess", "nms"):
        assert callable(getattr(fn.endcap, name))


def test_a_process_has_one_library(dali_operators: Path, copy: Path) -> None:
    with pytest.raises(DaliError, match=r"is loaded already.*start another process for"):
        endcap.dali.load(copy)


def test_threads_may_load_together_with_dali_in_use(dali_operators: Path) -> None:
    code = """
from concurrent.futures import ThreadPoolExecutor
from nvidia.dali import fn, pipeline_def
before = hasattr(fn, "endcap")
import endcap.dali
with ThreadPoolExecutor(8) as threads:
    paths = {each.result() for each in [threads.submit(endcap.dali.load) for _ in range(8)]}
print(before, hasattr(fn.endcap, "preprocess"), *paths)
"""
    assert response_of(start_python(code)).split() == ["False", "True", str(dali_operators)]


def test_the_variable_names_the_library(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENDCAP_DALI_LIBRARY", str(copy))
    assert loaded() == str(copy)


def test_what_dali_has_loaded_is_taken(dali_operators: Path) -> None:
    code = (
        "import sys\nfrom nvidia.dali import plugin_manager as p\np.load_library(sys.argv.pop())\n"
    )
    assert response_of(start_python(code + LOAD, dali_operators)) == str(dali_operators)


def test_without_a_build_an_error_message_says_how(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import nvidia.dali

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    said = loaded()
    assert said.startswith(f"the DALI operators are not built for DALI {nvidia.dali.__version__}")
    assert said.endswith("build them with `endcap dali build`")


def made_for_another_dali(library: Path) -> None:
    import nvidia.dali

    mark, version = b"endcap_dali built for ", nvidia.dali.__version__.encode()
    content = library.read_bytes()
    assert mark + version in content
    library.write_bytes(content.replace(mark + version, mark + b"9" * len(version)))


def test_a_library_for_another_dali_is_refused(copy: Path) -> None:
    made_for_another_dali(copy)
    said = loaded(copy)
    assert said.startswith(f"{copy} was built for DALI 9")
    assert said.endswith("build it with `endcap dali build`")


def test_files_that_are_no_library_are_refused(tmp_path: Path) -> None:
    assert "No such file" in loaded(tmp_path / "absent.so")
    text = tmp_path / "text.so"
    text.write_text("no library")
    assert "does not hold endcap's DALI operators" in loaded(text)


def test_a_library_that_cannot_be_opened_is_refused(copy: Path) -> None:
    content = copy.read_bytes()
    copy.write_bytes(b"not ELF" + content[7:])
    said = loaded(copy)
    assert said.startswith(f"{copy} cannot be loaded (")
    assert said.endswith("build it anew with `endcap dali build --force`")


def test_a_core_of_another_interface_is_refused(tmp_path: Path, copy: Path) -> None:
    source = tmp_path / "core.cc"
    source.write_text('extern "C" int endcap_c_abi() { return 99; }\n')
    command = [*find_compiler(), "-shared", "-fPIC", str(source), "-o", str(tmp_path / CORE_NAME)]
    subprocess.run(command, check=True)
    said = loaded(copy)
    assert said.startswith(f"{copy} cannot be loaded (")
    os.remove(tmp_path / CORE_NAME)
    assert loaded(copy) == str(copy)
