"""Protection of a server from other machines and from its clients.

An old server is not opened to other machines. APIs that clients do not need are closed by Triton's
own restrictions, with a key that nobody can send: open are health, metadata, model configurations,
inference and statistics.
"""

from __future__ import annotations

import ipaddress
import socket

from endcap.server.release import BULLETINS, ServerRelease
from endcap.server.settings import ServerSettings
from endcap.triton.errors import ServerError

# Header names of HTTP/2 have no capital letters: a request that has one is reset.
CLOSED_GRPC_KEY = "Endcap-Closed"

_HTTP_KEY = "endcap-closed"
_NEVER_SENT = "\r\nclosed"  # values of HTTP headers have no line breaks
_CLOSED = ("model-repository", "trace", "logging")
_CLIENT_MEMORY = "shared-memory"
# docs/customization_guide/inference_protocols.md of triton-inference-server/server, release 23.12
_RESTRICTED_HTTP_SINCE = (2, 41, 0)
# docs/protocol/extension_shared_memory.md
_CLIENT_MEMORY_OPTION_SINCE = (2, 69, 0)


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
    apis = ",".join([*_CLOSED, *([] if settings.client_shared_memory else [_CLIENT_MEMORY])])
    options = [
        f"--http-restricted-api={apis}:{_HTTP_KEY}={_NEVER_SENT}",
        f"--grpc-restricted-protocol={apis}:{CLOSED_GRPC_KEY}={_NEVER_SENT}",
    ]
    if settings.client_shared_memory and version is not None:
        options += ["--allow-client-shm=true"] if version >= _CLIENT_MEMORY_OPTION_SINCE else []
    return options
