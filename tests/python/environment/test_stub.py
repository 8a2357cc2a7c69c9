"""endcap stub: what install puts into a model's folder, and what check says of it."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest
from cli_runs import assert_error_message, endcap
from echo_model import ECHO, TENSORS, write_model

from endcap.environment.stub import StubError, check, describe, find_front, install, is_front
from endcap.server import locate_server
from endcap.server.python_stub import PYTHON_VERSION, find_stub
from endcap.triton.errors import ServerError
from endcap.triton.model_config import read_model_config

CONFIG = 'backend: "python"' + TENSORS
ENVIRONMENT = 'parameters {{ key: "EXECUTION_ENV_PATH" value {{ string_value: "{path}" }} }}'


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "models", "echo", CONFIG, ECHO) / "echo"


@pytest.fixture
def real() -> Path:
    stubs = locate_server().stubs_dir
    if stubs is None:
        pytest.skip("the server here is not that of the wheel")
    return find_stub(stubs)


def use_environment(model: Path, path: object) -> None:
    (model / "config.pbtxt").write_text(CONFIG + ENVIRONMENT.format(path=path))


def write_archive(path: Path, **files: str) -> Path:
    """A packed environment; a double underscore in a name is a slash."""
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name.replace("__", "/"))
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return path


def test_install_places_front_stub_and_what_they_belong_to(model, real):
    placed = install(model, python_version=PYTHON_VERSION)
    assert placed.front.read_bytes() == find_front().read_bytes()
    assert placed.real.read_bytes() == real.read_bytes()
    assert os.access(placed.front, os.X_OK)
    assert os.access(placed.real, os.X_OK)
    assert placed.takes_numpy_2 is False
    settings = json.loads(placed.settings.read_text())
    assert settings["stub_build_id"] == describe(real).build_id
    assert settings["release"] == placed.release
    assert settings["release"].startswith("nvidia-pytriton ")
    assert len(settings["server_build_id"]) == 40
    names = {path.name for path in model.iterdir()}
    assert names == {"1", "config.pbtxt", *(p.name for p in (placed.front, placed.real))} | {
        "endcap-stub.json"
    }


def test_huge_and_special_files_are_not_read(model):
    """Reading a pipe would wait for a writer; a gigabyte would fill the memory."""
    front = model / "triton_python_backend_stub"
    front.write_bytes(find_front().read_bytes())
    os.truncate(front, 1 << 40)
    assert not is_front(front)
    config = model / "config.pbtxt"
    config.write_text("{" * 1_100_000)
    with pytest.raises(ServerError, match="has more than 1048576 bytes"):
        check(model)
    config.unlink()
    os.mkfifo(config)
    with pytest.raises(ServerError, match="not a regular file"):
        read_model_config(model)


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
    assert set(json.loads(placed.settings.read_text())) == {"stub", "stub_build_id"}


def test_install_refuses_a_stub_for_another_python(model, real):
    with pytest.raises(StubError, match=rf"stub for Python {PYTHON_VERSION}, not 3\.5; name one"):
        install(model, python_version="3.5", real=real)
    with pytest.raises(StubError, match=r"no stub for Python 3\.5, only for 3\.8, 3\.9, 3\.10"):
        install(model, python_version="3.5")
    with pytest.raises(StubError, match=r"config\.pbtxt is no stub"):
        install(model, python_version=PYTHON_VERSION, real=model / "config.pbtxt")
    assert {path.name for path in model.iterdir()} == {"1", "config.pbtxt"}


def test_install_wants_a_model(tmp_path):
    with pytest.raises(StubError, match="is no model's folder"):
        install(tmp_path, python_version=PYTHON_VERSION)


def test_commands(model, real):
    missing = endcap("stub", "check", model, columns=200)
    assert missing.exit_code == 1
    assert "carries no stub of endcap's" in missing.stdout
    placed = endcap("stub", "install", model)
    assert placed.exit_code == 0, placed.stderr
    assert f"for Python {PYTHON_VERSION}, from nvidia-pytriton" in placed.stdout
    checked = endcap("stub", "check", model)
    assert checked.exit_code == 0
    for name in ("python", "stub", "release", "libraries", "numpy", "endcap", "shared_memory"):
        assert f"   ok  {name} " in checked.stdout
    (model / "endcap-stub.json").write_text('{"stub_build_id": "00"}')
    changed = endcap("stub", "check", model)
    assert changed.exit_code == 1
    assert "error  release" in changed.stdout
    assert "is another file than the one that was installed; run" in changed.stdout


def test_a_command_fails_with_one_error_message(model):
    assert_error_message(endcap("stub", "install", model, "--python", "3.5"), "no stub for Python")
    nowhere = endcap("stub", "check", model, "--tritonserver", "/nowhere")
    assert_error_message(nowhere, "--tritonserver /nowhere is not a program")


def test_other_stubs_are_left_alone(model, real):
    stub = model / "triton_python_backend_stub"
    stub.write_bytes(real.read_bytes())
    report = check(model)
    assert report.checks[0].found == "another stub"
    assert report.problem is not None


def test_the_file_in_the_folder_is_not_run(model, tmp_path):
    front = install(model, python_version=PYTHON_VERSION).front
    front.chmod(0o644)  # as after a copy without modes
    assert check(model).problem is None
    ran = tmp_path / "ran"
    front.write_text(f"#!/bin/sh\n# ENDCAP_STUB_REFUSAL\ntouch {ran}\n")
    front.chmod(0o755)
    assert check(model).problem is None
    assert not ran.exists()


def test_no_library_of_the_environment_is_loaded_by_the_check(model, tmp_path, monkeypatch):
    """Nor one of the current folder: a loader that did would find no program in these."""
    install(model, python_version=PYTHON_VERSION)
    environment = tmp_path / "env"
    (environment / "bin").mkdir(parents=True)
    (environment / "bin" / "activate").touch()
    (environment / "lib").mkdir()
    (environment / "lib" / "libc.so.6").write_text("no library")
    use_environment(model, environment)
    assert "has no bin/python3" in str(check(model).problem)
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    monkeypatch.chdir(environment / "lib")
    assert "has no bin/python3" in str(check(model).problem)


def test_a_stub_of_the_users_own_is_not_replaced(model, real):
    for name in ("triton_python_backend_stub", "triton_python_backend_stub.real"):
        own = model / name
        own.write_bytes(real.read_bytes())
        with pytest.raises(StubError, match=f"{name} is there already, .* move it away"):
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


@pytest.mark.parametrize("kept", [0.3, 0.7, 0.98])
def test_a_broken_archive(model, tmp_path, kept):
    install(model, python_version=PYTHON_VERSION)
    files = {f"file_{i}": str(os.urandom(2000)) for i in range(20)}
    archive = write_archive(tmp_path / "environment.tar.gz", bin__activate="", **files)
    archive.write_bytes(archive.read_bytes()[: int(archive.stat().st_size * kept)])
    use_environment(model, archive)
    problem = check(model).problem
    assert problem is not None
    assert "environment.tar.gz is broken off after" in problem


def test_an_archive_whose_content_is_damaged(model, tmp_path):
    install(model, python_version=PYTHON_VERSION)
    archive = write_archive(tmp_path / "environment.tar.gz", bin__activate="", file="x" * 5000)
    content = bytearray(archive.read_bytes())
    content[-8] ^= 1  # of the checksum
    archive.write_bytes(content)
    use_environment(model, archive)
    assert "CRC check failed" in str(check(model).problem)


@pytest.mark.parametrize(
    ("compress", "message"),
    [(gzip.compress, "is no gzip-compressed tar"), (bytes, "is not a tar.gz")],
)
def test_what_is_no_archive(model, tmp_path, compress, message):
    install(model, python_version=PYTHON_VERSION)
    archive = tmp_path / "environment.tar.gz"
    archive.write_bytes(compress(b"no archive at all" * 100))
    use_environment(model, archive)
    assert message in str(check(model).problem)


def test_environments_that_are_not_there(model):
    install(model, python_version=PYTHON_VERSION)
    use_environment(model, "$$TRITON_MODEL_DIRECTORY/environment.tar.gz")
    assert f"{model}/environment.tar.gz does not exist" in str(check(model).problem)
    write_archive(model / "environment.tar.gz", bin__python3="")
    assert "has no bin/activate" in str(check(model).problem)
    write_archive(model / "environment.tar.gz", bin__activate="")
    assert "has no bin/python3" in str(check(model).problem)


def test_a_config_that_does_not_close(model):
    install(model, python_version=PYTHON_VERSION)
    (model / "config.pbtxt").write_text(CONFIG + "parameters {")
    assert "brackets of the config.pbtxt do not close" in str(check(model).problem)


def test_a_front_that_does_not_respond(model, real, monkeypatch):
    monkeypatch.setattr("endcap.environment.stub._TIMEOUT_S", 0.0)
    with pytest.raises(StubError, match="does not respond within 0 s; check"):
        describe(real)


def test_a_signal_ends_check_and_nothing_is_left(model, real, tmp_path):
    install(model, python_version=PYTHON_VERSION)
    archive = model / "environment.tar.gz"
    # Compressed to little and long to read; its first file is what check unpacks.
    with tarfile.open(archive, "w:gz", compresslevel=1) as content:
        for name, size in (("bin/activate", 0), ("large", 2**30)):
            member = tarfile.TarInfo(name)
            member.size = size
            with open("/dev/zero", "rb") as zeros:
                content.addfile(member, zeros)
    use_environment(model, archive)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    command = [sys.executable, "-m", "endcap", "stub", "check", str(model)]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as process:
        while not list(temporary.rglob("activate")):
            assert process.poll() is None, "it has ended before the signal"
            time.sleep(0.01)
        process.terminate()
        _, message = process.communicate(timeout=30)
    assert process.returncode == 130, message
    assert list(temporary.iterdir()) == []
