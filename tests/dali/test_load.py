"""endcap.dali.load: which library is taken, that it is loaded once, and what is refused."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import endcap.dali
from endcap.dali import DaliError
from endcap.dali.building import find_compiler
from endcap.dali.installation import CORE_NAME, LIBRARY_NAME
from tests.dali.dali_builds import read_response, start_python

# Each argument is a library, or "" for the one that `load` finds; prints what it loads, or why not.
LOAD = """
import sys
import endcap.dali
for library in sys.argv[1:]:
    try:
        print(endcap.dali.load(*filter(None, [library])))
    except endcap.dali.DaliError as error:
        print(error)
"""


def loaded(*libraries: object, before: str = "") -> list[str]:
    """What a new process says of these libraries, one after the other."""
    return read_response(start_python(before + LOAD, *libraries)).splitlines()


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
    assert read_response(start_python(code)).split() == ["False", "True", str(dali_operators)]


def test_what_dali_has_loaded_is_taken(dali_operators: Path) -> None:
    code = (
        "import sys\nfrom nvidia.dali import plugin_manager as p\np.load_library(sys.argv.pop())\n"
    )
    assert loaded("", dali_operators, before=code) == [str(dali_operators)]


def made_for_another_dali(library: Path) -> None:
    import nvidia.dali

    mark, version = b"endcap_dali built for ", nvidia.dali.__version__.encode()
    content = library.read_bytes()
    assert mark + version in content
    library.write_bytes(content.replace(mark + version, mark + b"9" * len(version)))


def test_which_library_is_taken(
    tmp_path: Path, dali_operators: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of the environment variable before what was built."""
    assert loaded("") == [str(dali_operators)]
    other = shutil.copy(dali_operators, tmp_path / "other.so")
    monkeypatch.setenv("ENDCAP_DALI_LIBRARY", str(other))
    assert loaded("") == [str(other)]


def test_what_cannot_be_loaded_is_refused(
    tmp_path: Path, copy: Path, dali_operators: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import nvidia.dali

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made_for_another_dali(copy)
    (tmp_path / "text.so").write_text("no library")
    content = dali_operators.read_bytes()
    (tmp_path / "damaged.so").write_bytes(b"not ELF" + content[7:])
    names = ("absent.so", "text.so", "damaged.so", copy.name)
    unbuilt, absent, text, damaged, other = loaded("", *(tmp_path / name for name in names))
    assert unbuilt.startswith(
        f"the DALI operators are not built for DALI {nvidia.dali.__version__}"
    )
    assert unbuilt.endswith("build them with `endcap dali build`")
    assert "No such file" in absent
    assert "does not hold endcap's DALI operators" in text
    assert damaged.startswith(f"{tmp_path / 'damaged.so'} cannot be loaded (")
    assert damaged.endswith("build it again with `endcap dali build --force`")
    assert other.startswith(f"{copy} was built for DALI 9")


def test_a_core_of_another_interface_is_refused(tmp_path: Path, copy: Path) -> None:
    source = tmp_path / "core.cc"
    source.write_text('extern "C" int endcap_c_abi() { return 99; }\n')
    command = [*find_compiler(), "-shared", "-fPIC", str(source), "-o", str(tmp_path / CORE_NAME)]
    subprocess.run(command, check=True)
    assert loaded(copy)[0].startswith(f"{copy} cannot be loaded (")
