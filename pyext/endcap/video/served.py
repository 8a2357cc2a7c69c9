"""The work of the model `video`: one video's frames through another model, in their order.

A thread of the request reads frames, some of the model's call the detector, and another one of the
request takes the results in the order of the frames, tracks them and sends them.
"""

from __future__ import annotations

import contextlib
import io
import random
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from endcap.detections import ImageDetections
from endcap.errors import EndcapError, ImageLimitError, InvalidArgumentError, Status
from endcap.python_backend.bls import CallModel, ModelCall, Tensor
from endcap.python_backend.failures import ModelCallError, RequestCancelledError, status_of
from endcap.tracking import Tracker
from endcap.triton.video_settings import VideoOptions, VideoSettings
from endcap.triton.video_sources import find_address
from endcap.video.frames import VideoFrame
from endcap.video.in_order import submit_in_order
from endcap.video.reader import VideoReader
from endcap.video.relay import Relay
from endcap.video.source import Source
from endcap.yuv import YuvImage

_RATE_WITHOUT_ONE = 30.0  # frames a second, for the tracker
_MOST_RATE = 1000.0
_ROWS = ("detection_boxes", "detection_scores", "detection_classes", "detection_indices")
_NUMBERS = ("num_detections", "status")

Row = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class VideoInput:
    """What a request names: the bytes of a file, or a camera or address."""

    encoded: bytes | None = None
    source: str | None = None

    def __post_init__(self) -> None:
        if (self.encoded is None) == (self.source is None):
            given = "both" if self.encoded is not None else "neither"
            raise InvalidArgumentError(
                f"the request has {given} of the inputs 'encoded' and 'source': give the bytes of "
                "a video, or the name of a camera or an address"
            )


@dataclass(frozen=True)
class _Detected:
    """Detections of a frame, or why there are none."""

    detections: ImageDetections
    status: Status = Status.OK
    error: Exception | None = None


class VideoJob:
    """One request, from its source to the outputs of each frame.

    Args:
        given: What to read.
        settings: Of the model.
        options: Of the request.
        call: Calls a model from any thread; raises ModelCallError where that fails.
        threads: Where calls are made.
    """

    def __init__(
        self,
        given: VideoInput,
        settings: VideoSettings,
        options: VideoOptions,
        *,
        call: CallModel,
        threads: Executor,
    ) -> None:
        self._given = given
        self._settings = settings
        self._options = options
        self._call = call
        self._threads = threads
        self._stopped_by: Exception | None = None
        self._has_stopped = threading.Event()
        self._lock = threading.Lock()
        self._opened: list[Relay | VideoReader] = []
        self.failed_frames = 0
        self.first_failure: Exception | None = None

    def stop(self, reason: Exception | None = None) -> None:
        """End the work soon, from any thread; `frames` raises the reason.

        Args:
            reason: RequestCancelledError where it is None.
        """
        with self._lock:
            if self._stopped_by is not None:
                return
            self._stopped_by = reason or RequestCancelledError()
            opened = list(self._opened)
        self._has_stopped.set()
        for each in opened:  # the relay first, which ends a read that the reader waits for
            each.close()

    def frames(self) -> Iterator[Row]:
        """Yield the outputs of each frame, in their order.

        Raises:
            InvalidArgumentError: The source is not allowed, or there is none.
            ImageLimitError: The video is larger or longer than the model takes.
            EndcapError: The video cannot be read.
            RequestCancelledError: `stop` was called, or the reason that it was given.
        """
        with contextlib.ExitStack() as stack:
            try:
                reader = self._open(stack)
                self._check_stopped()
                yield from self._detect(reader)
            except Exception:
                self._check_source()  # whatever came of that
                raise
            self._check_source()

    def _open(self, stack: contextlib.ExitStack) -> VideoReader:
        options, settings = self._options, self._settings
        reader = VideoReader(
            self._source(stack),
            rate=options.rate,
            every=options.every,
            keyframes_only=options.keyframes_only,
            on_full=options.on_full,  # type: ignore[arg-type]
            timeout_s=settings.timeout_s,
            threads=settings.decode_threads,
        )
        stack.callback(reader.close)
        self._keep(reader)
        return reader

    def _source(self, stack: contextlib.ExitStack) -> bytes | Source:
        """Return what the reader opens."""
        settings = self._settings
        if self._given.encoded is not None:
            size = len(self._given.encoded)
            if size > settings.max_file_bytes:
                raise ImageLimitError(
                    f"the video has {size} bytes, and {settings.max_file_bytes} is the limit of "
                    "the parameter max_file_bytes"
                )
            return self._given.encoded
        name, address = find_address(
            self._given.source or "", settings.cameras, settings.url_prefixes
        )
        is_file = address.scheme.startswith("http")
        relay = Relay(
            name,
            address,
            timeout_s=settings.timeout_s,
            max_bytes=settings.max_file_bytes if is_file else None,
        )
        stack.callback(relay.close)
        self._keep(relay)
        return relay.source

    def _keep(self, opened: Relay | VideoReader) -> None:
        with self._lock:
            self._opened.append(opened)
            is_stopped = self._stopped_by is not None
        if is_stopped:
            opened.close()

    def _check_source(self) -> None:
        """Raise what ended the video before its end, which a decoder takes for damage."""
        self._check_stopped()
        for each in self._opened:
            if isinstance(each, Relay) and each.error is not None:
                raise each.error

    def _check_stopped(self) -> None:
        if self._stopped_by is not None:
            raise self._stopped_by

    def _detect(self, reader: VideoReader) -> Iterator[Row]:
        tracker = Tracker(frame_rate=self._tracker_rate(reader)) if self._options.track else None
        results = submit_in_order(
            lambda frame: self._threads.submit(self._detect_frame, frame),
            self._frames(reader),
            ahead=self._settings.frames_in_flight,
        )
        with contextlib.closing(results):
            try:
                for frame, detected in results:
                    self._check_stopped()
                    yield self._row(frame, detected, tracker)
            except GeneratorExit:
                self.stop()
                raise

    def _frames(self, reader: VideoReader) -> Iterator[VideoFrame]:
        """Yield the frames that are detected."""
        wanted, most = self._options.max_frames, self._settings.max_frames
        for count, frame in enumerate(reader):
            if wanted is not None and count >= wanted:
                return
            if count >= most:
                raise ImageLimitError(
                    f"the video has more than {most} frames, the limit of the parameter max_frames"
                )
            yield frame

    def _detect_frame(self, frame: VideoFrame) -> _Detected:
        if self._stopped_by is not None:
            return _Detected(ImageDetections.from_list([]))
        try:
            call = ModelCall(
                model=self._settings.model,
                inputs={"encoded": _element(frame_bytes(frame.image))},
                outputs=(*_NUMBERS, *_ROWS),
            )
            return self._read(call.model, self._call_until_accepted(call))
        except Exception as error:
            return _Detected(ImageDetections.from_list([]), _failure_class(error), error)

    def _call_until_accepted(self, call: ModelCall) -> dict[str, Tensor]:
        """Call the model, and again what it refuses for too much work, when it asks for that."""
        end = time.monotonic() + self._settings.timeout_s
        while True:
            try:
                return self._call(call)
            except ModelCallError as error:
                if error.retry_after_s is None:
                    raise
                # Not all frames at the same time.
                wait_s = error.retry_after_s * random.uniform(1, 2)
                if time.monotonic() + wait_s >= end or self._has_stopped.wait(wait_s):
                    raise

    def _read(self, model: str, outputs: Mapping[str, Tensor]) -> _Detected:
        try:
            count, status = (int(outputs[name].as_numpy().item()) for name in _NUMBERS)
            boxes, *others = (outputs[name].as_numpy() for name in _ROWS)
            rows = [boxes.reshape(-1, 4), *(each.reshape(-1) for each in others)]
            if not 0 <= count <= min(map(len, rows)) or len({*map(len, rows)}) > 1:
                raise ValueError(f"{count} detections in {[each.shape for each in rows]}")
        except (KeyError, ValueError) as error:
            raise InvalidArgumentError(
                f"model '{model}': its outputs are not the detections of one image: {error}"
            ) from error
        kept = rows[1][:count] >= self._options.score_threshold
        boxes, scores, class_ids, indices = (each[:count][kept] for each in rows)
        detections = ImageDetections(
            boxes=np.array(boxes, np.float32),
            scores=np.array(scores, np.float32),
            class_ids=np.array(class_ids, np.int32),
            indices=np.array(indices, np.int32),
        )
        return _Detected(detections, Status(status))

    def _row(self, frame: VideoFrame, detected: _Detected, tracker: Tracker | None) -> Row:
        detections, status = detected.detections, detected.status
        if detected.error is not None:
            self.failed_frames += 1
            self.first_failure = self.first_failure or detected.error
        if tracker is not None:
            tracker.skip(frame.dropped)
            try:
                detections = tracker(detections)
            except EndcapError as error:
                status, detections = error.status, tracker(ImageDetections.from_list([]))
        # A tensor without elements would not say of which frame it is: one row at least.
        rows = max(1, len(detections))
        return {
            "num_detections": np.array([len(detections)], np.int32),
            "detection_boxes": _padded(detections.boxes, (rows, 4), np.float32, 0),
            "detection_scores": _padded(detections.scores, (rows,), np.float32, 0),
            "detection_classes": _padded(detections.class_ids, (rows,), np.int32, 0),
            "detection_indices": _padded(detections.indices, (rows,), np.int32, -1),
            "track_ids": _padded(detections.track_ids, (rows,), np.int64, -1),
            "frame_index": np.array([frame.index], np.int64),
            "pts_seconds": np.array([frame.seconds], np.float64),
            "dropped": np.array([frame.dropped], np.int64),
            "status": np.array([status], np.int32),
        }

    def _tracker_rate(self, reader: VideoReader) -> float:
        options = self._options
        if options.frame_rate is not None:
            return options.frame_rate
        rate = float(reader.frame_rate or 0)
        if options.keyframes_only or not 0 < rate <= _MOST_RATE:
            return options.rate or _RATE_WITHOUT_ONE
        return rate / options.every if options.rate is None else min(rate, options.rate)


def frame_bytes(image: YuvImage | npt.NDArray[np.uint8]) -> bytes:
    """Return a frame's image as a file without a loss: Y4M, or PNG for gray and RGB."""
    if isinstance(image, YuvImage):
        return image.to_y4m()
    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG", compress_level=1)
    return file.getvalue()


def _element(content: bytes) -> npt.NDArray[np.object_]:
    element = np.empty((1, 1), np.object_)
    element[0, 0] = content
    return element


def _padded(
    values: npt.NDArray[Any] | None, shape: tuple[int, ...], dtype: type, filling: float
) -> npt.NDArray[Any]:
    padded: npt.NDArray[Any] = np.full(shape, filling, dtype)
    if values is not None:
        padded[: len(values)] = values
    return padded


def _failure_class(error: Exception) -> Status:
    """Return a frame's status: that of a called model by its text, as endcap's own write it."""
    return error.status if isinstance(error, ModelCallError) else status_of(error)
