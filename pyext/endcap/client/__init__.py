"""Clients of a running server: images in, detections or classes out, by tritonclient.

`DetectionClient.detect(["a.jpg"])` goes through five files:

1. `client.py`, `DetectionClient.detect`: the public methods. Each has a coroutine, which
2. `concurrency.py`, `run` runs to its end in this thread (asyncio awaits it instead):
3. `detection.py`, `Detector._detect`. `_run_one` takes what fits one request, `_run_all` cuts
   batches; each waits for one of `_permits`, the limit of requests in flight. `_process` reads the
   files, `_send_batch` sends each file of a failed batch again alone, `_send` makes a request by
4. `tensors.py`, `ModelTensors.make_arguments`, sends it by
5. `connection.py`, `Connection.repeat` with its deadline and retries, `infer` being tritonclient's,
   and reads the response by `tensors.py`, `split` and `read`.

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
