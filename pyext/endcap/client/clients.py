"""The two clients: `DetectionClient` for threads, `AsyncDetectionClient` for asyncio."""

from __future__ import annotations

from types import TracebackType

from endcap.client._async.detection import AsyncClientCore
from endcap.client._sync.detection import ClientCore
from endcap.client.errors import ClientError


class DetectionClient(ClientCore):
    """A client of an ensemble that takes `encoded` and gives detections or classes.

    An image is bytes or a path of an encoded file, which is sent as it is, or an array uint8: [N]
    of an encoded file, [H,W,3] or [H,W] of pixels.

    Thread-safe; a process that is forked off needs a client of its own.

    Args:
        url: HOST:PORT, with grpc://, grpcs://, http:// or https:// before it where `protocol` is
            not given.
        protocol: "grpc" or "http"; None takes the URL's, else gRPC.
        model: The ensemble's name.
        timeout_s: For each image: its requests, their retries, and the wait for shared memory.
        concurrency: How many requests are in flight at once.
        batch: How many images go into one request, at most.
        labels: Class names by id; None reads them from the parameter `labels` of the model's
            configuration (comma-separated, or a JSON list). A classifier's own output
            `class_labels` names what these do not.
        extras: Whether to ask for keypoints, angles and masks, too, where the model has them.
        shared_memory: "system" or "cuda" lets tensors go through memory that this machine's server
            shares; see `SharedMemoryPool`.
        regions: The number of shared-memory regions; None takes `concurrency`.
        region_bytes: The size of each; None has room for a batch, 8 MiB for each encoded image.
        classify: Number of best classes to request from Triton's classification extension, of a
            classifier with the output class_probabilities; None takes the model's own classes.
        color: "rgb" or "bgr", of images that are pixels.
        jpeg_quality: These are sent as JPEG of this quality, 1 to 100, without chroma subsampling.
        request_id: What the ids of requests begin with; the server's log has them. None draws one.
        options: Of the connection: retries, headers, TLS, compression, keepalive. Its timeout_s
            goes before `timeout_s`.

    Raises:
        ClientError: No server answers there, it does not serve the model, or the model's labels
            cannot be read.
        InvalidArgumentError: An option cannot be used.
        UnsupportedError: The model does not go with an option.
    """

    def _begin(self) -> None:
        self._open()

    def __enter__(self) -> DetectionClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None and self._session.is_own_process:
            self._connection.close()  # cancels what is in flight: nobody waits for it
        self.close()


class AsyncDetectionClient(AsyncClientCore):
    """`DetectionClient` for asyncio: the same arguments, inside `async with`.

    It connects when the block begins, which raises what DetectionClient does. Any number of tasks
    may use it at once, of the event loop that it was connected in.
    """

    async def __aenter__(self) -> AsyncDetectionClient:
        if self._opened is not None:
            raise ClientError("the client is connected already; make one for each `async with`")
        await self._open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None and self._session.is_own_process:
            await self._connection.close()
        await self.close()
