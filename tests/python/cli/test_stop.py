"""Signals that request the end of a command."""

from __future__ import annotations

import os
import signal

import pytest
import typer

from endcap.cli.console import StopRequested, check_stop, stop_deferred, stopped_by_signals


class StopsWhenRemoved:
    """Gets the signal in its finalizer, where Python drops what the handler raises."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)


@pytest.fixture
def dropped(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    dropped: list[object] = []
    monkeypatch.setattr("sys.unraisablehook", lambda about: dropped.append(about.exc_type))
    return dropped


def test_a_stop_that_was_dropped_is_not_lost(dropped: list[object]) -> None:
    def run() -> None:
        with stopped_by_signals(exit_code=7):
            removed = StopsWhenRemoved()
            del removed
            assert dropped == [StopRequested]
            check_stop()

    with pytest.raises(typer.Exit) as ended:
        run()
    assert ended.value.exit_code == 7
    check_stop()  # the next block begins anew


def test_a_deferred_stop_waits_for_the_end_of_the_block() -> None:
    reached = []

    def run() -> None:
        with stopped_by_signals(exit_code=7):
            with stop_deferred():
                os.kill(os.getpid(), signal.SIGTERM)
                check_stop()
                reached.append("the end of the block")
            reached.append("what follows")

    with pytest.raises(typer.Exit):
        run()
    assert reached == ["the end of the block"]


def test_one_request_that_comes_as_two_signals_is_one() -> None:
    """`timeout` sends one to a program and once more to its group; a second request ends it."""

    def run() -> None:
        with stopped_by_signals(exit_code=7):
            try:
                os.kill(os.getpid(), signal.SIGTERM)
                check_stop()
            finally:
                os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(typer.Exit):
        run()
