"""Releases of Triton, what is known of them, and when a server may be opened to other machines."""

from __future__ import annotations

import itertools
import re
from datetime import date
from pathlib import Path

import pytest
from echo_model import write_model

from endcap.server import ServerError, ServerPorts, ServerSettings, locate_server
from endcap.server.advisories import (
    ADVISORIES,
    AS_OF,
    find_advisories,
    first_fixed,
    summarise,
)
from endcap.server.exposure import is_loopback
from endcap.server.plan import plan_launch
from endcap.server.release import Release, read_release

FREE = ServerPorts(http=0, grpc=0, metrics=0)
PACKAGED = Release.parse("24.10")
FIXED = Release.parse("26.07")


def installation(folder: Path, version: str | None) -> Path:
    """An imitation of NVIDIA's installation, with its version written down; returns its folder."""
    root = folder / "opt"
    program = root / "bin" / "tritonserver"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    (root / "lib").mkdir()
    stub = root / "backends" / "python" / "triton_python_backend_stub"
    stub.parent.mkdir(parents=True)
    stub.touch(mode=0o755)
    if version is not None:
        (root / "TRITON_VERSION").write_text(f"{version}\n")
    return root


def plan(folder: Path, version: str | None, host: str, *, accept: bool = False) -> list[str]:
    """The command that would start such an installation."""
    root = installation(folder, version)
    write_model(folder / "models", "none", "")
    (folder / "scratch").mkdir()
    settings = ServerSettings(
        tritonserver=root, host=host, ports=FREE, accept_known_vulnerabilities=accept
    )
    return plan_launch(folder / "models", settings, folder / "scratch").command


# --- releases -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("month", "version"),
    [  # of the repository's tags; 25.07 is the one month with a patch version
        ("20.06", "2.0.0"),
        ("22.01", "2.18.0"),
        ("23.12", "2.41.0"),
        ("24.10", "2.51.0"),
        ("25.06", "2.59.0"),
        ("25.07", "2.59.1"),
        ("25.08", "2.60.0"),
        ("26.08", "2.72.0"),
    ],
)
def test_a_month_and_its_version_are_one_release(month: str, version: str) -> None:
    release = Release.parse(month)
    assert release == Release.parse(version)
    assert (str(release), release.month) == (version, month)


def test_releases_compare_by_age() -> None:
    texts = (
        "1.15.0 2.0.0 20.10 2.9.0 2.10.0 24.10 2.51.1 25.06 25.07 2.60.0dev 25.08 2.60.1 2.100 3.0"
    )
    releases = [Release.parse(text) for text in texts.split()]
    assert releases == sorted(releases)
    assert len(set(releases)) == len(releases)


def test_months_and_versions_grow_together() -> None:
    known = [Release.parse(f"{y}.{m:02}") for y, m in months()]
    assert len(known) == 74
    assert known == sorted(known)
    assert all(release.is_final and release.month for release in known)


def months() -> list[tuple[int, int]]:
    every = itertools.product(range(20, 27), range(1, 13))
    # There was no release in January 2021.
    return [each for each in every if (20, 6) <= each <= (26, 8) and each != (21, 1)]


@pytest.mark.parametrize(
    "text", ["", "24", "2.x", "v2.51.0", "24.13", "19.12", "26.12", "2.51.0.1"]
)
def test_what_is_no_release_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is known|is not a version of Triton"):
        Release.parse(text)


@pytest.mark.parametrize(
    ("version", "name", "known"),
    [
        ("2.51.0", "tritonserver 2.51.0, release 24.10", True),
        ("2.71.0dev", "tritonserver 2.71.0dev", True),
        ("2.99.0", "tritonserver 2.99.0", True),
        ("main", "tritonserver main, an unknown release", False),
        (None, "tritonserver of unknown release", False),
    ],
)
def test_an_installation_tells_its_release(
    version: str | None, name: str, known: bool, tmp_path: Path
) -> None:
    found = read_release(locate_server(installation(tmp_path, version)))
    assert str(found) == name
    assert (found.release is not None) == known


@pytest.mark.parametrize(
    ("wheel", "name"),
    [
        ("0.7.0", "nvidia-pytriton 0.7.0 with tritonserver 2.51.0, release 24.10"),
        ("9.0.0", "nvidia-pytriton 9.0.0 with a tritonserver of unknown release"),
    ],
)
def test_a_wheel_tells_its_release(wheel: str, name: str, tmp_path: Path) -> None:
    program = tmp_path / "pytriton" / "tritonserver" / "bin" / "tritonserver"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    metadata = tmp_path / f"nvidia_pytriton-{wheel}.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text(f"Metadata-Version: 2.1\nName: nvidia-pytriton\nVersion: {wheel}\n")
    found = read_release(locate_server(program))
    assert str(found) == name
    assert found.release == (PACKAGED if wheel == "0.7.0" else None)


# --- the table ------------------------------------------------------------------------------------


def test_the_table_is_sorted_and_well_formed() -> None:
    order = [(row.bulletin, row.fixed_in) for row in ADVISORIES]
    assert order == sorted(order)
    for row in ADVISORIES:
        assert date(2023, 1, 1) < row.published <= AS_OF
        assert row.fixed_in.month is not None
        assert row.affected_since is None or row.affected_since < row.fixed_in
        assert row.cves
        assert list(row.cves) == sorted(
            row.cves, key=lambda cve: [int(n) for n in cve[4:].split("-")]
        )
        assert all(re.fullmatch(r"CVE-20\d\d-\d{4,7}", cve) for cve in row.cves)


def test_a_cve_stands_in_the_table_once() -> None:
    cves = [cve for row in ADVISORIES for cve in row.cves]
    assert len(cves) == len(set(cves)) == 66


def test_a_bulletin_has_one_date_and_later_ones_have_later_dates() -> None:
    dates: dict[int, date] = {}
    for row in ADVISORIES:
        assert dates.setdefault(row.bulletin, row.published) == row.published
    assert list(dates) == sorted(dates)
    assert list(dates.values()) == sorted(dates.values())
    assert max(dates.values()) == AS_OF


@pytest.mark.parametrize(
    ("text", "bulletins", "number"),
    [
        ("23.10", {5509, 5535, 5546, 5565}, 7 + 58),
        ("24.10", set(), 58),
        ("24.11", {5612}, 59),
        ("2.51.9", set(), 58),
        ("2.54.0", set(), 58),
    ],
)
def test_what_is_known_of_old_releases(text: str, bulletins: set[int], number: int) -> None:
    later = {5687, 5691, 5723, 5734, 5790, 5816, 5828, 5848, 5853, 5860, 5865, 5875}
    found = find_advisories(Release.parse(text))
    assert {row.bulletin for row in found} == bulletins | later
    assert sum(len(row.cves) for row in found) == number
    assert first_fixed(found) == "26.07"


@pytest.mark.parametrize(
    ("text", "cve", "affected"),
    [
        ("22.08", "CVE-2024-0087", False),  # 22.09 to 24.03
        ("22.09", "CVE-2024-0087", True),
        ("24.03", "CVE-2024-0087", True),
        ("24.04", "CVE-2024-0087", False),
        ("25.06", "CVE-2025-23310", True),  # before 25.07
        ("25.07", "CVE-2025-23310", False),
        ("25.06", "CVE-2025-23322", False),  # before 25.06, of the same bulletin
        ("2.71.0dev", "CVE-2026-16497", True),
        ("2.71.0", "CVE-2026-16497", False),
    ],
)
def test_a_vulnerability_begins_and_ends_with_a_release(
    text: str, cve: str, affected: bool
) -> None:
    cves = {each for row in find_advisories(Release.parse(text)) for each in row.cves}
    assert (cve in cves) == affected


def test_summaries() -> None:
    packaged = summarise(find_advisories(PACKAGED))
    assert packaged.startswith("58 known vulnerabilities (NVIDIA's bulletins 5687, 5691, 5723, ")
    assert packaged.endswith(" 5865 and 5875, as of 2026-09-08)")
    last = summarise(find_advisories(Release.parse("26.06")))
    assert last == "1 known vulnerability (NVIDIA's bulletin 5875, as of 2026-09-08)"
    for release in (FIXED, Release.parse("26.08"), Release.parse("2.99.0")):
        none = "no known vulnerability in endcap's table (as of 2026-09-08)"
        assert summarise(find_advisories(release)) == none


# --- who may listen where -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.0.0.2", True),
        ("127.1", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("localhost", True),
        ("a-host-that-is-not.invalid", True),  # nothing can listen there
        ("0.0.0.0", False),
        ("0", False),
        ("::", False),
        ("", False),
        ("::ffff:0.0.0.0", False),
        ("192.0.2.7", False),
        ("2001:db8::7", False),
    ],
)
def test_loopback_addresses(host: str, expected: bool) -> None:
    assert is_loopback(host) == expected


@pytest.mark.parametrize("host", ["0.0.0.0", "", "192.0.2.7"])
@pytest.mark.parametrize("version", ["2.51.0", "2.70.0", "2.71.0dev"])
def test_a_vulnerable_server_is_not_opened(host: str, version: str, tmp_path: Path) -> None:
    with pytest.raises(ServerError) as refused:
        plan(tmp_path, version, host)
    text = str(refused.value)
    assert text.startswith(f"host '{host}' is no loopback address, and tritonserver {version}")
    assert re.search(r"has \d+ known vulnerabilit(y|ies) \(NVIDIA's bulletins? .*5875, as of", text)
    assert "all fixed in 26.07; run NVIDIA's current container" in text
    assert text.endswith("or take the risk with --accept-known-vulnerabilities")


@pytest.mark.parametrize("version", ["main", None])
def test_a_server_of_unknown_release_is_not_opened(version: str | None, tmp_path: Path) -> None:
    with pytest.raises(
        ServerError, match=r"known vulnerabilities cannot be told .*unknown release"
    ):
        plan(tmp_path, version, "0.0.0.0")


@pytest.mark.parametrize("version", ["2.51.0", "main", None])
def test_a_risk_that_is_taken(version: str | None, tmp_path: Path) -> None:
    command = plan(tmp_path, version, "0.0.0.0", accept=True)
    services = ("http", "grpc", "metrics")
    assert {f"--{service}-address=0.0.0.0" for service in services} <= set(command)


def test_a_current_server_is_opened(tmp_path: Path) -> None:
    assert "--http-address=0.0.0.0" in plan(tmp_path, "2.71.0", "0.0.0.0")


@pytest.mark.parametrize("version", ["2.51.0", None])
def test_every_server_may_listen_on_loopback(version: str | None, tmp_path: Path) -> None:
    assert "--grpc-address=127.0.0.2" in plan(tmp_path, version, "127.0.0.2")
