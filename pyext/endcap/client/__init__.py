"""Clients of a running server: images in, detections or classes out.

From `DetectionClient.detect(["a.jpg"])` to the bytes on the socket:

1. `_sync/detection_client.py`, `DetectionClient.detect`: `make_batches` cuts the images into
   `Batch`es, `map_unordered` runs `_run`, `_infer`, `_call_model` for each in at most `concurrency`
   threads; where there is one batch, the caller's runs them. (`_sync` is generated from `_async`.)
2. `batches.py`: `BatchRun` reads the file (`images.py`), `RequestFormat.call` makes a `Call` with
   the input `encoded`.
3. `_sync/connection.py`, `Connection.infer`: `GrpcOperations.infer` (`grpc.py`) makes an
   `Operation` (`calls.py`) of the call: its `request`, which `infer_request` serializes as a
   ModelInferRequest, and its `read` for the response. `_send_prepared` sends the request within
   the deadline, and again where `retry.py` allows that. With shared memory `SharedMemoryPool.infer`
   calls `Connection.infer`.
4. `grpc.py`, `GrpcTransport.send`: the bytes go to gRPC's channel. For HTTP: `HttpOperations` of
   `http.py`, and `_sync/http_transport.py` with httpcore.

And back:

5. `_send_prepared` calls `Operation.read`: `grpc.py`, `read_infer_response`, makes a `Response`
   with NumPy arrays of the message.
6. `batches.py`: `RequestFormat.read` cuts its tensors into those of each image,
   `response_reader.py` checks them and makes detections or classes of them.
7. `batches.py`: `BatchRun.take` makes each an `ImageResult`; `detect` returns them as `Results`, in
   the order of the images.

Before all this the constructor sends three requests (`_connect` in `_sync/detection_client.py`):
whether the model is ready, its metadata and its configuration. A stream of images is
`_sync/detect_stream.py` with `stream_order.py`, shared memory is `_sync/shared_memory_pool.py` with
`regions/`.
"""

from endcap.client._async.shared_memory_pool import AsyncSharedMemoryPool
from endcap.client._sync.shared_memory_pool import SharedMemoryPool
from endcap.client.address import parse_address
from endcap.client.calls import Call, InputTensor, OutputTensor, Response, SequenceStep, SharedSlice
from endcap.client.connection import Connection, Stream
from endcap.client.connection_aio import AsyncConnection, AsyncStream
from endcap.client.detection_client import DetectionClient
from endcap.client.detection_client_aio import AsyncDetectionClient
from endcap.client.errors import ClientError, RequestError
from endcap.client.options import ClientArguments, ConnectionOptions, Keepalive, Tls
from endcap.client.regions.lease import Lease
from endcap.client.regions.sigterm import exit_on_sigterm
from endcap.detections import ClassScore, Detection, ImageDetections, Mask
from endcap.results import FramePosition, ImageResult, Results, Task

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
    "Stream",
    "Task",
    "Tls",
    "exit_on_sigterm",
    "parse_address",
]
