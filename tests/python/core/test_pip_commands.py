"""The commands in error messages: they install from the wheel, never by the name endcap."""

from __future__ import annotations

import importlib.metadata
import json
import re
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from doc_pages import ROOT
from endcap_wheel import write_wheel
from packaging.requirements import Requirement

from endcap._system.pip_commands import (
    install_command,
    install_elsewhere_command,
    reinstall_command,
)

EXTRAS = importlib.metadata.metadata("endcap").get_all("Provides-Extra") or []
METADATA = """\
Metadata-Version: 2.1
Name: endcap
Version: 7.8
Provides-Extra: init
Provides-Extra: client
Requires-Dist: numpy>=1.24
Requires-Dist: onnx>=1.15; extra == "init"
Requires-Dist: endcap[client]; extra == "init"
Requires-Dist: aiohttp>=3.9; sys_platform == "linux" and extra == "client"
"""

Record = Callable[[object], None]


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Record:
    """Makes an installed endcap 7.8 that came from where a direct_url.json says."""
    info = tmp_path / "site" / "endcap-7.8.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(METADATA)
    monkeypatch.syspath_prepend(str(info.parent))

    def write(described: object) -> None:
        text = described if isinstance(described, str) else json.dumps(described)
        (info / "direct_url.json").write_text(text)

    return write


def test_a_wheel_that_is_still_there(record: Record, tmp_path: Path) -> None:
    wheel = tmp_path / "of mine" / "endcap-7.8-cp311-cp311-manylinux_2_35_x86_64.whl"
    wheel.parent.mkdir()
    wheel.touch()
    record({"url": wheel.as_uri(), "archive_info": {}})
    assert install_command("init") == f"pip install '{wheel}[init]'"
    assert install_command("init", "--upgrade") == f"pip install --upgrade '{wheel}[init]'"
    assert install_command() == f"pip install '{wheel}'"
    assert install_elsewhere_command("server") == f"pip install '{wheel}[server]'"
    assert reinstall_command() == f"pip install --force-reinstall --no-deps '{wheel}'"


def test_a_wheel_at_an_address(record: Record) -> None:
    url = "https://files.example/endcap-7.8-cp311-cp311-manylinux_2_35_x86_64.whl"
    record({"url": url, "archive_info": {}})
    assert install_command("init") == f"pip install 'endcap[init] @ {url}'"
    assert install_command() == f"pip install 'endcap @ {url}'"
    assert reinstall_command() == f"pip install --force-reinstall --no-deps 'endcap @ {url}'"


@pytest.mark.parametrize(
    "described",
    [
        {},  # from an index
        {"url": "file:///gone/endcap-7.8-cp311-cp311-linux_x86_64.whl", "archive_info": {}},
        {"url": "file:///gone/tree", "dir_info": {}},
        {"url": "https://git.example/endcap.git", "vcs_info": {"vcs": "git", "commit_id": "1"}},
        "{",
        "[]",
        {"url": 7, "archive_info": {}},
    ],
)
def test_without_a_wheel_the_packages_are_named(record: Record, described: object) -> None:
    record(described)
    assert install_command("client") == "pip install 'aiohttp>=3.9'"
    assert install_command("init") == "pip install 'aiohttp>=3.9' 'onnx>=1.15'"
    assert install_command() == "pip install 'numpy>=1.24'"
    assert install_elsewhere_command("init") == 'pip install "$(ls endcap-7.8-*.whl)[init]"'
    assert reinstall_command() == "pip install --force-reinstall --no-deps endcap-7.8-*.whl"


def test_an_editable_installation(record: Record, tmp_path: Path) -> None:
    record({"url": tmp_path.as_uri(), "dir_info": {"editable": True}})
    assert install_command("client") == "pip install 'aiohttp>=3.9'"
    assert install_elsewhere_command("init") == f"pip install '{tmp_path}[init]'"
    assert reinstall_command() == f"make -C {tmp_path} build"


def test_the_record_that_pip_writes(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path)
    target = tmp_path / "installed"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", target, wheel], check=True)
    # Behind the installed one lie the packages of this Python, without its own endcap.
    code = f"import sys; sys.path.append({sysconfig.get_path('purelib')!r}); " + (
        "from endcap._system.pip_commands import install_command; print(install_command('init'))"
    )
    command = [sys.executable, "-S", "-c", code]
    done = subprocess.run(command, cwd=target, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == f"pip install '{wheel}[init]'", done.stderr


def required(extra: str) -> Iterator[str]:
    """The requirements of an extra of this endcap, by the package `packaging`."""
    for line in importlib.metadata.requires("endcap") or ():
        each = Requirement(line)
        marker, each.marker = each.marker, None
        always = marker is None or marker.evaluate({"extra": ""})
        if (always and not extra) or (not always and marker.evaluate({"extra": extra})):
            if each.name != "endcap":
                yield str(each)
            for part in each.extras if each.name == "endcap" else ():
                yield from required(part)


@pytest.mark.parametrize("extra", ["", *EXTRAS])
def test_the_packages_are_those_that_pip_would_install(extra: str) -> None:
    words = shlex.split(install_command(extra))
    assert words[:2] == ["pip", "install"]
    assert sorted(str(Requirement(word)) for word in words[2:]) == sorted(set(required(extra)))


def test_no_message_asks_an_index_for_endcap() -> None:
    command = re.compile(r"pip install (?:(?!`|\n).)*?['\s]endcap(?=['\[\s`])")
    files = [*(ROOT / "pyext").rglob("*.py"), *(ROOT / "pyext").rglob("*.j2")]
    assert len(files) > 200
    assert [
        f"{path}: {found[0]}" for path in files if (found := command.search(path.read_text()))
    ] == []
