"""Builds of the GPU code with other constants: what is compiled, and what is refused."""

from __future__ import annotations

import ctypes
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import cuda_variants  # noqa: E402
from cuda_variants import Variant, VariantBuilder, parse_ptxas, parse_variant  # noqa: E402
from steps import BuildError, Steps  # noqa: E402

KNOWN = cuda_variants.read_constants(ROOT / cuda_variants.HEADER)
PTXAS = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z3oldv' for 'sm_80'
ptxas info    : Function properties for _Z3oldv
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 99 registers, used 1 barriers, 416 bytes cmem[0]
ptxas info    : Compiling entry function '_Z5firstv' for 'sm_90'
ptxas info    : Function properties for _Z5firstv
    40 bytes stack frame, 60 bytes spill stores, 56 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 40 bytes cumulative stack size, 16384 bytes smem
ptxas info    : Compile time = 12.000 ms
ptxas info    : Compiling entry function '_Z6secondv' for 'sm_90'
ptxas info    : Function properties for _Z6secondv
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 64 registers, used 1 barriers
"""
# A small library whose layout is that of the real one.
FILES = {
    "CMakeLists.txt": """
cmake_minimum_required(VERSION 3.22)
project(small CXX)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(ENDCAP_CUDA_ARCHITECTURES "90-real" CACHE STRING "")
add_library(endcap_cuda MODULE csrc/cuda_library/library.cc csrc/preprocess/rows.cc
            csrc/box_decode/tile.cc csrc/nms/plain.cc)
target_include_directories(endcap_cuda PRIVATE csrc)
set_target_properties(endcap_cuda PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
""",
    "csrc/common/cuda_tuning.h": """
#ifndef ENDCAP_TUNE_PREPROCESS_ROWS
#define ENDCAP_TUNE_PREPROCESS_ROWS 2
#endif
#ifndef ENDCAP_TUNE_BOX_DECODE_WARPS
#define ENDCAP_TUNE_BOX_DECODE_WARPS 8
#endif
static_assert(ENDCAP_TUNE_PREPROCESS_ROWS <= 16, "too many rows");
""",
    "csrc/cuda_library/library.cc": '#include "common/cuda_tuning.h"\n'
    'extern "C" int table() { return ENDCAP_TUNE_PREPROCESS_ROWS; }\n',
    "csrc/preprocess/rows.cc": '#include "common/cuda_tuning.h"\n'
    'extern "C" int rows() { return ENDCAP_TUNE_PREPROCESS_ROWS; }\n',
    "csrc/box_decode/tile.cc": '#include "common/cuda_tuning.h"\n'
    'extern "C" int warps() { return ENDCAP_TUNE_BOX_DECODE_WARPS; }\n',
    "csrc/nms/plain.cc": 'extern "C" int plain() { return 5; }\n',
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build tree in which the small library is up to date."""
    source = tmp_path_factory.mktemp("small library") / "source"
    tools = Path(sys.executable).parent
    for name, text in FILES.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(text)
    cmake = tools / "cmake"
    make = f"-DCMAKE_MAKE_PROGRAM={tools / 'ninja'}"
    subprocess.run([cmake, "-S", source, "-B", source / "tree", "-G", "Ninja", make], check=True)
    subprocess.run([cmake, "--build", source / "tree"], check=True)
    return source / "tree"


def values(library: Path) -> dict[str, int]:
    loaded = ctypes.CDLL(str(library))
    return {name: getattr(loaded, name)() for name in ("table", "rows", "warps", "plain")}


def test_a_constant_reaches_its_stage_and_the_table(tree: Path, tmp_path: Path) -> None:
    steps = Steps()
    variants = [
        Variant("rows-7", {"PREPROCESS_ROWS": 7}),
        Variant("warps-9", {"BOX_DECODE_WARPS": 9}),
        Variant("both", {"PREPROCESS_ROWS": 3, "BOX_DECODE_WARPS": 4}),
    ]
    out = tmp_path / "out"
    cuda_variants.build_variants(out, variants, VariantBuilder(tree, steps), steps)
    expected = {
        "default": {"table": 2, "rows": 2, "warps": 8, "plain": 5},
        "rows-7": {"table": 7, "rows": 7, "warps": 8, "plain": 5},
        "warps-9": {"table": 2, "rows": 2, "warps": 9, "plain": 5},
        "both": {"table": 3, "rows": 3, "warps": 4, "plain": 5},
    }
    assert {name: values(out / name / cuda_variants.LIBRARY) for name in expected} == expected
    made = {path.name for path in (tree / "variants" / "warps-9").iterdir()}
    assert made == {"cuda_library-library.cc.o", "box_decode-tile.cc.o"}
    record = json.loads((out / "variants.json").read_text())
    assert record["sm"] == "sm_90"
    assert record["variants"]["both"]["constants"] == variants[2].constants
    size = (out / "both" / cuda_variants.LIBRARY).stat().st_size
    assert record["variants"]["both"]["bytes"] == size
    # What an earlier run made goes, and nothing else.
    cuda_variants.build_variants(out, variants[:1], VariantBuilder(tree, steps), steps)
    assert {path.name for path in out.iterdir()} == {"default", "rows-7", "variants.json"}
    with pytest.raises(BuildError, match=r"no variants\.json"):
        cuda_variants.build_variants(tree, variants, VariantBuilder(tree, steps), steps)


def test_a_value_that_the_compiler_refuses_names_the_variant(tree: Path, tmp_path: Path) -> None:
    steps = Steps()
    variant = Variant("rows-17", {"PREPROCESS_ROWS": 17})
    with pytest.raises(BuildError, match=r"(?s)variant rows-17: .*too many rows"):
        cuda_variants.build_variants(
            tmp_path / "out", [variant], VariantBuilder(tree, steps), steps
        )


def test_a_tree_without_the_library_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="build the target endcap_cuda"):
        VariantBuilder(tmp_path, Steps())


def test_variants_are_read() -> None:
    text = "tile-16:BOX_DECODE_TILE_WARPS=16,ENDCAP_TUNE_BOX_DECODE_TILE_BLOCKS=2"
    constants = {"BOX_DECODE_TILE_WARPS": 16, "BOX_DECODE_TILE_BLOCKS": 2}
    assert parse_variant(text, KNOWN) == Variant("tile-16", constants)
    assert parse_variant(text, KNOWN).stages == {"box_decode"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rows:PREPROCESS_ROW=1", "PREPROCESS_ROW is none of PREPROCESS_MAX_THREADS"),
        ("rows", "is not NAME:CONSTANT=VALUE"),
        ("rows:PREPROCESS_MAX_BLOCK_ROWS=many", "is not NAME"),
        ("../up:PREPROCESS_MAX_BLOCK_ROWS=1", "is not NAME"),
        ("default:PREPROCESS_MAX_BLOCK_ROWS=1", "a name other than default"),
    ],
)
def test_other_variants_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_variant(text, KNOWN)


def test_the_default_variants_change_something() -> None:
    variants = [parse_variant(each, KNOWN) for each in cuda_variants.DEFAULT_VARIANTS]
    assert 8 <= len(variants) <= 12
    assert len({variant.name for variant in variants}) == len(variants)
    for variant in variants:
        changed = [name for name, value in variant.constants.items() if value != KNOWN[name]]
        assert changed == [*variant.constants], variant.name


def test_figures_of_ptxas_are_those_of_one_architecture() -> None:
    first = {"stack": 40, "spill_stores": 60, "spill_loads": 56, "registers": 40, "shared": 16384}
    second = {"stack": 0, "spill_stores": 0, "spill_loads": 0, "registers": 64, "shared": 0}
    assert parse_ptxas(PTXAS, 90) == {"_Z5firstv": first, "_Z6secondv": second}


def test_constants_are_used_in_the_folder_that_their_name_says() -> None:
    """That is what is compiled again when one changes."""
    header = (ROOT / cuda_variants.HEADER).read_text()
    named = dict(re.findall(r"constexpr \w+ (k\w+) = ENDCAP_TUNE_(\w+);", header))
    assert set(named.values()) == {*KNOWN}
    for path in (ROOT / "csrc").rglob("*"):
        if path.suffix not in (".cc", ".cu", ".cuh", ".h") or path == ROOT / cuda_variants.HEADER:
            continue
        text = path.read_text(encoding="utf-8")
        assert "ENDCAP_TUNE_" not in text, path
        for constant, name in named.items():
            if re.search(rf"\b{constant}\b", text):
                stages = Variant("one", {name: 0}).stages
                assert cuda_variants.find_stage(path) in stages, (path, constant)


def test_the_command_line_lists_the_constants() -> None:
    command = [sys.executable, cuda_variants.__file__, "--list"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"{name}={value}" for name, value in KNOWN.items()]
    command = [sys.executable, cuda_variants.__file__, "out", "a:PREPROCESS_MAX_THREADS=64"]
    done = subprocess.run([*command, command[-1]], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "two variants have the same name" in done.stderr
