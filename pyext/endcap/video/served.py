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
from endcap.python_backend.failures import ModelCallError, RequestCancelledError, find_status
from endcap.tracking import Tracker
from endcap.video.frames import TrackClock, VideoFrame
from endcap.video.in_order import submit_in_order
from endcap.video.reader import VideoReader
from endcap.video.settings import MAX_RATE, VideoOptions, VideoSettings
from endcap.yuv import YuvImage

_RATE_WITHOUT_ONE = 30.0  # frames a second, for the tracker
_ROWS = ("detection_boxes", "detection_scores", "detection_classes", "detection_indices")
_NUMBERS = ("num_detections", "status")

Row = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class _Detected:
    """Detections of a frame, or why there are none."""

    detections: ImageDetections
    status: Status = Status.OK
    error: Exception | None = None


class VideoJob:
    """One request, from the bytes of a video to the outputs of each frame.

    Args:
        encoded: The bytes of a video file.
        settings: Of the model.
        options: Of the request.
        call: Calls a model from any thread; raises ModelCallError where that fails.
        threads: Where calls are made.
    """

    def __init__(
        self,
        encoded: bytes,
        settings: VideoSettings,
        options: VideoOptions,
        *,
        call: CallModel,
        threads: Executor,
    ) -> None:
        self._encoded = encoded
        self._settings = settings
        self._options = options
        self._call = call
        self._threads = threads
        self._stopped_by: Exception | None = None
        self._has_stopped = threading.Event()
        self._reader: VideoReader | None = None
        self._clock = TrackClock()
        self.failed_frames = 0
        self.first_failure: Exception | None = None

    def stop(self, reason: Exception | None = None) -> None:
        """End the work soon, from any thread; `frames` raises the reason.

        Args:
            reason: RequestCancelledError where it is None.
        """
        self._stopped_by = self._stopped_by or reason or RequestCancelledError()
        self._has_stopped.set()
        if self._reader is not None:
            self._reader.close()

    def frames(self) -> Iterator[Row]:
        """Yield the outputs of each frame, in their order.

        Raises:
            ImageLimitError: The video is larger or longer than the model takes.
            EndcapError: The video cannot be read.
            RequestCancelledError: `stop` was called, or the reason that it was given.
        """
        try:
            with self._open() as reader:
                self._reader = reader
                self._check_stopped()  # it may have been called before there was a reader to close
                yield from self._detect(reader)
        except Exception:
            self._check_stopped()  # a closed reader raises its own errors
            raise
        self._check_stopped()

    def _open(self) -> VideoReader:
        options, size, most = self._options, len(self._encoded), self._settings.max_file_bytes
        if size > most:
            raise ImageLimitError(
                f"the video has {size} bytes, and {most} is the limit of the parameter "
                "max_file_bytes"
            )
        return VideoReader(
            self._encoded,
            rate=options.rate,
            every=options.every,
            keyframes_only=options.keyframes_only,
            threads=self._settings.decode_threads,
        )

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
                inputs={"encoded": np.array([[_encode_frame(frame.image)]], np.object_)},
                outputs=(*_NUMBERS, *_ROWS),
            )
            return self._read(call.model, self._call_until_accepted(call))
        except Exception as error:
            return _Detected(ImageDetections.from_list([]), find_status(error), error)

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
            # The tracker does not know the rate of key frames.
            timestamp = None if self._options.keyframes_only else self._clock.read(frame)
            try:
                detections = tracker(detections, timestamp=timestamp)
            except EndcapError as error:
                status = error.status
                detections = tracker(ImageDetections.from_list([]), timestamp=timestamp)
        # A tensor without elements would not say of which frame it is: one row at least.
        rows = max(1, len(detections))
        return {
            "num_detections": np.array([len(detections)], np.int32),
            "detection_boxes": _pad(detections.boxes, (rows, 4), np.float32, 0),
            "detection_scores": _pad(detections.scores, (rows,), np.float32, 0),
            "detection_classes": _pad(detections.class_ids, (rows,), np.int32, 0),
            "detection_indices": _pad(detections.indices, (rows,), np.int32, -1),
            "track_ids": _pad(detections.track_ids, (rows,), np.int64, -1),
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
        if options.keyframes_only or not 0 < rate <= MAX_RATE:
            return options.rate or _RATE_WITHOUT_ONE
        return rate / options.every if options.rate is None else min(rate, options.rate)


def _encode_frame(image: YuvImage | npt.NDArray[np.uint8]) -> bytes:
    """Return a frame's image as a file without a loss: Y4M, or PNG for gray and RGB."""
    if isinstance(image, YuvImage):
        return image.to_y4m()
    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG", compress_level=1)
    return file.getvalue()


def _pad(
    values: npt.NDArray[Any] | None, shape: tuple[int, ...], dtype: type, filling: float
) -> npt.NDArray[Any]:
    padded: npt.NDArray[Any] = np.full(shape, filling, dtype)
    if values is not None:
        padded[: len(values)] = values
    return padded
