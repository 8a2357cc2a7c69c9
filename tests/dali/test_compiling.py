"""Compilers run side by side, and what ends them."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from endcap.dali import compiler
from endcap.dali.installation import DaliError


class SignalError(Exception):
    pass


@pytest.fixture
def raising_signal() -> Iterator[int]:
    """A signal that raises SignalError where the main thread is, as Ctrl+C does in a command."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise SignalError

    previous = signal.signal(signal.SIGUSR1, interrupt)
    yield signal.SIGUSR1
    signal.signal(signal.SIGUSR1, previous)


def test_a_compiler_is_ended_though_the_signal_comes_while_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raising_signal: int
) -> None:
    started: list[subprocess.Popen[bytes]] = []

    class SignalledPopen(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            started.append(self)
            os.kill(os.getpid(), raising_signal)

    monkeypatch.setattr(compiler.subprocess, "Popen", SignalledPopen)
    command = (["sleep", "60"], tmp_path / "log")
    with pytest.raises(SignalError):
        compiler.run_all([command], jobs=1, kept_log=tmp_path / "kept")
    assert [process.returncode for process in started] == [-signal.SIGKILL]


def test_a_compiler_that_fails_in_another_encoding_is_named(tmp_path: Path) -> None:
    program = tmp_path / "latin"
    program.write_bytes(b"#!/bin/sh\nprintf 'error: \\351chec\\n' >&2\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(DaliError, match=r"latin cannot compile C\+\+20 \(error: .chec\)"):
        compiler.find_compiler(str(program))
