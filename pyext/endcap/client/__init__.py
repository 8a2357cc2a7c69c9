"""Clients of a running server: images in, detections or classes out, by tritonclient.

`DetectionClient.detect(["a.jpg"])` calls, and each file returns to the one above it:

1. `client.py`, `DetectionClient.detect`: runs the coroutine of
2. `detection.py`, `Detector._detect`: cuts the images into batches; `_process` reads the files,
   `_send` builds a request (`requests.py`) and reads results (`results.py`) from the response
   (`responses.py`),
3. `connection.py`, `Connection.repeat`: sends it within the deadline, with retries, by
4. `transport.py`: `infer` of tritonclient's client for gRPC or HTTP, and its errors.

The methods of `AsyncDetectionClient` are the coroutines of 2. `concurrency.py` has the differences
between threads and tasks. `shared_memory.py` has the pools of regions (`regions.py`) that a server
on this machine shares.
"""

from endcap.client.client import AsyncDetectionClient, DetectionClient
from endcap.client.errors import ClientError, RequestError
from endcap.client.options import ClientArguments, ConnectionOptions, Keepalive, Tls
from endcap.client.regions import Lease
from endcap.client.requests import SequenceStep
from endcap.client.results import FramePosition, ImageResult, Results, Task
from endcap.client.shared_memory import AsyncSharedMemoryPool, SharedMemoryPool
from endcap.detections import ImageDetections
from endcap.predictions import ClassScore, Detection, Mask

__all__ = [
    "AsyncDetectionClient",
    "AsyncSharedMemoryPool",
    "ClassScore",
    "ClientArguments",
    "ClientError",
    "ConnectionOptions",
    "Detection",
    "DetectionClient",
    "FramePosition",
    "ImageDetections",
    "ImageResult",
    "Keepalive",
    "Lease",
    "Mask",
    "RequestError",
    "Results",
    "SequenceStep",
    "SharedMemoryPool",
    "Task",
    "Tls",
]
