"""Environments that tests pack: a channel of what is installed here, a wheel, a Python model."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import Result

from tests.support.cli_runs import endcap
from tests.support.conda_channel import VERSION, installed_package, python_package, write_channel
from tests.support.endcap_wheel import write_wheel

CONFIG = '# Returns what is requested.\nbackend: "python"\nmax_batch_size: 0  # none\n'


@dataclass(frozen=True)
class Workshop:
    """What there is to pack environments from, offline; `temporary` is where scratch files lie."""

    channel: Path
    wheel: Path
    temporary: Path

    def arguments(self, *options: object, channel: Path | str | None = None) -> list[str]:
        """The arguments of an `endcap env pack` that is quick rather than small."""
        given = ["env", "pack", "--python", VERSION, "--endcap", self.wheel]
        given += ["--channel", channel or self.channel, "--compress-level", 1, *options]
        return [str(each) for each in given]

    def pack(self, *options: object, channel: Path | str | None = None) -> Result:
        return endcap(*self.arguments(*options, channel=channel), columns=200)


@contextlib.contextmanager
def workshop(folder: Path) -> Iterator[Workshop]:
    """Make channel and wheel in a folder, where py-rattler's cache and scratch files lie, too."""
    temporary = folder / "tmp"
    temporary.mkdir()
    scratch = folder / "stripped"
    scratch.mkdir()
    packages = [python_package(scratch), installed_package("numpy")]
    # In the channel's lists only: it is never installed.
    packages.append({"name": "numpy", "version": "2.1.0", "depends": ["python"]})
    channel = write_channel(folder / "channel", packages)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("RATTLER_CACHE_DIR", str(folder / "cache"))
        patch.setenv("TMPDIR", str(temporary))
        patch.setattr("tempfile.tempdir", None)  # TMPDIR is read anew
        yield Workshop(channel, write_wheel(scratch), temporary)


def write_python_model(folder: Path) -> Path:
    """A Python-backend model, as far as its folder goes."""
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text(CONFIG)
    (folder / "1" / "model.py").write_text("import endcap\n")
    return folder


def clean_environment() -> dict[str, str]:
    """What a process gets that must find nothing of this Python."""
    return {"PATH": "/usr/bin:/bin", "HOME": os.devnull}
