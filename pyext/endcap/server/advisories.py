"""Known vulnerabilities of Triton's releases, from NVIDIA's security bulletins."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from endcap.server.release import Release

# Date of the last bulletin about Triton Inference Server in the index of the repository
# NVIDIA/product-security from which this table was made. Later bulletins are not in it.
AS_OF = date(2026, 9, 8)


@dataclass(frozen=True, kw_only=True)
class Advisory:
    """CVEs of a security bulletin that one release fixes.

    Attributes:
        bulletin: NVIDIA's number.
        published: Date of the bulletin's first version.
        fixed_in: First release without these vulnerabilities.
        affected_since: First release that has them; None for all before `fixed_in`.
        cves: Identifiers in ascending order.
    """

    bulletin: int
    published: date
    fixed_in: Release
    affected_since: Release | None
    cves: tuple[str, ...]

    def affects(self, release: Release) -> bool:
        """Return whether a release has these vulnerabilities."""
        since = self.affected_since
        return release < self.fixed_in and (since is None or since <= release)

    def __str__(self) -> str:
        """Return bulletin, date, fixed release and CVEs in one line."""
        return (
            f"bulletin {self.bulletin} of {self.published}, fixed in {self.fixed_in.month}: "
            f"{', '.join(self.cves)}"
        )


def _row(bulletin: int, published: str, fixed_in: str, cves: str, since: str = "") -> Advisory:
    """Make a row; releases are months of containers, CVEs stand without their prefix."""
    return Advisory(
        bulletin=bulletin,
        published=date.fromisoformat(published),
        fixed_in=Release.parse(fixed_in),
        affected_since=Release.parse(since) if since else None,
        cves=tuple(f"CVE-{cve}" for cve in cves.split()),
    )


# The bulletins of that index about Triton Inference Server since December 2023, with the affected
# and the updated versions that they give. A CVE of two bulletins stands in the first (2025-23268:
# 5687 and 5691).
ADVISORIES = (
    _row(5509, "2023-12-19", "23.11", "2023-31036"),
    _row(5535, "2024-04-30", "24.04", "2024-0087 2024-0100", since="22.09"),
    _row(5535, "2024-04-30", "24.04", "2024-0088", since="20.10"),
    _row(5546, "2024-05-29", "24.05", "2024-0095 2024-0103", since="20.10"),
    _row(5565, "2024-09-30", "24.09", "2024-0116"),  # since 19.11, before version 2
    _row(5612, "2025-02-11", "24.12", "2024-53880", since="24.11"),
    _row(
        5687,
        "2025-08-04",
        "25.05",
        "2025-23323 2025-23324 2025-23325 2025-23326 2025-23327 2025-23335",
    ),
    _row(5687, "2025-08-04", "25.06", "2025-23322 2025-23331"),
    _row(
        5687,
        "2025-08-04",
        "25.07",
        "2025-23268 2025-23310 2025-23311 2025-23317 2025-23318 2025-23319 2025-23320 2025-23321 "
        "2025-23333 2025-23334",
    ),
    _row(5691, "2025-09-16", "25.08", "2025-23316 2025-23328 2025-23329 2025-23336"),
    _row(5723, "2025-11-11", "25.09", "2025-33202"),
    _row(5734, "2025-12-02", "25.10", "2025-33201 2025-33211"),
    _row(5790, "2026-03-24", "26.01", "2025-33238 2025-33254 2026-24158"),
    _row(5816, "2026-04-07", "26.02", "2026-24146 2026-24147 2026-24173 2026-24174 2026-24175"),
    _row(
        5828,
        "2026-05-19",
        "26.03",
        "2026-24206 2026-24207 2026-24208 2026-24209 2026-24210 2026-24213 2026-24214 2026-24215",
    ),
    _row(5848, "2026-06-30", "26.04", "2026-24264 2026-24266"),
    _row(
        5853,
        "2026-07-14",
        "26.05",
        "2026-47476 2026-47477 2026-47478 2026-47479 2026-47480 2026-47481 2026-47482",
    ),
    _row(5860, "2026-08-04", "26.03", "2026-47487"),
    _row(5865, "2026-08-18", "26.06", "2026-47606 2026-47627 2026-47628 2026-47629 2026-47630"),
    _row(5875, "2026-09-08", "26.04", "2026-47625"),
    _row(5875, "2026-09-08", "26.07", "2026-16497"),
)


def find_advisories(release: Release) -> list[Advisory]:
    """Return what is known of a release, oldest bulletin first."""
    return [advisory for advisory in ADVISORIES if advisory.affects(release)]


def summarise(advisories: Iterable[Advisory]) -> str:
    """Return how many vulnerabilities there are and in which bulletins, or that none is known."""
    found = list(advisories)
    if not found:
        return f"no known vulnerability in endcap's table (as of {AS_OF})"
    number = sum(len(advisory.cves) for advisory in found)
    bulletins = sorted({advisory.bulletin for advisory in found})
    *first, last = map(str, bulletins)
    named = f"bulletins {', '.join(first)} and {last}" if first else f"bulletin {last}"
    plural = "y" if number == 1 else "ies"
    return f"{number} known vulnerabilit{plural} (NVIDIA's {named}, as of {AS_OF})"


def first_fixed(advisories: Iterable[Advisory]) -> str:
    """Return the first release in which all of these are fixed, such as "26.07"."""
    release = max(advisory.fixed_in for advisory in advisories)
    return release.month or str(release)
