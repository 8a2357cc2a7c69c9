"""Layers of the C++ sources: which folder may include what of which other folder."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SUFFIXES = (".h", ".cc", ".cu", ".cuh")
# Folders that include paths are relative to; the one that holds the source is searched first.
INCLUDE_ROOTS = ("csrc", "csrc/include", "backends", "pyext")

PUBLIC = "csrc/include"
_STAGE = frozenset({PUBLIC, "csrc/common", "csrc/cuda_runtime"})
_BACKEND = frozenset({PUBLIC, "backends/triton_util"})
# What a folder may include besides itself. A folder that is not listed fails the test.
FOLDERS: dict[str, frozenset[str]] = {
    PUBLIC: frozenset(),
    "csrc/common": frozenset({PUBLIC}),
    "csrc/cuda_runtime": frozenset({PUBLIC, "csrc/common"}),
    "csrc/decode": _STAGE,
    "csrc/box_decode": _STAGE,
    "csrc/nms": _STAGE,
    "csrc/masks": _STAGE,
    "csrc/preprocess": _STAGE,
    "csrc/postprocess": _STAGE,
    "csrc/tracking": _STAGE,
    # Glue above the stages: the table of kernels of libendcap_cuda.so.
    "csrc/cuda_library": frozenset(
        _STAGE | {f"csrc/{stage}" for stage in ("decode", "nms", "preprocess", "postprocess")}
    ),
    "csrc/contract": frozenset({PUBLIC, "csrc/common"}),
    # Adapters: they convert, call, and convert back.
    "csrc/c_api": frozenset({PUBLIC, "csrc/common"}),
    "pyext/bindings": frozenset({PUBLIC}),
    "backends/triton_util": frozenset({PUBLIC}),
    "backends/bls": _BACKEND,
    "backends/onnx": _BACKEND,
    "backends/postprocess": _BACKEND,
    "backends/preprocess": _BACKEND,
    "backends/track": _BACKEND,
    "backends/dali": frozenset({PUBLIC}),
    "backends/python_stub": frozenset({PUBLIC}),
}
_TABLE = "the stage's entry of the table of kernels; the header includes no stage"
# Single headers that a folder may include besides, with the reason.
HEADERS: dict[tuple[str, str], str] = {
    ("csrc/nms", "csrc/cuda_library/kernel_table.h"): _TABLE,
    ("csrc/preprocess", "csrc/cuda_library/kernel_table.h"): _TABLE,
    ("csrc/postprocess", "csrc/cuda_library/kernel_table.h"): _TABLE,
    ("csrc/preprocess", "csrc/decode/bands.h"): "rows of the decoder",
    ("csrc/preprocess", "csrc/decode/file_formats.h"): "what the predicted cost counts",
    ("csrc/preprocess", "csrc/decode/planes.h"): "YCbCr planes for the CUDA preprocess",
    ("csrc/postprocess", "csrc/box_decode/families.h"): "the descriptor of a head family",
    ("csrc/postprocess", "csrc/box_decode/head_input.h"): "the check of a head's tensor",
    ("csrc/postprocess", "csrc/box_decode/cuda/head_batch.h"): "heads as kernels read them",
    ("csrc/postprocess", "csrc/box_decode/cuda/filters.h"): "filters, launched before its kernels",
    ("csrc/postprocess", "csrc/box_decode/cuda/candidate.cuh"): "candidates in its own kernels",
    ("csrc/postprocess", "csrc/box_decode/cuda/candidate_keys.cuh"): "their keys",
    ("csrc/postprocess", "csrc/nms/cuda/rotated_launch.h"): "the launch of rotated suppression",
    ("csrc/postprocess", "csrc/nms/cuda/suppression.cuh"): "suppression inside its own kernels",
    ("csrc/postprocess", "csrc/nms/iou.h"): "the overlap of boxes of tiles",
    ("csrc/postprocess", "csrc/masks/masks.h"): "mask arithmetic of its own kernels",
}
# Crossings that remain, with date and reason. An entry that is no longer needed fails the test.
EXCEPTIONS: dict[tuple[str, str], str] = {
    ("csrc/postprocess", "csrc/box_decode/score.h"): (
        "2026-11-24: until the search for faulty scores moves to box_decode/cuda"
    ),
}

_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


@dataclass(frozen=True)
class Include:
    """An include of another folder's header. All paths are relative to the root of the tree."""

    source: str
    folder: str
    header: str

    @property
    def is_allowed(self) -> bool:
        return find_folder(self.header) in FOLDERS.get(self.folder, ()) or (
            (self.folder, self.header) in HEADERS
        )


def find_folder(path: str) -> str:
    """Returns the folder of a source in the terms of FOLDERS: its first two components."""
    return "/".join(path.split("/")[:2])


def find_header(root: Path, source: Path, name: str) -> str | None:
    """Returns the file of the tree that an include names; None for other libraries' headers."""
    own = source.relative_to(root).parts[0]
    roots = sorted(INCLUDE_ROOTS, key=lambda folder: folder != own)
    for folder in (source.parent, *(root / folder for folder in roots)):
        if (folder / name).is_file():
            return (folder / name).resolve().relative_to(root).as_posix()
    return None


def read_includes(root: Path) -> list[Include]:
    """Returns every include of the tree's sources that crosses from one folder to another."""
    crossing = []
    for top in ("csrc", "backends", "pyext/bindings"):
        for source in sorted((root / top).rglob("*")):
            if source.suffix not in SUFFIXES:
                continue
            path = source.relative_to(root).as_posix()
            for name in _INCLUDE.findall(source.read_text(encoding="utf-8")):
                header = find_header(root, source, name)
                if header is not None and find_folder(header) != find_folder(path):
                    crossing.append(Include(path, find_folder(path), header))
    return crossing


def find_violations(root: Path) -> list[str]:
    """Returns a line for each include that neither the tables nor the exceptions allow."""
    return [
        f"{include.source} includes {include.header}, which {include.folder} may not"
        for include in read_includes(root)
        if not include.is_allowed and (include.folder, include.header) not in EXCEPTIONS
    ]


def test_the_sources_keep_to_their_layers() -> None:
    includes = read_includes(ROOT)
    assert len(includes) > 300  # the sources were found and parsed
    assert {include.folder for include in includes} >= {"csrc/postprocess", "backends/bls"}
    assert find_violations(ROOT) == []


def test_every_folder_of_the_core_has_a_layer() -> None:
    folders = {find_folder(path.relative_to(ROOT).as_posix()) for path in ROOT.glob("csrc/*/*")}
    assert folders - {*FOLDERS} == set()


def test_exceptions_are_still_needed() -> None:
    used = {(include.folder, include.header) for include in read_includes(ROOT)}
    assert {*EXCEPTIONS} - used == set()
