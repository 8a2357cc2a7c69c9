"""Release of a Triton server, and what it may open to other machines and to its clients.

An old server is not opened to other machines. APIs that clients do not need are closed by Triton's
own restrictions, with a key that nobody can send: open are health, metadata, model configurations,
inference and statistics.
"""

from __future__ import annotations

import importlib.metadata
import ipaddress
import re
import socket
from dataclasses import dataclass
from datetime import date

from endcap.errors import ServerError
from endcap.server.locate import ServerInstallation
from endcap.server.settings import ServerSettings

BULLETINS = "https://www.nvidia.com/en-us/security/"
# Header names of HTTP/2 have no capital letters: a request that has one is reset.
CLOSED_GRPC_KEY = "Endcap-Closed"

_WHEEL = "nvidia-pytriton"
# CHANGELOG.md of triton-inference-server/pytriton
_WHEEL_VERSIONS = dict.fromkeys(("0.5.13", "0.5.14", "0.6.0", "0.7.0"), "2.51.0")
_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?(?:[a-z+-].*)?")
_MAX_AGE_MONTHS = 12
_HTTP_KEY = "endcap-closed"
_NEVER_SENT = "\r\nclosed"  # values of HTTP headers have no line breaks
_CLOSED = ("model-repository", "trace", "logging")
# docs/customization_guide/inference_protocols.md of triton-inference-server/server, release 23.12
_RESTRICTED_HTTP_SINCE = (2, 41, 0)
# docs/protocol/extension_shared_memory.md
_CLIENT_MEMORY_OPTION_SINCE = (2, 69, 0)


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
        """The first day of the month of the release, None where it is unknown.

        Triton 2 has a release a month, since 2.0.0 in June 2020, but for none in January 2021;
        that of July 2025 was 2.59.1.
        """
        major, minor, patch = self.version or (0, 0, 0)
        months = 5 + minor + (minor >= 7) + (minor >= 60) + (minor == 59 and patch > 0)
        return date(2020 + months // 12, 1 + months % 12, 1) if major == 2 else None

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
    month = ServerRelease(name="", version=version).month
    released = f", release {month:%y.%m} ({month:%B %Y})" if month else ""
    return ServerRelease(name=f"{prefix}tritonserver {text}{released}", version=version)


def check_exposure(server: ServerRelease, settings: ServerSettings) -> None:
    """Raise ServerError where `settings.host` would open an old server to other machines.

    A server of unknown release counts as old. `settings.accept_old_server` lets all pass.
    """
    problem = server.find_age_problem()
    if problem is None or settings.accept_old_server or is_loopback(settings.host):
        return
    raise ServerError(
        f"host '{settings.host}' is not a loopback address, and {server} is {problem}: "
        f"{BULLETINS} has NVIDIA's security bulletins; run a current release, listen on 127.0.0.1 "
        "behind a proxy, or accept the risk with --accept-old-server (`accept_old_server=True` in "
        "Python)"
    )


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches a server that listens on `host`.

    A name counts by its addresses. One that has none cannot be listened on: it counts as loopback,
    and the check of the ports refuses it.
    """
    if not host:  # all interfaces
        return False
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return True
    addresses = [ipaddress.ip_address(str(address[0])) for *_, address in found]
    return all((getattr(each, "ipv4_mapped", None) or each).is_loopback for each in addresses)


def restriction_options(server: ServerRelease, settings: ServerSettings) -> list[str]:
    """Return the options that close APIs of a server of this release.

    There are none for a release that cannot restrict its APIs. One that is not known counts as
    recent enough.
    """
    version = server.version
    if version is not None and version < _RESTRICTED_HTTP_SINCE:
        return []
    apis = ",".join([*_CLOSED, *([] if settings.client_shared_memory else ["shared-memory"])])
    options = [
        f"--http-restricted-api={apis}:{_HTTP_KEY}={_NEVER_SENT}",
        f"--grpc-restricted-protocol={apis}:{CLOSED_GRPC_KEY}={_NEVER_SENT}",
    ]
    if settings.client_shared_memory and version is not None:
        options += ["--allow-client-shm=true"] if version >= _CLIENT_MEMORY_OPTION_SINCE else []
    return options
