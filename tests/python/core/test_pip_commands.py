"""The pip commands in error messages: none installs from an index by the name endcap."""

from __future__ import annotations

import importlib.metadata
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from endcap import _pip_commands
from endcap._pip_commands import install_command, reinstall_command
from tests.support.doc_pages import ROOT

EXTRAS = importlib.metadata.metadata("endcap").get_all("Provides-Extra") or []


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


def test_options_come_before_the_packages() -> None:
    assert install_command("client", "--upgrade").startswith("pip install --upgrade ")


def test_endcap_is_installed_again_from_a_wheel_or_a_source_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = f"endcap-{importlib.metadata.version('endcap')}-*.whl"
    monkeypatch.setattr(_pip_commands, "__file__", str(tmp_path / "a" / "b" / "c.py"))
    assert reinstall_command() == f"pip install --force-reinstall --no-deps {wheel}"
    (tmp_path / "Makefile").touch()
    assert reinstall_command() == f"make -C {tmp_path} build"


def test_no_message_asks_an_index_for_endcap() -> None:
    command = re.compile(r"pip install (?:(?!`|\n).)*?['\s]endcap(?=['\[\s`])")
    files = [*(ROOT / "pyext").rglob("*.py"), *(ROOT / "pyext").rglob("*.j2")]
    assert len(files) > 150
    assert [
        f"{path}: {found[0]}" for path in files if (found := command.search(path.read_text()))
    ] == []
