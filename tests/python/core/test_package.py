"""The package as users meet it: its names, its types, what it imports and what it links."""

from __future__ import annotations

import importlib.metadata
import inspect
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import endcap
from endcap import _core

PUBLIC = [
    "Candidates",
    "Classification",
    "CorruptImageError",
    "CudaError",
    "Detections",
    "EndcapError",
    "ImageLimitError",
    "InvalidArgumentError",
    "Postprocessor",
    "PreprocessResult",
    "Preprocessor",
    "Status",
    "UnsupportedError",
    "batched_nms",
    "box_decode",
    "decode",
    "force_implementation",
    "implementations",
    "nms",
    "nms_rotated",
    "preprocess",
    "rotated_iou",
]
PACKAGE = Path(endcap.__file__).parent


def test_promised_names_are_exported() -> None:
    assert set(PUBLIC) <= set(endcap.__all__)
    for name in endcap.__all__:
        assert hasattr(endcap, name)


def test_all_that_is_exported_is_documented() -> None:
    for name in PUBLIC:
        assert inspect.getdoc(getattr(endcap, name)), name


def test_version_is_the_distribution_s() -> None:
    assert endcap.__version__ == importlib.metadata.version("endcap")


def test_the_package_is_typed() -> None:
    assert (PACKAGE / "py.typed").is_file()
    assert list(PACKAGE.glob("_*.pyi")), "the extension module has no stub"


def test_options_are_keyword_only() -> None:
    for function, positional in [
        (endcap.decode, 1),
        (endcap.preprocess, 2),
        (endcap.box_decode, 1),
    ]:
        kinds = [p.kind for p in inspect.signature(function).parameters.values()]
        allowed = [k for k in kinds if k is inspect.Parameter.POSITIONAL_OR_KEYWORD]
        assert len(allowed) == positional, function


def test_import_is_light() -> None:
    program = (
        "import sys; before = set(sys.modules); import endcap;"
        "print(*sorted({m.split('.')[0] for m in set(sys.modules) - before}))"
    )
    child = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True
    )
    heavy = {"cv2", "torch", "tritonclient", "onnxruntime", "PIL", "typer", "rich", "grpc"}
    assert not heavy & set(child.stdout.split())


EXTENSION = Path(_core.__file__)


@pytest.mark.skipif(shutil.which("nm") is None, reason="nm is not installed")
def test_the_extension_exports_neither_its_own_code_nor_the_jpeg_library() -> None:
    symbols = subprocess.run(
        ["nm", "-D", "--defined-only", str(EXTENSION)], capture_output=True, check=True, text=True
    ).stdout
    names = [line.split()[-1] for line in symbols.splitlines()]
    assert "PyInit__core" in names
    assert [n for n in names if n.startswith(("jpeg_", "_ZN6endcap", "_ZNK6endcap"))] == []


def test_without_numpy_the_import_fails_and_nothing_aborts() -> None:
    code = "import sys; sys.modules['numpy'] = None; import endcap"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert finished.returncode == 1
    assert "ModuleNotFoundError: import of numpy halted" in finished.stderr
