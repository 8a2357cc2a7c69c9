"""Sequences of the page: the frames of a video or a camera, or several pictures, with tracks."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from endcap.client import ClientError, DetectionClient, ImageResult, SequenceStep
from endcap.errors import EndcapError, Status
from endcap.tracking import Tracker

_TRACK_IDS = "track_ids"
_ID_BYTES = 16
# Statuses of a frame alone; the server's tracker has taken it for one without detections.
_FRAME_STATUSES = frozenset(
    each.label for each in (Status.CORRUPT_IMAGE, Status.IMAGE_LIMIT, Status.UNSUPPORTED)
)


@dataclass(frozen=True, kw_only=True)
class SequenceLimits:
    """Limits of the sequences.

    Attributes:
        most: How many there are at once, of all browsers.
        idle_s: How long one is kept without a frame.
    """

    most: int = 16
    idle_s: float = 60.0


@dataclass(frozen=True)
class Frame:
    """A frame's result, and its index in the sequence; 0 where the ids of tracks begin anew."""

    result: ImageResult
    index: int


class FrameTracker(Protocol):
    """Detects and tracks the frames of one sequence, one after the other."""

    def __call__(self, encoded: bytes) -> Frame:
        """Return the next frame's result, with `track_ids`."""


class TooManySequencesError(EndcapError, RuntimeError):
    """There are as many sequences as may be."""


class BusySequenceError(EndcapError, RuntimeError):
    """The frame before has no result yet."""


class Sequence:
    """One sequence of frames; a frame may be given when the one before has its result."""

    def __init__(self, track: FrameTracker) -> None:
        self._track = track
        self._turn = threading.Lock()

    @property
    def is_busy(self) -> bool:
        """Whether a frame is being processed."""
        return self._turn.locked()

    def track(self, encoded: bytes) -> Frame:
        """Return the result of the next frame.

        Raises:
            BusySequenceError: The frame before has no result yet.
        """
        if not self._turn.acquire(blocking=False):
            raise BusySequenceError(
                "the frame before this one has no result yet; send a frame after the response to "
                "the last one"
            )
        try:
            return self._track(encoded)
        finally:
            self._turn.release()


@dataclass
class _Entry:
    sequence: Sequence
    used: float = field(default_factory=time.monotonic)


class Sequences:
    """The sequences of all browsers by their ids; thread-safe.

    Args:
        client: Of the model that detects.
        tracking: Of a model that tracks as well, see `open_tracking`; None tracks here.
        limits: Of number and idle time.
    """

    def __init__(
        self,
        client: DetectionClient,
        tracking: DetectionClient | None = None,
        limits: SequenceLimits | None = None,
    ) -> None:
        self._client = client
        self._tracking = tracking
        self._limits = limits or SequenceLimits()
        self._entries: dict[str, _Entry] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return the number of sequences that are not idle."""
        with self._lock:
            self._drop_idle()
            return len(self._entries)

    @property
    def tracker(self) -> str:
        """The name of what tracks: a model, or the class here."""
        return "endcap.Tracker" if self._tracking is None else self._tracking.model

    def begin(self) -> str:
        """Begin a sequence and return its id.

        Raises:
            TooManySequencesError: There are too many.
        """
        with self._lock:
            self._drop_idle()
            if len(self._entries) >= self._limits.most:
                raise TooManySequencesError(
                    f"{self._limits.most} videos, cameras and series of pictures are being shown "
                    "already; stop one, or try again later"
                )
            sequence_id = secrets.token_hex(_ID_BYTES)
            self._entries[sequence_id] = _Entry(Sequence(self._make_tracker(sequence_id)))
            return sequence_id

    def find(self, sequence_id: str) -> Sequence | None:
        """Return a sequence for its next frame, None for one that has ended or was idle."""
        with self._lock:
            self._drop_idle()
            entry = self._entries.get(sequence_id)
            if entry is None:
                return None
            entry.used = time.monotonic()
            return entry.sequence

    def end(self, sequence_id: str) -> None:
        """End a sequence, if there is one of this id."""
        with self._lock:
            self._entries.pop(sequence_id, None)

    def _make_tracker(self, sequence_id: str) -> FrameTracker:
        if self._tracking is not None:
            return _ServedTracker(self._tracking, f"page {sequence_id}")
        return _LocalTracker(self._client.detect_one)

    def _drop_idle(self) -> None:
        since = time.monotonic() - self._limits.idle_s
        for sequence_id, entry in list(self._entries.items()):
            if entry.used < since and not entry.sequence.is_busy:
                del self._entries[sequence_id]


def open_tracking(client: DetectionClient, concurrency: int) -> DetectionClient | None:
    """Return a client of the model that detects as `client`'s does, and tracks, None without one.

    That is `detect_track` for `detect`: a model of the same name with `_track` behind it.
    """
    try:
        tracking = DetectionClient(
            str(client.address), model=f"{client.model}_track", concurrency=concurrency
        )
    except ClientError:
        return None
    if _TRACK_IDS in tracking.outputs:
        return tracking
    tracking.close()
    return None


class _ServedTracker:
    """Sends frames to a model of sequences.

    The server drops an idle sequence, whose next frame it refuses: that one is sent again, as the
    first one. After another failed request the sequence begins anew, too.
    """

    def __init__(self, client: DetectionClient, sequence_id: str) -> None:
        self._client = client
        self._id = sequence_id
        self._index = 0

    def __call__(self, encoded: bytes) -> Frame:
        frame = self._send(encoded)
        if frame.index > 0 and frame.result.status == Status.INVALID_ARGUMENT.label:
            frame = self._send(encoded)
        return frame

    def _send(self, encoded: bytes) -> Frame:
        index = self._index
        step = SequenceStep(self._id, start=index == 0)
        result = self._client.detect_one(encoded, step=step)
        self._index = index + 1 if result.ok or result.status in _FRAME_STATUSES else 0
        return Frame(result, index)


class _LocalTracker:
    """Tracks what `detect` returns.

    Rotated boxes are tracked as they are before their rotation. A frame that fails counts as one
    without detections.
    """

    def __init__(self, detect: Callable[[bytes], ImageResult]) -> None:
        self._detect = detect
        self._tracker = Tracker()

    def __call__(self, encoded: bytes) -> Frame:
        result = self._detect(encoded)
        index = self._tracker.frames
        try:
            tracked = self._tracker(replace(result.detections, angles=None))
        except EndcapError as error:
            failed = ImageResult(result.image, error.status.label, error=str(error))
            return Frame(failed, index)
        detections = replace(result.detections, track_ids=tracked.track_ids)
        return Frame(replace(result, detections=detections), index)
