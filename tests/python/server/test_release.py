"""Releases of Triton, their age, and when a server may be opened to other machines."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from endcap.server import ServerError, ServerSettings, locate_server
from endcap.server.release import ServerRelease, check_exposure, is_loopback, read_release


def installation(folder: Path, version: str | None) -> Path:
    """An imitation of NVIDIA's installation, with its version written down; returns its folder."""
    root = folder / "opt"
    program = root / "bin" / "tritonserver"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    if version is not None:
        (root / "TRITON_VERSION").write_text(f"{version}\n")
    return root


@pytest.mark.parametrize(
    ("version", "month"),
    [  # of the server's tags and its container releases
        ((2, 0, 0), date(2020, 6, 1)),
        ((2, 7, 0), date(2021, 2, 1)),
        ((2, 51, 0), date(2024, 10, 1)),
        ((2, 59, 1), date(2025, 7, 1)),
        ((2, 60, 0), date(2025, 8, 1)),
        ((3, 0, 0), None),
        (None, None),
    ],
)
def test_a_version_has_a_month(version: tuple[int, int, int] | None, month: date | None) -> None:
    assert ServerRelease(name="", version=version).month == month


@pytest.mark.parametrize(
    ("today", "problem"),
    [
        (date(2024, 10, 31), None),
        (date(2025, 10, 31), None),
        (date(2025, 11, 1), "more than a year old"),
    ],
)
def test_a_release_is_old_after_a_year(today: date, problem: str | None) -> None:
    assert ServerRelease(name="", version=(2, 51, 0)).find_age_problem(today) == problem
    assert ServerRelease(name="", version=None).find_age_problem(today) == "of unknown age"


@pytest.mark.parametrize(
    ("version", "name"),
    [
        ("2.51.0", "tritonserver 2.51.0, release 24.10 (October 2024)"),
        ("2.71.0dev", "tritonserver 2.71.0dev, release 26.07 (July 2026)"),
        ("main", "tritonserver main, of unknown release"),
        (None, "tritonserver of unknown release"),
    ],
)
def test_an_installation_states_its_release(version: str | None, name: str, tmp_path: Path) -> None:
    assert str(read_release(locate_server(installation(tmp_path, version)))) == name


def test_a_wheel_of_unknown_version_states_no_release(tmp_path: Path) -> None:
    program = tmp_path / "pytriton" / "tritonserver" / "bin" / "tritonserver"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    metadata = tmp_path / "nvidia_pytriton-9.0.0.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: nvidia-pytriton\nVersion: 9.0.0\n")
    name = "nvidia-pytriton 9.0.0 with tritonserver of unknown release"
    assert str(read_release(locate_server(program))) == name


# --- who may listen where -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("localhost", True),
        ("a-host-that-is-not.invalid", True),  # nothing can listen there
        ("0.0.0.0", False),
        ("::", False),
        ("", False),
        ("::ffff:0.0.0.0", False),
        ("192.0.2.7", False),
    ],
)
def test_loopback_addresses(host: str, expected: bool) -> None:
    assert is_loopback(host) == expected


@pytest.mark.parametrize(
    ("version", "said"),
    [("2.51.0", "is more than a year old"), ("main", "is of unknown age"), ("2.9999.0", None)],
)
def test_an_old_server_is_not_opened(version: str, said: str | None, tmp_path: Path) -> None:
    server = read_release(locate_server(installation(tmp_path, version)))
    for host in ("0.0.0.0", "", "192.0.2.7"):
        check_exposure(server, ServerSettings(host=host, accept_old_server=True))
        if said is None:
            check_exposure(server, ServerSettings(host=host))
            continue
        with pytest.raises(ServerError, match=rf"host '{host}' is not .*{said}: .*--accept-old-s"):
            check_exposure(server, ServerSettings(host=host))
    check_exposure(server, ServerSettings(host="127.0.0.2"))
