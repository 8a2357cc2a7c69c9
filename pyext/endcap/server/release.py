"""Release of a Triton server and its age, from the files next to its program."""

from __future__ import annotations

import importlib.metadata
import re
from dataclasses import dataclass
from datetime import date

from endcap.server.locate import ServerInstallation

BULLETINS = "https://www.nvidia.com/en-us/security/"

_WHEEL = "nvidia-pytriton"
# CHANGELOG.md of triton-inference-server/pytriton
_WHEEL_VERSIONS = dict.fromkeys(("0.5.13", "0.5.14", "0.6.0", "0.7.0"), "2.51.0")
_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?(?:[a-z+-].*)?")
_MAX_AGE_MONTHS = 12


@dataclass(frozen=True, kw_only=True)
class ServerRelease:
    """Release of an installed server.

    Attributes:
        name: Such as "tritonserver 2.51.0, release 24.10 (October 2024)".
        version: Major, minor and patch version; None where the installation does not have it.
    """

    name: str
    version: tuple[int, int, int] | None

    def __str__(self) -> str:
        """Return the name."""
        return self.name

    @property
    def month(self) -> date | None:
        """The first day of the month of the release, None where it is unknown."""
        return _release_month(self.version) if self.version else None

    def find_age_problem(self, today: date | None = None) -> str | None:
        """Return "more than a year old" or "of unknown age", None for a newer release."""
        today, month = today or date.today(), self.month
        if month is None:
            return "of unknown age"
        months = 12 * (today.year - month.year) + today.month - month.month
        return "more than a year old" if months > _MAX_AGE_MONTHS else None


def read_release(server: ServerInstallation) -> ServerRelease:
    """Return a server's release, from the files next to the program, which is not run."""
    root = server.executable.parent.parent
    # NVIDIA's container writes its version into the installation's folder.
    written = root / "TRITON_VERSION"
    if written.is_file():
        return _describe(written.read_text(encoding="utf-8", errors="replace").strip())
    for wheel in importlib.metadata.distributions(name=_WHEEL, path=[str(root.parent.parent)]):
        version = _WHEEL_VERSIONS.get(wheel.version, "")
        return _describe(version, prefix=f"{_WHEEL} {wheel.version} with ")
    return _describe("")


def _describe(text: str, *, prefix: str = "") -> ServerRelease:
    match = _VERSION.fullmatch(text)
    if match is None:
        name = f"{prefix}tritonserver{text and f' {text},'} of unknown release"
        return ServerRelease(name=name, version=None)
    version = (int(match[1]), int(match[2]), int(match[3] or 0))
    month = _release_month(version)
    released = f", release {month:%y.%m} ({month:%B %Y})" if month else ""
    return ServerRelease(name=f"{prefix}tritonserver {text}{released}", version=version)


def _release_month(version: tuple[int, int, int]) -> date | None:
    """Return the month of a release of Triton 2: one a month, since 2.0.0 in June 2020.

    There was none in January 2021, and that of July 2025 was 2.59.1.
    """
    major, minor, patch = version
    if major != 2:
        return None
    months = 5 + minor + (minor >= 7) + (minor >= 60) + (minor == 59 and patch > 0)
    return date(2020 + months // 12, 1 + months % 12, 1)
