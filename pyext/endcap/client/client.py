"""The clients for threads and for asyncio."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping

from endcap.client.concurrency import Tasks, Threads, iterate, run
from endcap.client.detection import Image
from endcap.client.results import ImageResult, Results
from endcap.client.streams import StreamDetector, Video
from endcap.client.tensors import SequenceStep


class DetectionClient(StreamDetector):
    """A client of an ensemble that takes encoded images and returns detections or classes.

    For an ensemble of `endcap init --head none`, results have the network's outputs as `tensors`.

    `DetectionClient` is for threads: it connects when it is constructed, and is thread-safe; a
    forked child needs its own client. `AsyncDetectionClient` is for asyncio: it connects when its
    `async with` block begins, and any number of tasks of that event loop may use it at once.

    An image is bytes or a path of an encoded file, which is sent unmodified, a Pillow image, or a
    uint8 array of NumPy or with __dlpack__: [N] of an encoded file, [H,W,3] or [H,W] of pixels.

    Args:
        url: HOST:PORT, with grpc://, grpcs://, http:// or https:// before it unless `protocol` is
            given.
        protocol: "grpc" or "http"; None takes the URL's, else gRPC.
        model: The ensemble's name.
        timeout_s: The deadline of each image, with retries and the wait for shared memory.
        concurrency: The maximum number of requests in flight.
        batch: The maximum number of images in a request.
        labels: Class names by id; None reads them from the parameter `labels` of the model's
            configuration (comma-separated, or a JSON list). A classifier's own output
            `class_labels` names the classes that these do not.
        extras: Whether to request keypoints, angles and masks as well, if the model has them.
        shared_memory: "system" or "cuda" passes tensors through memory that is shared with a
            server on this machine; see `SharedMemoryPool`.
        regions: The number of shared-memory regions; None is `concurrency`.
        region_bytes: The size of a region; None has room for a batch of images of 8 MiB.
        classify: The number of best classes to request from Triton's classification extension, for
            a classifier with the output class_probabilities; None takes the model's own classes.
        color: "rgb" or "bgr", the order of the channels of pixels.
        jpeg_quality: Pixels are sent as JPEG of this quality, 1 to 100, without chroma subsampling.
        request_id: The prefix of the ids of requests, which the server logs. None draws one.
        options: Options of the connection: retries, headers, TLS, compression, keepalive. Its
            timeout_s takes precedence over `timeout_s`.

    Attributes:
        address: The server's `Address`.
        options: The `ConnectionOptions` in use.
        model: The model's name.
        concurrency: The maximum number of requests in flight.

    Raises:
        ClientError: No server responds at the address, it does not serve the model, or the model's
            labels cannot be read.
        InvalidArgumentError: An option cannot be used.
        UnsupportedError: The model does not support an option.
    """

    _make_runtime = Threads

    def __enter__(self) -> DetectionClient:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        run(self._end(at_once=kind is not None))

    def close(self) -> None:
        """Wait for requests in flight and close the connections.

        Images that were not sent have results with the status "cancelled".
        """
        run(self._end())

    def detect(
        self, images: Iterable[Image], *, on_result: Callable[[ImageResult], None] | None = None
    ) -> Results:
        """Return the result of each image, in the order of `images`.

        An image that fails has its own status and message, and does not affect the others. If the
        client is closed meanwhile, images that were not sent have the status "cancelled", and an
        iterable without a length is read no further. In asyncio, cancelling the task that awaits
        the results cancels its requests.

        Args:
            images: An iterable, read on demand; at most concurrency * batch images are in memory.
                Results do not wait for the next image: a thread of the client reads the iterable,
                or with asyncio the event loop, which also takes asynchronous iterables.
            on_result: A function that is called, in this thread or event loop, with the result of
                each image as soon as it is available.
        """
        return run(self._detect(images, on_result=on_result))

    def detect_one(self, image: Image, *, step: SequenceStep | None = None) -> ImageResult:
        """Return the result of one image.

        Args:
            image: As for `detect`.
            step: Its position in a sequence of a stateful model, for frames whose results are
                needed at once. Such a request is not retried. For an iterable of frames use
                `track`.
        """
        return run(self._detect_one(image, step=step))

    def detect_stream(
        self, images: Iterable[Image], *, sequence: int | str | None = None
    ) -> Generator[ImageResult, None, None]:
        """Yield the results of images, in the order of `images`, as they arrive.

        At most `concurrency` images are in flight; of a sequence, or for a decoupled model, one. A
        decoupled model returns several results for an image; the last one has `final` set, and may
        be empty. Results do not wait for the next image.

        Args:
            images: As for `detect`.
            sequence: The id, a number above 0 or a text, of the images as one sequence of a
                stateful model. The first image that is sent starts it, the last one ends it; each
                is therefore sent when the next one is read. A caller that stops early leaves the
                sequence open.

        Raises:
            UnsupportedError: Over HTTP, with shared memory, or with batches.
        """
        return iterate(self._detect_stream(images, sequence=sequence))

    def track(
        self,
        frames: Iterable[Image],
        *,
        sequence: int | str,
        timestamps: Iterable[float] | None = None,
    ) -> Generator[ImageResult, None, None]:
        """Yield the results of the frames of a camera or a file, with `track_ids`, in their order.

        A frame is sent when the previous one has its result, so that the server's tracker receives
        them in order; several sequences are tracked at the same time by as many calls. A damaged
        frame has its own status, and the sequence continues. A frame whose time stamp is not finite
        or not after the previous one has the status "invalid_argument" and is not sent. After a
        failed request, as by a restart of the server or a long pause, the sequence begins again.

        Args:
            frames: Images, as for `detect`. Each is sent when the next one is read, since the last
                one ends the sequence; a caller that stops early leaves it to the server to drop.
            sequence: The id of the sequence, a number above 0 or a text, such as `camera 7`. It
                must be unique among the current sequences.
            timestamps: The time of each frame in seconds, increasing, where frames are missing or
                the rate varies; see `endcap.Tracker`. One is read with each frame.

        Raises:
            InvalidArgumentError: `timestamps` ends before `frames`.
            UnsupportedError: The model returns no tracks, or takes no time stamps; over HTTP, with
                shared memory, or with batches.
        """
        return iterate(self._track(frames, sequence=sequence, timestamps=timestamps))

    def video(
        self, video: Video, *, options: Mapping[str, object] | None = None
    ) -> Generator[ImageResult, None, None]:
        """Yield the results of a video's frames, which the server reads, in their order.

        This needs a model that reads videos, such as `video` of the shipped repository. Each result
        has the position of its frame in `frame`, and track ids unless `options` say otherwise. A
        frame that fails has its own status. A video that cannot be read to its end has a last
        result without `frame`, with the reason in `error`. A caller that stops early ends the
        server's work.

        Args:
            video: The bytes of a video file, or its path.
            options: Options of the model, such as `{"every": 2}`: see "On a server" in the
                documentation of videos.

        Raises:
            InvalidArgumentError: Options that cannot be written as JSON.
            UnsupportedError: The model reads no videos; over HTTP, or with shared memory.
        """
        return iterate(self._video(video, options=options))


class AsyncDetectionClient(StreamDetector):
    """`DetectionClient` for asyncio, with the same arguments and results.

    It connects when its `async with` block begins, and any number of tasks of that event loop may
    use it at once.
    """

    _make_runtime = Tasks
    detect = StreamDetector._detect
    detect_one = StreamDetector._detect_one
    detect_stream = StreamDetector._detect_stream
    track = StreamDetector._track
    video = StreamDetector._video

    async def __aenter__(self) -> AsyncDetectionClient:
        await self._connect()
        return self

    async def __aexit__(self, kind: object, *error: object) -> None:
        await self._end(at_once=kind is not None)

    async def close(self) -> None:
        """Wait for requests in flight and close the connections; see `DetectionClient.close`."""
        await self._end()
