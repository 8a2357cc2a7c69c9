"""Which library of ONNX Runtime the server's backend `endcap_onnx` gets."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import onnxruntime
import pytest
from echo_model import write_echo_model, write_model

from endcap.server import ServerPorts, ServerSettings, locate_server
from endcap.server.backends import ONNXRUNTIME_VARIABLE, find_onnxruntime
from endcap.server.plan import plan_launch

FREE = ServerPorts(http=0, grpc=0, metrics=0)
OPTION = "--backend-config=endcap_onnx,onnxruntime_library="
NETWORK = 'backend: "endcap_onnx"'


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ONNXRUNTIME_VARIABLE, raising=False)


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir(mode=0o700)
    return folder


def options(repository: Path, scratch: Path) -> list[str]:
    command = plan_launch(repository, ServerSettings(ports=FREE), scratch).command
    return [word.removeprefix(OPTION) for word in command if word.startswith(OPTION)]


def write_libraries(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).touch()
    return folder


def test_the_installed_package_has_it(tmp_path: Path, scratch: Path) -> None:
    write_model(tmp_path / "models", "network", NETWORK)
    (library,) = options(tmp_path / "models", scratch)
    assert Path(library).parent == Path(onnxruntime.__file__).parent / "capi"
    assert Path(library).is_file()


def test_other_repositories_need_none(tmp_path: Path, scratch: Path) -> None:
    assert options(write_echo_model(tmp_path / "models"), scratch) == []


def test_the_variable_is_left_to_the_backend(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_model(tmp_path / "models", "network", NETWORK)
    monkeypatch.setenv(ONNXRUNTIME_VARIABLE, "/somewhere/libonnxruntime.so")
    assert options(tmp_path / "models", scratch) == []


def test_the_newest_of_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    capi = write_libraries(
        tmp_path / "site" / "onnxruntime" / "capi",
        *("libonnxruntime.so.1.9.0", "libonnxruntime.so.1.32.0", "libonnxruntime.so.1.4"),
        *("libonnxruntime.so.1.99.0.bak", "libonnxruntime_providers_shared.so"),
    )
    (capi.parent / "__init__.py").write_text("raise ImportError('it must not be imported')\n")
    monkeypatch.delitem(sys.modules, "onnxruntime")
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert find_onnxruntime(locate_server()) == capi / "libonnxruntime.so.1.32.0"


def test_the_servers_own_backend_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installation = dataclasses.replace(locate_server(), backends_dir=tmp_path)
    monkeypatch.delitem(sys.modules, "onnxruntime")
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(sys, "meta_path", sys.meta_path[:2])  # built-in and frozen modules
    assert find_onnxruntime(installation) is None
    folder = write_libraries(tmp_path / "onnxruntime", "libonnxruntime.so")
    assert find_onnxruntime(installation) == folder / "libonnxruntime.so"
