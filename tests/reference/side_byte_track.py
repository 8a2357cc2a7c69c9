"""ByteTrack with a filter of the box's sides, one track and one matrix at a time, in float64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import block_diag

from tests.reference.matching import Floats, match, turn_and_scale

_SEEN = np.eye(4, 8)


@dataclass
class Track:
    """One track; `id` is -1 until it is confirmed."""

    mean: Floats  # x1, y1, x2, y2 and their velocities
    covariance: Floats
    class_id: int
    id: int = -1
    missed: float = 0  # frames since the last detection
    consecutive: int = 1

    def predict(self, step: float) -> None:
        transition = np.eye(8) + step * np.eye(8, k=4)
        self.mean = transition @ self.mean
        self.covariance = transition @ self.covariance @ transition.T + step * 0.01 * np.eye(8)
        if self.missed > 0:
            self.consecutive = 0
        self.missed += step

    def move(self, camera: Floats) -> None:
        """Turn the centre, and scale the distance of the sides from it."""
        turn, scale = turn_and_scale(camera)
        of_sides = np.array([[1, 0, 1, 0], [0, 1, 0, 1], [-1, 0, 1, 0], [0, -1, 0, 1]]) / 2
        four = np.linalg.inv(of_sides) @ block_diag(turn, scale, scale) @ of_sides
        move = np.kron(np.eye(2), four)
        self.mean = move @ self.mean + np.concatenate([camera[:, 2], camera[:, 2], np.zeros(4)])
        self.covariance = move @ self.covariance @ move.T

    def correct(self, box: Floats) -> None:
        noise = _SEEN @ self.covariance @ _SEEN.T + 0.1 * np.eye(4)
        gain = self.covariance @ _SEEN.T @ np.linalg.inv(noise)
        self.mean = self.mean + gain @ (box - _SEEN @ self.mean)
        self.covariance = (np.eye(8) - gain @ _SEEN) @ self.covariance
        self.missed = 0
        self.consecutive += 1


class SideByteTrack:
    """The tracks of a sequence; defaults are those of the preset bytetrack_trackers."""

    def __init__(
        self,
        *,
        high: float = 0.6,
        low: float = 0.0,
        new: float = 0.7,
        ious: tuple[float, float] = (0.1, 0.1),
        confirm_frames: int = 2,
        max_lost_frames: int = 30,
        class_agnostic: bool = True,
    ) -> None:
        self.high, self.low, self.new, self.ious = high, low, new, ious
        self.confirm_frames, self.max_lost_frames = confirm_frames, max_lost_frames
        self.class_agnostic = class_agnostic
        self.tracks: list[Track] = []
        self.next_id = 1
        self.step = 1.0  # frames since the previous one
        self.camera: Floats | None = None  # its motion since then, [2, 3]

    def update(self, boxes: Any, scores: Any, class_ids: Any) -> list[int]:
        """Return the id of each detection, -1 for none."""
        boxes = np.asarray(boxes, np.float64).reshape(-1, 4)
        scores = np.asarray(scores, np.float32)
        ids = [-1] * len(scores)
        for track in self.tracks:
            if self.camera is not None:
                track.move(self.camera)
            track.predict(self.step)
        is_high = scores >= np.float32(self.high)
        is_low = ~is_high & (scores >= np.float32(self.low))
        wanted = list(self.tracks)
        high = np.flatnonzero(is_high).tolist()
        low = np.flatnonzero(is_low).tolist()
        for numbers, least in zip((high, low), self.ious, strict=True):
            last = [track.mean[:4] for track in wanted]
            for track, number in match(
                *(wanted, numbers, (boxes, class_ids), last, least),
                class_agnostic=self.class_agnostic,
            ):
                track.correct(boxes[number])
                if track.id < 0 and track.consecutive >= self.confirm_frames:
                    track.id = self.next_id
                    self.next_id += 1
                ids[number] = track.id
        for number in high:
            if float(scores[number]) >= self.new:
                mean = np.concatenate([boxes[number], np.zeros(4)])
                self.tracks.append(Track(mean, np.eye(8), int(class_ids[number])))
        self.tracks = [
            track
            for track in self.tracks
            if track.missed <= self.max_lost_frames + 0.5 and (track.id > 0 or track.missed == 0)
        ]
        return ids
