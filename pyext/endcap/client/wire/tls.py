"""TLS's files as the two protocols' libraries want them."""

from __future__ import annotations

import importlib
import os
import ssl
from pathlib import Path
from typing import Any

from endcap.client.options import Tls
from endcap.errors import InvalidArgumentError


def ssl_context(tls: Tls) -> ssl.SSLContext:
    """Returns the context of HTTPS connections; InvalidArgumentError for files that are no PEM."""
    try:
        context = ssl.create_default_context(cafile=tls.ca)
        if tls.certificate is not None:
            context.load_cert_chain(tls.certificate, tls.key)
    except OSError as error:  # ssl.SSLError is one
        raise InvalidArgumentError(
            f"TLS's ca, certificate and key cannot be used ({error}); give PEM files, and the key "
            "that belongs to the certificate"
        ) from error
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def channel_credentials(tls: Tls) -> Any:
    """Returns gRPC's channel credentials; InvalidArgumentError where gRPC has no such option."""
    if not tls.verify:
        raise InvalidArgumentError(
            "TLS's verify is False: gRPC always looks at the server's certificate; give its "
            "authority as ca"
        )
    ssl_context(tls)  # gRPC would only tell with its first request that a file is no PEM
    grpc = importlib.import_module("grpc")
    return grpc.ssl_channel_credentials(*map(_content, (tls.ca, tls.key, tls.certificate)))


def _content(path: str | os.PathLike[str] | None) -> bytes | None:
    return None if path is None else Path(path).read_bytes()
