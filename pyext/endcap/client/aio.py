"""The client for asyncio."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Mapping
from types import TracebackType

from endcap.client.concurrency import Tasks
from endcap.client.detection import Detector
from endcap.client.images import Image
from endcap.client.requests import SequenceStep, Video
from endcap.results import ImageResult, Results


class AsyncDetectionClient(Detector):
    """`DetectionClient` for asyncio, with the same arguments and results.

    It connects when its `async with` block begins, and any number of tasks of that event loop may
    use it at once.
    """

    _make_runtime = Tasks

    async def __aenter__(self) -> AsyncDetectionClient:
        await self._connect()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._end(at_once=kind is not None)

    async def close(self) -> None:
        """Wait for requests in flight and close the connections; see `DetectionClient.close`."""
        await self._end()

    async def detect(
        self,
        images: Iterable[Image] | AsyncIterable[Image],
        *,
        on_result: Callable[[ImageResult], None] | None = None,
    ) -> Results:
        """Return the result of each image, in the order of `images`; see `DetectionClient.detect`.

        Cancelling the task that awaits the results cancels its requests.
        """
        return await self._detect(images, on_result)

    async def detect_one(self, image: Image, *, step: SequenceStep | None = None) -> ImageResult:
        """Return the result of one image; see `DetectionClient.detect_one`."""
        return await self._detect_one(image, step)

    def detect_stream(
        self,
        images: Iterable[Image] | AsyncIterable[Image],
        *,
        sequence: int | str | None = None,
    ) -> AsyncGenerator[ImageResult, None]:
        """Yield the results of images in their order; see `DetectionClient.detect_stream`."""
        return self._detect_stream(images, sequence)

    def track(
        self, frames: Iterable[Image] | AsyncIterable[Image], *, sequence: int | str
    ) -> AsyncGenerator[ImageResult, None]:
        """Yield the results of a camera's frames in their order; see `DetectionClient.track`."""
        return self._track(frames, sequence)

    def video(
        self, video: Video, *, options: Mapping[str, object] | None = None
    ) -> AsyncGenerator[ImageResult, None]:
        """Yield the results of a video's frames in their order; see `DetectionClient.video`."""
        return self._video(video, options)
