"""Clients of a running server: images in, detections or classes out.

A call of `DetectionClient.detect(["a.jpg"])` passes through, in this order:

1. `clients`: the two clients, and their arguments (`arguments`, `options`, `address`).
2. `_async/detection` (`_sync` is made of `_async`): images to batches (`images`, `batches`),
   threads or tasks (`synchronization`), a request for each batch (`ensemble_request`).
3. `_async/connection`: deadlines and retries (`retry`); `wire/grpc` or `wire/http` makes a message.
4. `wire/grpc_transport` or `_async/http_transport` sends it.

The response goes back through `wire`, `response_reader` (tensors to `endcap.results`), `batches`.

`_async/detect_stream` with `stream_order` is the same over a gRPC stream, `shared_memory` has
regions, leases and pools, `_async/model_lookup` and `session` are what a client does first.
"""

import warnings

from endcap.client._async.connection import AsyncConnection, AsyncStream
from endcap.client._async.detection_client import AsyncDetectionClient
from endcap.client._async.shared_memory_pool import AsyncSharedMemoryPool
from endcap.client._sync.connection import Connection, Stream
from endcap.client._sync.detection_client import DetectionClient
from endcap.client._sync.shared_memory_pool import SharedMemoryPool
from endcap.client.address import parse_address
from endcap.client.calls import Call, InputTensor, OutputTensor, Response, SequenceStep, SharedSlice
from endcap.client.errors import ClientError, RequestError
from endcap.client.options import ClientArguments, ConnectionOptions, Keepalive, Tls
from endcap.client.regions.lease import Lease
from endcap.client.regions.sigterm import exit_on_sigterm
from endcap.detections import ClassScore, Detection, ImageDetections, Mask
from endcap.results import ImageResult, Results, Task

__all__ = [
    "AsyncConnection",
    "AsyncDetectionClient",
    "AsyncSharedMemoryPool",
    "AsyncStream",
    "Call",
    "ClassScore",
    "ClientArguments",
    "ClientError",
    "Connection",
    "ConnectionOptions",
    "Detection",
    "DetectionClient",
    "ImageDetections",
    "ImageResult",
    "InputTensor",
    "Keepalive",
    "Lease",
    "Mask",
    "OutputTensor",
    "RequestError",
    "Response",
    "Results",
    "SequenceStep",
    "SharedMemoryPool",
    "SharedSlice",
    "Stream",
    "Task",
    "Tls",
    "exit_on_sigterm",
    "parse_address",
]


def __getattr__(name: str) -> object:
    """Give `Answer`, the old name of Response, for this release."""
    if name == "Answer":
        warnings.warn(
            "endcap.client.Answer is now endcap.client.Response", DeprecationWarning, stacklevel=2
        )
        return Response
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
