"""What a client is made with, as one value that both clients and the command line share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from endcap.client.address import Protocol
from endcap.client.images import Color
from endcap.client.options import ConnectionOptions

SharedMemory = Literal["none", "system", "cuda"]
Place = Literal["server", "client"]


@dataclass(frozen=True)
class ClientArguments:
    """The arguments of `DetectionClient`, which says what each means; none is looked at here.

    `DetectionClient.from_arguments` and `AsyncDetectionClient.from_arguments` make clients of it.
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
    preprocess: Place = "server"
    postprocess: Place = "server"
    classify: int | None = None
    color: Color = "rgb"
    jpeg_quality: int = 95
    request_id: str | None = None
    options: ConnectionOptions | None = None
