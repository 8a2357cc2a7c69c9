"""docs/troubleshooting.md says what the doctor says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from endcap.tools.doctor.catalogue import TOPICS

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "troubleshooting.md"


def test_the_page_is_the_doctors() -> None:
    script = ROOT / "scripts" / "doctor_page.py"
    made = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert made.stdout == PAGE.read_text(encoding="utf-8"), (
        "run: python scripts/doctor_page.py > docs/troubleshooting.md"
    )


def test_every_check_and_every_problem_has_its_line() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for topic in TOPICS:
        assert f"\n`{topic.name}`. {topic.meaning}" in text
        for problem in topic.problems.values():
            assert f"| {problem.severity.value} | {problem.when} |" in text
    assert "{" not in text, "every field of a remedy is filled in"


def test_names_and_titles_tell_checks_apart() -> None:
    assert len({topic.name for topic in TOPICS}) == len(TOPICS)
    assert len({topic.title for topic in TOPICS}) == len(TOPICS)
