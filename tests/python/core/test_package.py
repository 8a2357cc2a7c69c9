"""The package as users meet it: its names, its types, what it imports and what it links."""

from __future__ import annotations

import importlib.metadata
import inspect
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import endcap
from endcap import _core

PACKAGE = Path(endcap.__file__).parent


def test_all_that_is_exported_is_documented() -> None:
    for name in endcap.__all__:
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


def test_without_numpy_the_import_fails_and_nothing_aborts() -> None:
    code = "import sys; sys.modules['numpy'] = None; import endcap"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert finished.returncode == 1
    assert "ModuleNotFoundError: import of numpy halted" in finished.stderr


def test_a_subinterpreter_gets_an_import_error() -> None:
    # In a separate process, because the import hung before.
    module = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
    program = (
        f"import {module} as interpreters\n"
        "other = interpreters.create()\n"
        "interpreters.run_string(other, 'try:\\n import endcap\\n'"
        " 'except ImportError as error:\\n print(error)')\n"
        "import endcap\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("endcap cannot be imported in a subinterpreter: ")


BOUND_CLASSES = [value for value in vars(_core).values() if isinstance(value, type)]


@pytest.mark.parametrize("bound", BOUND_CLASSES, ids=lambda bound: bound.__name__)
def test_an_uninitialised_instance_raises_type_error(bound: Any) -> None:
    names = [
        name
        for name, member in vars(bound).items()
        if (name == "__call__" or name[0] != "_") and not isinstance(member, staticmethod)
    ]
    assert len(names) > 5

    def use(name: str) -> None:
        method = getattr(bound.__new__(bound), name)
        arguments = re.findall(r"\w+: ", method.__doc__.partition(" -> ")[0])
        method(*[None] * (len(arguments) - 1))

    for name in names:
        with pytest.raises(TypeError, match="made by __new__ and not initialised"):
            use(name)


@pytest.mark.parametrize("bound", BOUND_CLASSES, ids=lambda bound: bound.__name__)
def test_instances_are_not_pickled(bound: Any) -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match=f"a {bound.__name__} cannot be pickled or copied"):
            pickle.dumps(bound.__new__(bound), protocol)
