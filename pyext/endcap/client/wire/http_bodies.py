"""Bodies of HTTP answers: how large they may be, and how they are inflated."""

from __future__ import annotations

import zlib

from endcap.client.errors import RequestError
from endcap.client.options import Compression

MOST_BYTES = 2**31 - 1  # of an answer, also inflated; gRPC's limit
_WINDOW_BITS = {"gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


def check_size(byte_size: int) -> None:
    """Raises RequestError for an answer that has more bytes than one may have."""
    if byte_size > MOST_BYTES:
        raise RequestError(
            "internal",
            f"the server's answer is larger than {MOST_BYTES} bytes, the limit; ask for fewer "
            "outputs, or in smaller batches",
        )


def inflate(body: bytes, encoding: str | None, asked: Compression | None) -> bytes:
    """Returns what a body holds whose header Content-Encoding is `encoding`.

    asked: the compression that the request has asked for. Raises ValueError for another one, and
    for what is not compressed so, and RequestError for what inflates to more than the limit.
    """
    if not encoding or encoding == "identity":
        return body
    if asked is None or encoding != asked:
        raise ValueError(f"it is compressed as {encoding!r}, which was not asked for")
    stream = zlib.decompressobj(_WINDOW_BITS[asked])
    try:
        content = stream.decompress(body, MOST_BYTES + 1)
    except zlib.error as error:
        raise ValueError(f"it is no {encoding}: {error}") from error
    check_size(len(content))
    if not stream.eof or stream.unused_data:
        raise ValueError(f"it is no whole {encoding}")
    return content
