"""APIs of Triton that clients of `endcap serve` do not need, closed by Triton's own restrictions.

Open are health, metadata, model configurations, inference and statistics. An API is closed by a
key that nobody can send.
"""

from __future__ import annotations

from endcap.server.release import Release, ServerRelease
from endcap.server.settings import ServerSettings

# Header names of HTTP/2 have no capital letters: a request that has one is reset.
CLOSED_GRPC_KEY = "Endcap-Closed"

_HTTP_KEY = "endcap-closed"
_NEVER_SENT = "\r\nclosed"  # values of HTTP headers have no line breaks
_CLOSED = ("model-repository", "trace", "logging")
_CLIENT_MEMORY = "shared-memory"
# docs/customization_guide/inference_protocols.md of triton-inference-server/server, release 23.12
_RESTRICTED_HTTP_SINCE = Release.parse("23.12")
# docs/protocol/extension_shared_memory.md
_CLIENT_MEMORY_OPTION_SINCE = Release.parse("2.69.0")


def restriction_options(server: ServerRelease, settings: ServerSettings) -> list[str]:
    """Return the options that close APIs of a server of this release.

    There are none for a release that cannot restrict its APIs. One that is not known counts as
    recent enough.
    """
    release = server.release
    if release is not None and release < _RESTRICTED_HTTP_SINCE:
        return []
    apis = ",".join([*_CLOSED, *([] if settings.client_shared_memory else [_CLIENT_MEMORY])])
    options = [
        f"--http-restricted-api={apis}:{_HTTP_KEY}={_NEVER_SENT}",
        f"--grpc-restricted-protocol={apis}:{CLOSED_GRPC_KEY}={_NEVER_SENT}",
    ]
    if settings.client_shared_memory and release is not None:
        options += ["--allow-client-shm=true"] if release >= _CLIENT_MEMORY_OPTION_SINCE else []
    return options
