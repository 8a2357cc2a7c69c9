"""Prometheus rules and the Grafana dashboard of `deploy/`."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
PROMETHEUS = ROOT / "deploy" / "prometheus"
DASHBOARD = ROOT / "deploy" / "grafana" / "dashboard.json"


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    for name in ("rules.yaml", "rules_test.yaml"):
        shutil.copy(PROMETHEUS / name, tmp_path)
    return tmp_path


def promtool(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs it there; scripts/system_packages.sh installs it."""
    return subprocess.run(
        ["promtool", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )


def test_promtool_accepts_the_rules(rules: Path) -> None:
    done = promtool(rules, "check", "rules", "--lint-fatal", "rules.yaml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_unit_tests_of_the_rules_pass(rules: Path) -> None:
    done = promtool(rules, "test", "rules", "rules_test.yaml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_and_every_record_has_a_unit_test(rules: Path) -> None:
    groups = yaml.safe_load((rules / "rules.yaml").read_text())["groups"]
    tests = (rules / "rules_test.yaml").read_text()
    all_rules = [rule for group in groups for rule in group["rules"]]
    for alert in (rule for rule in all_rules if "alert" in rule):
        assert re.search(rf"- alertname: {alert['alert']}\n\s+eval_time", tests), alert["alert"]
        assert alert["labels"]["severity"] in ("critical", "warning", "info")
        assert {"summary", "description"} <= set(alert["annotations"])
    for record in {rule["record"] for rule in all_rules if "record" in rule}:
        used_by_others = any(record in rule["expr"] for rule in all_rules)
        assert record in tests or used_by_others, record


def test_panels_name_the_chosen_source_and_say_what_they_show() -> None:
    board: dict[str, Any] = json.loads(DASHBOARD.read_text())
    names = [variable["name"] for variable in board["templating"]["list"]]
    assert names == ["datasource", "instance", "model"]
    panels = [panel for panel in board["panels"] if panel["type"] != "row"]
    assert len(panels) > 15
    for panel in panels:
        assert panel["datasource"]["uid"] == "${datasource}"
        assert panel["description"]
        for target in panel["targets"]:
            assert "$instance" in target["expr"]


def test_the_page_lists_every_series_and_every_alert() -> None:
    page = (ROOT / "docs" / "monitoring.md").read_text()
    groups = yaml.safe_load((PROMETHEUS / "rules.yaml").read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    series, alerts = page.split("## Alerts")
    listed = {name for row in re.findall(r"^\| (`.*?) \|", series, re.M) for name in _names(row)}
    assert listed == {rule["record"] for rule in rules if "record" in rule}
    rows = re.findall(r"^\| (`.*) \| .* \| (\w+) \|$", alerts, re.M)
    assert {name: severity for row, severity in rows for name in _names(row)} == {
        rule["alert"]: rule["labels"]["severity"] for rule in rules if "alert" in rule
    }


def test_the_operators_rules_are_made_by_the_pages_command(tmp_path: Path) -> None:
    """The page pipes the same rules, indented, to kubectl."""
    page = (ROOT / "docs" / "monitoring.md").read_text()
    (block,) = [
        each for each in re.findall(r"```sh\n(.*?)```", page, re.S) if "PrometheusRule" in each
    ]
    assert "| kubectl apply -f -" in block
    made = subprocess.run(
        ["sh", "-c", block.replace("| kubectl apply -f -", "")],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    operator = yaml.safe_load(made.stdout)
    assert operator["kind"] == "PrometheusRule"
    assert operator["spec"] == yaml.safe_load((PROMETHEUS / "rules.yaml").read_text())


def _names(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)
