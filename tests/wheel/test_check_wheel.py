"""The checks of a wheel find what they are for: one fault at a time, beside what is sound."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from elftools.common.exceptions import ELFError

import endcap

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import check_wheel  # noqa: E402
from elf_facts import ElfFacts, Hardening, read_elf  # noqa: E402

WHEEL = Path("endcap-1.2.3-cp311-cp311-manylinux_2_35_x86_64.whl")
SOUND = ElfFacts(
    needed=["libendcap_jpeg.so", "libm.so.6", "libc.so.6", "ld-linux-x86-64.so.2"],
    search_path=["$ORIGIN"],
    newest_glibc=(2, 35),
    exported=["TRITONBACKEND_Initialize"],
    has_symbol_table=False,
)


@pytest.fixture
def library(tmp_path: Path) -> Path:
    (tmp_path / "libendcap_jpeg.so").touch()
    return tmp_path / "libtriton_endcap_preprocess.so"


@pytest.mark.parametrize("platform", ["manylinux_2_35", "manylinux_2_17", "manylinux2014"])
def test_tags_that_hold_on_the_oldest_system_pass(platform: str) -> None:
    name = WHEEL.name.replace("manylinux_2_35", platform)
    assert list(check_wheel.check_tag(Path(name))) == []


def test_a_wheel_for_arm64_has_a_module_for_it_and_no_shadow_stack(library: Path) -> None:
    wheel = Path(WHEEL.name.replace("x86_64", "aarch64"))
    assert list(check_wheel.check_tag(wheel)) == []
    assert "endcap/_core.cpython-311-aarch64-linux-gnu.so" in check_wheel.expected_files(wheel)
    facts = dataclasses.replace(SOUND, needed=["libc.so.6", "ld-linux-aarch64.so.1"])
    assert list(check_wheel.check_library(library, facts)) == []
    assert list(check_wheel.check_hardening(library, Hardening(), "aarch64")) == []


def test_a_wheel_for_free_threaded_python_has_its_own_module() -> None:
    wheel = Path(WHEEL.name.replace("cp311-cp311", "cp314-cp314t"))
    assert list(check_wheel.check_tag(wheel)) == []
    assert "endcap/_core.cpython-314t-x86_64-linux-gnu.so" in check_wheel.expected_files(wheel)


@pytest.mark.parametrize("tags", ["cp311-cp312", "cp311-cp312t", "cp314t-cp314t", "cp311-abi3"])
def test_tags_of_two_pythons_are_refused(tags: str) -> None:
    (problem,) = check_wheel.check_tag(Path(WHEEL.name.replace("cp311-cp311", tags)))
    assert "is not named endcap-VERSION-cp3X-cp3X[t]-PLATFORM.whl" in problem


@pytest.mark.parametrize("platform", ["manylinux_2_36_x86_64", "linux_x86_64", "any"])
def test_other_tags_are_refused(platform: str) -> None:
    name = WHEEL.name.replace("manylinux_2_35_x86_64", platform)
    (problem,) = check_wheel.check_tag(Path(name))
    assert platform in problem


def test_a_sound_library_passes(library: Path) -> None:
    assert list(check_wheel.check_library(library, SOUND)) == []


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"needed": ["libc.so.6", "libtritonserver.so"]}, "needs libtritonserver.so"),
        ({"needed": ["libendcap_cuda.so"]}, "needs libendcap_cuda.so"),
        ({"needed": ["libstdc++.so.6"]}, "needs libstdc++.so.6"),
        ({"search_path": []}, "looks for libraries in []"),
        ({"search_path": ["$ORIGIN", "/usr/local/lib"]}, "/usr/local/lib"),
        ({"newest_glibc": (2, 36)}, "needs glibc (2, 36)"),
        ({"exported": ["TRITONBACKEND_Initialize", "jpeg_finish"]}, "exports ['jpeg_finish']"),
        ({"exported": []}, "exports nothing"),
        ({"has_symbol_table": True}, "not stripped"),
    ],
    ids=str,
)
def test_a_fault_of_a_library_is_told(library: Path, fault: dict[str, object], said: str) -> None:
    (problem,) = check_wheel.check_library(library, dataclasses.replace(SOUND, **fault))
    assert said in problem


PROTECTED = Hardening(features=frozenset({"SHSTK"}))


def test_a_protected_library_passes(library: Path) -> None:
    assert list(check_wheel.check_hardening(library, PROTECTED)) == []


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"relro": False}, "full RELRO"),
        ({"bind_now": False}, "full RELRO"),
        ({"executable_stack": True}, "executable stack"),
        ({"text_relocations": True}, "relocates code"),
        ({"position_independent": False}, "not position-independent"),
        ({"stack_protector": False}, "no stack protector"),
        ({"features": frozenset({"IBT"})}, "shadow stack"),
    ],
    ids=str,
)
def test_missing_protection_is_told(library: Path, fault: dict[str, object], said: str) -> None:
    (problem,) = check_wheel.check_hardening(library, dataclasses.replace(PROTECTED, **fault))
    assert said in problem


@pytest.mark.parametrize("name", check_wheel.WITHOUT_SHADOW_STACK)
def test_libraries_with_code_of_others_need_no_shadow_stack(name: str) -> None:
    assert list(check_wheel.check_hardening(Path(name), Hardening())) == []


@pytest.mark.parametrize("exported", [[], ["EndcapCudaApi", "cudaMalloc"]])
def test_gpu_code_shows_its_table_and_nothing_else(tmp_path: Path, exported: list[str]) -> None:
    library = tmp_path / "libendcap_cuda.so"
    facts = dataclasses.replace(SOUND, needed=["libc.so.6"], exported=["EndcapCudaApi"])
    assert list(check_wheel.check_library(library, facts)) == []
    (problem,) = check_wheel.check_library(library, dataclasses.replace(facts, exported=exported))
    assert "EndcapCudaApi" in problem


@pytest.mark.parametrize("exported", [[], ["endcap_nms", "jpeg_finish"]])
def test_the_c_library_shows_its_functions_and_nothing_else(
    tmp_path: Path, exported: list[str]
) -> None:
    library = tmp_path / "libendcap_c.so"
    facts = dataclasses.replace(SOUND, needed=["libc.so.6"], exported=["endcap_nms"])
    assert list(check_wheel.check_library(library, facts)) == []
    (problem,) = check_wheel.check_library(library, dataclasses.replace(facts, exported=exported))
    assert "not just endcap_*" in problem


def test_a_wheel_without_gpu_code_must_be_meant() -> None:
    without = check_wheel.expected_files(WHEEL, cuda=False)
    assert list(check_wheel.check_files(WHEEL, without, cuda=False)) == []
    (problem,) = check_wheel.check_files(WHEEL, without)
    assert problem == "endcap/libendcap_cuda.so is missing"


def test_missing_and_foreign_files_are_told() -> None:
    expected = check_wheel.expected_files(WHEEL)
    assert {"endcap/py.typed", "endcap/_core.cpython-311-x86_64-linux-gnu.so"} <= expected
    assert "endcap/model_repository/detect/1/.gitkeep" in expected
    assert list(check_wheel.check_files(WHEEL, expected)) == []
    names = expected - {"endcap/py.typed"} | {"endcap.libs/libjpeg-0a1b.so.62"}
    problems = list(check_wheel.check_files(WHEEL, names))
    assert len(problems) == 2
    assert problems[0] == "endcap/py.typed is missing"
    assert problems[1].startswith("endcap.libs/libjpeg-0a1b.so.62 is in the wheel")


@pytest.mark.parametrize(
    ("text", "told"),
    [("/opt/build", True), ("x\0/opt/build/csrc/nms.cc\0y", True), ("/usr/opt/build", False)],
)
def test_a_path_of_the_building_machine_is_told(tmp_path: Path, text: str, told: bool) -> None:
    file = tmp_path / "file"
    file.write_bytes(text.encode())
    assert len(list(check_wheel.check_paths(file, Path("/opt/build")))) == told


def test_a_missing_notice_is_told(tmp_path: Path) -> None:
    target = tmp_path / "endcap-1.2.3.dist-info" / "licenses" / "THIRD_PARTY_LICENSES.txt"
    target.parent.mkdir(parents=True)
    shutil.copy(ROOT / "THIRD_PARTY_LICENSES.txt", target)
    assert list(check_wheel.check_notices(tmp_path)) == []
    target.write_text(target.read_text(encoding="utf-8").replace("pybind11", "it"))
    assert list(check_wheel.check_notices(tmp_path)) == [
        "THIRD_PARTY_LICENSES.txt says nothing of pybind11"
    ]


# --- what is read from a file, against the tools of the system ------------------------------------

LIBRARIES = [path for root in endcap.__path__ for path in Path(root).rglob("*.so")]


def readelf(*arguments: str | Path) -> str:
    command = ["readelf", "--wide", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("path", LIBRARIES, ids=lambda path: path.name)
def test_facts_are_those_of_readelf(path: Path) -> None:
    facts = read_elf(path)
    dynamic = readelf("--dynamic", path)
    assert facts.needed
    assert all(f"[{name}]" in dynamic for name in facts.needed)
    assert dynamic.count("(NEEDED)") == len(facts.needed)
    assert facts.search_path == (["$ORIGIN"] if "(RUNPATH)" in dynamic else [])
    assert facts.has_symbol_table == (".symtab" in readelf("--section-headers", path))
    assert f"GLIBC_{facts.newest_glibc[0]}.{facts.newest_glibc[1]}" in readelf("-V", path)
    assert facts.exported
    assert list(check_wheel.check_hardening(path, facts.hardening)) == []


WEAK = ("-Wl,-z,norelro", "-Wl,-z,lazy", "-Wl,-z,execstack", "-fno-stack-protector", "-no-pie")


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (WEAK, Hardening(relro=False, bind_now=False, executable_stack=True,
                         position_independent=False, stack_protector=False)),
        (("-fstack-protector-all", "-pie", "-fPIE", "-Wl,-z,relro,-z,now,-z,shstk"), PROTECTED),
    ],
    ids=["weak", "protected"],
)  # fmt: skip
def test_protection_is_read_from_programs(
    tmp_path: Path, flags: tuple[str, ...], expected: Hardening
) -> None:
    source, program = tmp_path / "main.c", tmp_path / "main"
    source.write_text("int main(void) { char text[9] = {0}; return text[0]; }\n")
    command = ["gcc", *flags, "-fcf-protection=none", str(source), "-o", str(program)]
    subprocess.run(command, check=True, capture_output=True)
    assert read_elf(program).hardening == expected


def test_a_file_that_is_no_library_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "text.so"
    file.write_text("not ELF at all")
    with pytest.raises(ELFError, match="Magic number does not match"):
        read_elf(file)
