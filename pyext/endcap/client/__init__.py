"""Clients of a running server: images in, detections or classes out.

Where things are, from the outside in:

- `detect`, `aio`: the two clients; `base`, `arguments`, `settings`: what they share.
- `images`, `batches`, `detect_run`, `stream_line`: from images to requests in flight, in order.
- `pipeline`, `steps/`: how one batch becomes answers, as generators that do no I/O; `run_steps`
  makes their calls.
- `reading`, `rows`, `extras`: from tensors to the results that a caller gets (`endcap.results`).
- `calls`: one request and its answer as plain data. `connection`, `aio_connection`, `stream`,
  `aio_stream`: what sends them; `wire/`: the messages of gRPC and HTTP, and their transports.
- `shared_memory/`: regions, leases and pools.
- `errors`, `retry`, `deadline`: what can go wrong, and when to try again.
"""

import warnings

from endcap.client.address import parse_address
from endcap.client.aio import AsyncDetectionClient
from endcap.client.aio_connection import AsyncConnection
from endcap.client.arguments import ClientArguments
from endcap.client.calls import Call, InputTensor, OutputTensor, Response, SequenceStep, SharedSlice
from endcap.client.connection import Connection
from endcap.client.detect import DetectionClient
from endcap.client.errors import ClientError, RequestError
from endcap.client.options import ConnectionOptions, Keepalive, Tls
from endcap.client.shared_memory import AsyncSharedMemoryPool, Lease, SharedMemoryPool
from endcap.results.detection import ClassScore, Detection, Mask
from endcap.results.image_result import ImageResult, Results
from endcap.results.task import Task

__all__ = [
    "AsyncConnection",
    "AsyncDetectionClient",
    "AsyncSharedMemoryPool",
    "Call",
    "ClassScore",
    "ClientArguments",
    "ClientError",
    "Connection",
    "ConnectionOptions",
    "Detection",
    "DetectionClient",
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
    "Task",
    "Tls",
    "parse_address",
]


def __getattr__(name: str) -> object:
    """Gives `Answer`, the old name of Response, for this release."""
    if name == "Answer":
        warnings.warn(
            "endcap.client.Answer is now endcap.client.Response", DeprecationWarning, stacklevel=2
        )
        return Response
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
