"""Clients of a running server: images in, detections or classes out, by tritonclient.

`DetectionClient.detect(["a.jpg"])` calls, and each file returns to the one above it:

1. `client.py`, `DetectionClient.detect`: the public methods. Each has a coroutine
2. `concurrency.py`, `run`: run to its end in this thread (asyncio awaits the coroutine instead):
3. `detection.py`, `Detector._detect`: cuts batches; `_process` reads files, `_send` sends them with
4. `tensors.py`, `ModelTensors`: the tensors of the request, and results from those of the response,
5. `connection.py`, `Connection`: `repeat` keeps the deadline and retries `infer`, tritonclient's.

`streams.py` has streams, sequences and videos, `served_model.py` what the server says of its model,
`shared_memory.py` the pools of regions (`regions.py`) that a server on this machine shares.
"""

from endcap.client.client import AsyncDetectionClient, DetectionClient
from endcap.client.errors import ClientError, RequestError
from endcap.client.options import ClientArguments, ConnectionOptions, Keepalive, Tls
from endcap.client.regions import Lease
from endcap.client.results import FramePosition, ImageResult, Results, Task
from endcap.client.shared_memory import AsyncSharedMemoryPool, SharedMemoryPool
from endcap.client.tensors import SequenceStep
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
