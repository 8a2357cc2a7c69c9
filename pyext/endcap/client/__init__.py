"""Clients of a running server: images in, detections or classes out.

`DetectionClient.detect(["a.jpg"])` calls, and each file returns to the one above it:

1. `detection_client.py`, `DetectionClient.detect`: drives the coroutine of
2. `detection.py`, `Detector._detect`: cuts the images into batches and sends `concurrency` of them
   at once; `batches.py` reads the files and makes a `Call` of them, and detections of a `Response`,
3. `connection.py`, `AsyncConnection.infer`: sends the call within the deadline, and again, by
   tritonclient's `infer`; `grpc_transport.py` or `http_transport.py` has its arguments and errors.

With asyncio `detection_client_aio.py` is in the place of 1, and `concurrency.py` drives either. A
stream of images is `stream.py`, shared memory is `shared_memory.py` with `lease.py`.
"""

from endcap.client.calls import Call, InputTensor, OutputTensor, Response, SequenceStep, SharedSlice
from endcap.client.connection import AsyncConnection, Connection
from endcap.client.detection_client import DetectionClient
from endcap.client.detection_client_aio import AsyncDetectionClient
from endcap.client.errors import ClientError, RequestError
from endcap.client.lease import Lease
from endcap.client.options import (
    ClientArguments,
    ConnectionOptions,
    Keepalive,
    Tls,
    parse_address,
)
from endcap.client.shared_memory import AsyncSharedMemoryPool, SharedMemoryPool
from endcap.detections import ClassScore, Detection, ImageDetections, Mask
from endcap.results import FramePosition, ImageResult, Results, Task

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
    "FramePosition",
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
    "Task",
    "Tls",
    "parse_address",
]
