"""endcap stub install."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from endcap.environment import StubError
from endcap.environment.stub import find_front, install, is_front
from endcap.server import locate_server
from endcap.server.python_stub import PYTHON_VERSION, find_stub
from tests.support.cli_runs import assert_error_message, endcap
from tests.support.echo_model import ECHO, TENSORS, write_model

CONFIG = 'backend: "python"' + TENSORS


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "models", "echo", CONFIG, ECHO) / "echo"


@pytest.fixture
def real() -> Path:
    stubs = locate_server().stubs_dir
    if stubs is None:
        pytest.skip("the server here is not that of the wheel")
    return find_stub(stubs)


def test_install_places_front_stub_and_what_they_belong_to(model, real):
    placed = install(model, python_version=PYTHON_VERSION)
    assert placed.front.read_bytes() == find_front().read_bytes()
    assert placed.real.read_bytes() == real.read_bytes()
    assert os.access(placed.front, os.X_OK)
    assert os.access(placed.real, os.X_OK)
    assert placed.description.takes_numpy_2 is False
    settings = json.loads(placed.settings.read_text())
    assert settings["release"] == placed.release
    assert settings["release"].startswith("nvidia-pytriton ")
    assert settings["server_bytes"] > 0
    names = {path.name for path in model.iterdir()}
    assert names == {"1", "config.pbtxt", *(p.name for p in (placed.front, placed.real))} | {
        "endcap-stub.json"
    }


def test_install_replaces_what_runs(model, real):
    front = model / "triton_python_backend_stub"
    front.write_bytes(Path("/bin/sleep").read_bytes() + b"ENDCAP_STUB_REFUSAL")
    front.chmod(0o755)
    with subprocess.Popen([front, "60"]) as process:
        placed = install(model, python_version=PYTHON_VERSION)
        process.kill()
    assert is_front(placed.front)


def test_install_of_a_stub_that_is_given(model, real):
    placed = install(model, python_version=PYTHON_VERSION, real=real)
    assert placed.release is None
    assert json.loads(placed.settings.read_text()) == {}


def test_install_refuses_a_stub_for_another_python(model, real):
    with pytest.raises(StubError, match=rf"stub for Python {PYTHON_VERSION}, not 3\.5; name one"):
        install(model, python_version="3.5", real=real)
    with pytest.raises(StubError, match=r"no stub for Python 3\.5, only for 3\.8, 3\.9, 3\.10"):
        install(model, python_version="3.5")
    with pytest.raises(StubError, match=r"config\.pbtxt is not a stub"):
        install(model, python_version=PYTHON_VERSION, real=model / "config.pbtxt")
    assert {path.name for path in model.iterdir()} == {"1", "config.pbtxt"}


def test_install_wants_a_model(tmp_path):
    with pytest.raises(StubError, match="is not a model's folder"):
        install(tmp_path, python_version=PYTHON_VERSION)


def test_a_stub_of_the_users_own_is_not_replaced(model, real):
    for name in ("triton_python_backend_stub", "triton_python_backend_stub.real"):
        own = model / name
        own.write_bytes(real.read_bytes())
        with pytest.raises(StubError, match=f"{name} exists and was not created by"):
            install(model, python_version=PYTHON_VERSION)
        assert own.read_bytes() == real.read_bytes()
        assert sorted(path.name for path in model.glob("*stub*")) == [name]
        own.unlink()
    for _ in range(2):  # its own it replaces
        install(model, python_version=PYTHON_VERSION)


@pytest.mark.parametrize("is_link", [True, False])
def test_a_start_makes_no_target_of_a_link_executable(model, tmp_path, is_link):
    real = model / "triton_python_backend_stub.real"
    file = tmp_path / "other" if is_link else real
    file.write_text("no stub")
    file.chmod(0o600)
    if is_link:
        real.symlink_to(file)
    server = ("region", "1048576", "65536", "1", str(tmp_path / "no server"), "0", "echo_0")
    started = subprocess.run(
        [find_front(), model / "1" / "model.py", *server, "DEFAULT"],
        capture_output=True,
        check=False,
    )
    assert started.returncode == 1
    assert file.stat().st_mode & 0o777 == (0o600 if is_link else 0o700)


def test_the_command(model, real):
    placed = endcap("stub", "install", model)
    assert placed.exit_code == 0, placed.stderr
    assert f"for Python {PYTHON_VERSION}, from nvidia-pytriton" in placed.stdout
    refused = endcap("stub", "install", model, "--python", "3.5")
    assert_error_message(refused, "no stub for Python")
