"""Tracks: the detections of a sequence of frames joined over time."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from difflib import get_close_matches
from numbers import Integral, Real
from typing import TYPE_CHECKING, Literal, TypedDict

import numpy as np
import numpy.typing as npt

import endcap._core as _core
from endcap._arrays import to_array
from endcap.detections import ImageDetections
from endcap.errors import InvalidArgumentError, UnsupportedError
from endcap.parameters import Parameter, check_name, list_parameters, to_parameters

if TYPE_CHECKING:
    from typing_extensions import Unpack

Preset = Literal[
    "bytetrack",
    "bytetrack_trackers",
    "ocsort",
    "bytetrack_ultralytics_8.4",
    "bytetrack_trackers_2.6",
    "ocsort_trackers_2.6",
]
_ULTRALYTICS_PRESETS = ("bytetrack", "bytetrack_ultralytics_8.4")
_BUFFER_RATE = 30.0  # frames a second that track_buffer is counted in
_MAX_RATE = 1000
_MAX_BUFFER = 30000


class TrackParameters(TypedDict, total=False):
    """What `Tracker` takes by name, in addition to preset, frame_rate and track_buffer."""

    high_score_threshold: float | None
    low_score_threshold: float | None
    new_track_threshold: float | None
    match_threshold: float | None
    second_match_threshold: float | None
    unconfirmed_match_threshold: float | None
    fuse_score: bool | None
    class_agnostic: bool | None
    duplicate_iou: float | None
    max_tracks: int | None
    confirm_frames: int | None
    direction_weight: float | None
    direction_frames: int | None


def _check_names(fields: Iterable[str]) -> None:
    """Raise InvalidArgumentError for a name that is not a parameter, as the core's max_lost_frames.

    Args:
        fields: The names given in addition to preset, frame_rate and track_buffer.
    """
    for name in fields:
        if name not in TrackParameters.__annotations__:
            names = ["preset", "frame_rate", "track_buffer", *TrackParameters.__annotations__]
            close = get_close_matches(name, names, 1, 0.8)
            raise InvalidArgumentError(
                f"{name!r} is not a tracking parameter: there are {', '.join(names)}"
                + (f"; did you mean {close[0]!r}?" if close else "")
            )


def _is_number(value: object, kind: type) -> bool:
    """Return whether a value is a number of a kind; mypy does not count float as Real."""
    return isinstance(value, kind)


class Tracker:
    """Gives the detections of one camera or video ids that stay with an object.

    A Kalman filter says where a track is in the next frame, and detections continue tracks by
    optimal assignment. ByteTrack (arXiv 2110.06864): those with high scores first, those with low
    scores the tracks that remain. OC-SORT (arXiv 2203.14360): high scores alone, also by the
    direction of motion. One tracker is for one sequence of frames, given in their order; calls of
    several threads wait for each other.

    A parameter that has no meaning in the preset's method is refused. Defaults are the preset's.

    Args:
        preset: ``bytetrack``, as ultralytics' ``bytetrack.yaml``; ``bytetrack_trackers`` and
            ``ocsort``, as the package ``trackers`` has these. They follow the newest versions;
            ``bytetrack_ultralytics_8.4``, ``bytetrack_trackers_2.6`` and ``ocsort_trackers_2.6``
            stay what these versions have.
        frame_rate: frames a second, by which ``track_buffer`` and time stamps are scaled.
        track_buffer: frames that a track without detections is kept for, at 30 frames a second.
        fields: the parameters by name, of ``TrackParameters``, such as high_score_threshold=0.5 or
            max_tracks=200. ``describe()`` and docs/tracking.md tell their meanings.

    Raises:
        InvalidArgumentError: an unknown preset or an impossible value.
    """

    @list_parameters(TrackParameters)
    def __init__(
        self,
        preset: Preset = "bytetrack",
        *,
        frame_rate: float = _BUFFER_RATE,
        track_buffer: int = 30,
        **fields: Unpack[TrackParameters],
    ) -> None:
        check_name(preset, "preset", f"the default is {_ULTRALYTICS_PRESETS[0]}")
        _check_names(fields)
        if not _is_number(frame_rate, Real) or not 0 < frame_rate <= _MAX_RATE:
            raise InvalidArgumentError(
                f"frame_rate is {frame_rate!r}: give frames a second, above 0, up to {_MAX_RATE}"
            )
        if not _is_number(track_buffer, Integral) or not 0 <= track_buffer <= _MAX_BUFFER:
            raise InvalidArgumentError(
                f"track_buffer is {track_buffer!r}: give a whole number of frames from 0 to "
                f"{_MAX_BUFFER}"
            )
        frames = frame_rate / _BUFFER_RATE * track_buffer
        lost = int(frames) if preset in _ULTRALYTICS_PRESETS else math.ceil(frames)
        rate = {"max_lost_frames": lost, "frame_rate": float(frame_rate)}
        self._preset = preset
        self._core = _core.Tracker(to_parameters({"preset": preset, **rate, **fields}))

    def __call__(
        self,
        detections: ImageDetections,
        *,
        timestamp: float | None = None,
        camera_motion: npt.ArrayLike | None = None,
    ) -> ImageDetections:
        """Take in the next frame, and return its detections with ``track_ids``.

        All detections come back, in their order, with all that they have. Those that belong to no
        track have the id -1: with low scores and no track near, or of a track that later frames
        have to confirm (in ``bytetrack`` a second one, and none in the first frame of a sequence,
        whose tracks have ids at once). Keep tracked ones by ``tracked[tracked.track_ids >= 0]``.
        A frame without detections has to be given, too, and one that was not looked at be skipped,
        or follow from the time stamps.

        Args:
            detections: of the frame.
            timestamp: seconds, from any start. Tracks move and age by the time since the previous
                frame, by one frame if one of these has no time stamp.
            camera_motion: [2, 3], maps points of the previous frame to this one, as that of
                ``cv2.estimateAffinePartial2D``; moves tracks as in BoT-SORT (arXiv 2206.14651).

        Raises:
            InvalidArgumentError: a box or a score that is not finite, a box beyond 10 million
                pixels, more than 2000 detections, a time stamp that is not finite or not after the
                previous one, or a camera motion that mirrors or has no inverse.
            UnsupportedError: rotated boxes.
        """
        if detections.angles is not None:
            raise UnsupportedError(
                "rotated boxes cannot be tracked: leave the angles out by "
                "dataclasses.replace(detections, angles=None), which tracks the boxes unrotated"
            )
        matrix = None
        if camera_motion is not None:
            matrix = to_array(camera_motion, np.float64, "camera_motion")
        if matrix is not None and matrix.shape != (2, 3):
            raise InvalidArgumentError(f"camera_motion has the shape {matrix.shape}: give [2, 3]")
        ids = self._core.update(
            np.ascontiguousarray(detections.boxes, np.float32),
            np.ascontiguousarray(detections.scores, np.float32),
            np.ascontiguousarray(detections.class_ids, np.int32),
            timestamp,
            None if matrix is None else matrix.ravel().tolist(),
        )
        return replace(detections, track_ids=ids)

    def skip(self, frames: int) -> None:
        """Skip frames of the sequence that were not looked at, as those that a live source dropped.

        Tracks move on by their speed, and lost ones age. A track that was in the last frame looked
        at does not become lost by it, nor does one end that waits to be confirmed. All end where
        more frames are skipped than a track without detections is kept for. The next frame follows
        these at once, whatever its time stamp.

        Raises:
            InvalidArgumentError: a negative number.
        """
        self._core.skip(frames)

    def __repr__(self) -> str:
        return f"<Tracker {self._preset}, frame {self.frames}, {self.track_count} tracks>"

    @property
    def frames(self) -> int:
        """Frames since the beginning or ``reset()``: those given and those of ``skip()``."""
        return self._core.frames

    @property
    def track_count(self) -> int:
        """Tracks now, those included that are lost or not confirmed yet."""
        return self._core.track_count

    @property
    def parameters(self) -> dict[str, str]:
        """Every parameter and its value as text."""
        return {row.name: row.value for row in self.describe()}

    def describe(self) -> list[Parameter]:
        """Return every parameter with its meaning, the values it may have, and its value."""
        return [Parameter(*row) for row in self._core.parameters]

    def reset(self) -> None:
        """Forget all tracks, for another sequence; ids begin at 1 again."""
        self._core.reset()

    def save(self) -> bytes:
        """Return the tracks as bytes, without the parameters."""
        return self._core.save()

    def restore(self, state: bytes) -> None:
        """Continue where ``save()`` was called, here or in another process.

        Raises:
            InvalidArgumentError: bytes that are no such state, one of another preset, or more
                tracks than ``max_tracks``; the tracks stay as they were.
        """
        self._core.restore(state)
