"""APIs of Triton that clients of `endcap serve` do not need, closed by Triton's own restrictions.

Open are health, metadata, model configurations, inference and statistics. An API is closed by a
key that nobody can send. Where the launcher has to load models again, that API over HTTP has a
random key, which goes to the server in its environment: its command line is for all users to read.
"""

from __future__ import annotations

import os
import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path

import endcap
from endcap.server.release import Release, ServerRelease
from endcap.server.settings import ServerSettings
from endcap.triton.errors import ServerError

HTTP_HEADER = "endcap-key"
# Header names of HTTP/2 have no capital letters: a request that has one is reset.
CLOSED_GRPC_KEY = "Endcap-Closed"

# Values of HTTP headers have no line breaks. The second one is what server_key.cc replaces.
_NEVER_SENT = "\r\nclosed"
_PLACE_HOLDER = "\r\nENDCAP_SERVER_KEY"
_KEY_VARIABLE = "ENDCAP_SERVER_KEY"
_KEY_LIBRARY = Path("backends") / "server_key" / "libendcap_server_key.so"

_MODEL_CONTROL = "model-repository"
_CLOSED = ("trace", "logging")
_CLIENT_MEMORY = "shared-memory"
# docs/customization_guide/inference_protocols.md of triton-inference-server/server, release 23.12
_RESTRICTED_HTTP_SINCE = Release.parse("23.12")
# docs/protocol/extension_shared_memory.md
_CLIENT_MEMORY_OPTION_SINCE = Release.parse("2.69.0")


@dataclass(frozen=True, kw_only=True)
class Restriction:
    """What restricts a server, and what opens it to the launcher.

    Attributes:
        options: Options of tritonserver.
        environment: Variables that the server gets beside those it has.
        headers: HTTP headers with which the launcher loads models; empty where it does not.
    """

    options: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict, repr=False)


def restrict(server: ServerRelease, settings: ServerSettings) -> Restriction:
    """Return what restricts a server of this release.

    One that is not known counts as recent enough.

    Raises:
        ServerError: Models are to be revived, but the server is too old to restrict its API, or
            endcap's library for the key is not installed.
    """
    release = server.release
    if release is not None and release < _RESTRICTED_HTTP_SINCE:
        if settings.revive:
            raise ServerError(
                f"{server} cannot restrict who loads models, so that its models "
                "cannot be revived safely; use release 23.12 or later, or leave --revive out"
            )
        return Restriction()
    closed = [*_CLOSED, *([] if settings.client_shared_memory else [_CLIENT_MEMORY])]
    options = [_over_grpc([_MODEL_CONTROL, *closed])]
    if settings.client_shared_memory and release is not None:
        known = release >= _CLIENT_MEMORY_OPTION_SINCE
        options += ["--allow-client-shm=true"] if known else []
    if not settings.revive:
        return Restriction(options=[_over_http([_MODEL_CONTROL, *closed], _NEVER_SENT), *options])
    key = secrets.token_hex(32)
    return Restriction(
        options=[
            _over_http([_MODEL_CONTROL], _PLACE_HOLDER, header=HTTP_HEADER),
            _over_http(closed, _NEVER_SENT),
            *options,
        ],
        environment={_KEY_VARIABLE: key, "LD_PRELOAD": _preloaded()},
        headers={HTTP_HEADER: key},
    )


def _over_http(apis: list[str], value: str, *, header: str = "endcap-closed") -> str:
    return f"--http-restricted-api={','.join(apis)}:{header}={value}"


def _over_grpc(apis: list[str]) -> str:
    return f"--grpc-restricted-protocol={','.join(apis)}:{CLOSED_GRPC_KEY}={_NEVER_SENT}"


def _preloaded() -> str:
    """Return LD_PRELOAD with the library that inserts the key in front."""
    # An editable install has two package folders: the sources, and what was built.
    for root in endcap.__path__:
        library = Path(root) / _KEY_LIBRARY
        if library.is_file():
            break
    else:
        raise ServerError(
            f"{_KEY_LIBRARY.name} is not in this installation of endcap (searched "
            f"{', '.join(endcap.__path__)}); reinstall it with `pip install endcap`"
        )
    if re.search(r"[:\s]", str(library)):  # between which the loader splits LD_PRELOAD
        raise ServerError(
            f"{library} cannot be preloaded, for its path has a colon or a space; install endcap "
            "in a folder without, or leave --revive out"
        )
    return ":".join(filter(None, [str(library), os.environ.get("LD_PRELOAD")]))
