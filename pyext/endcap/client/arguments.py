"""The arguments of a client, as one value that both clients and the command line share."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from endcap.client.address import Address, Protocol, parse_address
from endcap.client.images import Color, ImageReader
from endcap.client.options import ConnectionOptions
from endcap.errors import InvalidArgumentError

SharedMemory = Literal["none", "system", "cuda"]

_LONGEST_REQUEST_ID = 64


@dataclass(frozen=True)
class ClientArguments:
    """The arguments of `DetectionClient`, which says what each means; they are checked here.

    `DetectionClient.from_arguments` and `AsyncDetectionClient.from_arguments` make clients of it.

    Raises InvalidArgumentError for one that cannot be used.
    """

    url: str = "127.0.0.1:8001"
    protocol: Protocol | None = None
    model: str = "detect"
    timeout_s: float = 30.0
    concurrency: int = 4
    batch: int = 1
    labels: Sequence[str] | None = None
    extras: bool = True
    shared_memory: SharedMemory = "none"
    regions: int | None = None
    region_bytes: int | None = None
    classify: int | None = None
    color: Color = "rgb"
    jpeg_quality: int = 95
    request_id: str | None = None
    options: ConnectionOptions | None = None

    # What follows from them.
    address: Address = field(init=False, repr=False)
    connection: ConnectionOptions = field(init=False, repr=False)
    images: ImageReader = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("concurrency", "batch", "regions", "region_bytes"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise InvalidArgumentError(f"{name} {number} is below 1")
        if self.shared_memory not in ("none", "system", "cuda"):
            raise InvalidArgumentError(
                f"shared_memory {self.shared_memory!r} is unknown; use none or system or cuda"
            )
        prefix = self.request_id or ""
        if not prefix.isprintable() or len(prefix) > _LONGEST_REQUEST_ID:
            raise InvalidArgumentError(
                f"request_id {prefix[:80]!r} cannot be sent; give at most {_LONGEST_REQUEST_ID} "
                "printable characters"
            )
        options = self.options or ConnectionOptions(timeout_s=self.timeout_s)
        address = parse_address(self.url, self.protocol)
        secure = address.secure or options.tls is not None
        object.__setattr__(self, "connection", options)
        object.__setattr__(self, "address", replace(address, secure=secure))
        object.__setattr__(self, "images", ImageReader(self.color, self.jpeg_quality))

    def request_id_prefix(self) -> str:
        """Return what the ids of one client's requests begin with."""
        return secrets.token_hex(4) if self.request_id is None else self.request_id
