"""What can be seen to fail before anything is downloaded, and the texts of tools in messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from endcap._python_process import in_one_line
from endcap.environment import ExecutionEnvironmentError
from endcap.environment.checking import CheckedEnvironment, NumpyLimit, find_numpy_limit
from endcap.environment.conda import resolve_channels
from endcap.environment.packing import PackOptions
from endcap.errors import InvalidArgumentError
from endcap.server import locate_server

BELOW_2 = NumpyLimit("<2", "the stub is old")


def test_a_wheel_that_does_not_exist() -> None:
    with pytest.raises(InvalidArgumentError, match="does not exist; give a wheel"):
        PackOptions(python="3.11", endcap="missing/endcap-0.1.0-cp311-cp311-linux_x86_64.whl")


@pytest.mark.parametrize("python", ["3", "3.11.7", "2.7", "three"])
def test_python_must_be_a_minor_version(python: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"such as 3\.11"):
        PackOptions(python=python, endcap="0.1.0")


@pytest.mark.parametrize("text", ["--index-url=https://example.org", "-rlist.txt", " --pre"])
def test_an_option_of_pip_is_not_a_requirement(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"--pip is .* such as PIP_INDEX_URL"):
        PackOptions(python="3.11", endcap="0.1.0", pip_packages=(text,))


def test_channels_by_name_address_and_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "my channel"
    (folder / "noarch").mkdir(parents=True)
    (folder / "noarch" / "repodata.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    given = ["conda-forge", "https://example.org/c", "./my channel", folder.as_uri(), str(folder)]
    resolved = resolve_channels(given)
    assert resolved == ["conda-forge", "https://example.org/c", *[str(folder)] * 3]


def test_channel_must_be_a_folder() -> None:
    with pytest.raises(InvalidArgumentError, match="is not a folder; give one"):
        resolve_channels(["./nothing"])


def test_the_stubs_of_the_server_need_numpy_1() -> None:
    limit = find_numpy_limit("3.11")
    assert limit.specifier == "<2"
    stubs = locate_server().stubs_dir
    assert stubs is not None
    assert str(stubs / "3.11") in limit.reason


def test_without_a_server_numpy_2_is_ruled_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("endcap.server.locate.WHEEL_PACKAGE", "no_such_package")
    limit = find_numpy_limit("3.11")
    assert limit.specifier == "<2"
    assert "no server was found" in limit.reason


def test_numpy_is_held_against_the_stub() -> None:
    checked = CheckedEnvironment(python="3.11", numpy="2.1.0", packages={}, size_bytes=0)
    with pytest.raises(ExecutionEnvironmentError, match=r"NumPy 2\.1\.0, .* numpy<2: the stub is"):
        BELOW_2.check(checked, Path("environment.tar.gz"))
    NumpyLimit("", "any").check(checked, Path("environment.tar.gz"))


def test_the_text_of_a_tool_becomes_part_of_an_error_message() -> None:
    text = "cannot link python\nCaused by: no space left.\n\nCaused by: no space left\n"
    assert in_one_line(text) == "cannot link python, no space left"
