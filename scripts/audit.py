"""Known vulnerabilities of the packages that are installed in environments, by pip-audit.

    python scripts/audit.py ENVIRONMENT ... [--require]

Prints a line for each vulnerability that scripts/accepted_vulnerabilities.json does not accept, and
exits with 1 where there is one. Where the vulnerability service of the package index cannot be
reached nothing is known: that is said, and fails with --require or ENDCAP_REQUIRE_AUDIT=1 only.
Runs in an environment with pip-audit.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

ACCEPTED = Path(__file__).resolve().parent / "accepted_vulnerabilities.json"


class AuditError(Exception):
    """The audit cannot be done; the message says why."""


@dataclass
class Findings:
    """What is known of some packages.

    Attributes:
        audited: Number of packages that the service knows.
        skipped: Names of those that it does not know.
        vulnerabilities: Package, version, identifier and fixed versions of each one found.
    """

    audited: int = 0
    skipped: list[str] = field(default_factory=list)
    vulnerabilities: list[tuple[str, str, str, str]] = field(default_factory=list)


def read_accepted(file: Path) -> dict[tuple[str, str], str]:
    """Return the reasons of the accepted vulnerabilities by package and identifier.

    Raises:
        AuditError: An entry lacks the package, the identifier or the reason.
    """
    accepted = {}
    for entry in json.loads(file.read_text(encoding="utf-8")):
        if not all(entry.get(key) for key in ("package", "id", "reason")):
            raise AuditError(f"{file.name}: {entry} needs package, id and reason")
        accepted[entry["package"], entry["id"]] = entry["reason"]
    return accepted


def read_findings(report: str) -> Findings:
    """Return what a report of pip-audit in JSON holds."""
    findings = Findings()
    for package in json.loads(report)["dependencies"]:
        if "skip_reason" in package:
            findings.skipped.append(package["name"])
            continue
        findings.audited += 1
        for found in package["vulns"]:
            fixed = ", ".join(found["fix_versions"]) or "no release"
            row = (package["name"], package["version"], found["id"], fixed)
            findings.vulnerabilities.append(row)
    return findings


def judge(findings: Findings, accepted: Iterable[tuple[str, str]]) -> list[str]:
    """Return a line for each vulnerability that is not accepted."""
    known = set(accepted)
    return [
        f"{package} {version}: {identifier}, fixed in {fixed}"
        for package, version, identifier, fixed in findings.vulnerabilities
        if (package, identifier) not in known
    ]


def audit(environment: Path) -> Findings:
    """Return what is known of the packages of an environment.

    Raises:
        AuditError: It is none, or the service cannot be reached.
    """
    folders = sorted(environment.glob("lib/python3.*/site-packages"))
    if not folders:
        raise AuditError(f"{environment} is no virtual environment; name one, such as .venv")
    command = [sys.executable, "-m", "pip_audit", "--progress-spinner", "off", "--format", "json"]
    command += [word for folder in folders for word in ("--path", str(folder))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    # It exits with 1 where it has found vulnerabilities, and where it has failed.
    if not done.stdout.startswith("{"):
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise AuditError(f"pip-audit failed: {last}")
    findings = read_findings(done.stdout)
    if findings.audited == 0:
        raise AuditError("the package index gave no information on any package")
    return findings


def main() -> int:
    """Audit the environments of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("environment", type=Path, nargs="+")
    parser.add_argument("--require", action="store_true", help="fail where nothing is known")
    options = parser.parse_args()
    required = options.require or os.environ.get("ENDCAP_REQUIRE_AUDIT") == "1"
    accepted = read_accepted(ACCEPTED)
    failed = False
    for environment in options.environment:
        try:
            findings = audit(environment)
        except AuditError as error:
            print(f"audit of {environment}: NOT DONE, {error}", file=sys.stderr)
            failed |= required
            continue
        problems = judge(findings, accepted)
        for problem in problems:
            print(f"audit of {environment}: {problem}", file=sys.stderr)
        failed |= bool(problems)
        print(
            f"audit of {environment}: {findings.audited} packages, {len(problems)} vulnerabilities "
            f"not accepted; not known: {', '.join(findings.skipped) or 'none'}"
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
