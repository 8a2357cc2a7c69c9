"""pytest plug-in that records each test as it starts and ends.

``--record FILE`` appends a line of JSON per event, so that the record of a process that crashed is
complete: the test that started and did not end is the one that crashed. ``--at-most N`` runs the
first N tests of those selected.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the runner reads records where only the kit has pytest
    import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add both options."""
    parser.addoption("--record", type=Path, required=True)
    parser.addoption("--at-most", type=int)


def pytest_configure(config: pytest.Config) -> None:
    """Start to record."""
    file = config.getoption("--record").absolute()  # a test may change the working directory
    config.pluginmanager.register(_Recorder(file, config.getoption("--at-most")))


class _Recorder:
    def __init__(self, file: Path, at_most: int | None) -> None:
        self._file = file
        self._at_most = at_most

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Record a file that could not be imported, or skips itself as a whole."""
        if not report.passed:
            self._append(report.nodeid, report)

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        if self._at_most is not None and len(items) > self._at_most:
            config.hook.pytest_deselected(items=items[self._at_most :])
            del items[self._at_most :]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._write({"test": nodeid, "event": "started"})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record the outcome of a test, or of its set-up or clean-up where these decide."""
        if report.when == "call" or not report.passed:
            self._append(report.nodeid, report)

    def _append(self, nodeid: str, report: pytest.CollectReport | pytest.TestReport) -> None:
        event: dict[str, str] = {"test": nodeid, "event": report.outcome}
        if report.skipped and isinstance(report.longrepr, tuple):
            event["reason"] = str(report.longrepr[2]).removeprefix("Skipped: ")
        self._write(event)

    def _write(self, event: dict[str, str]) -> None:
        with self._file.open("a") as file:
            file.write(json.dumps(event) + "\n")


@dataclass
class TestRecord:
    """Tests of one process by outcome; `failed` has those that crashed or hung, too."""

    __test__ = False

    passed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)


def read_record(file: Path) -> TestRecord:
    """Read what a process recorded; its last line may be cut short."""
    record = TestRecord()
    outcomes: dict[str, str] = {}
    for line in file.read_text().splitlines() if file.is_file() else []:
        try:
            event = json.loads(line)
        except ValueError:
            break
        test = event["test"]
        if outcomes.get(test) != "failed":  # a clean-up that passes does not change that
            outcomes[test] = event["event"]
        if event["event"] == "skipped":
            record.skipped[test] = event.get("reason", "")
    record.passed = [test for test, outcome in outcomes.items() if outcome == "passed"]
    record.failed = [test for test, outcome in outcomes.items() if outcome in ("failed", "started")]
    return record
