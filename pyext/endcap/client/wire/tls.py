"""The context of TLS connections."""

from __future__ import annotations

import ssl

from endcap.client.options import Tls
from endcap.errors import InvalidArgumentError


def ssl_context(tls: Tls) -> ssl.SSLContext:
    """Return the context of HTTPS connections; InvalidArgumentError for files that are no PEM."""
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
