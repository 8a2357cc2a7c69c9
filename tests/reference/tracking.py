"""ByteTrack by its definition (arXiv 2110.06864), one object and one matrix at a time.

Everything is float64; the Kalman filter has its matrices of eight rows written out, and matches are
the best of all that there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import block_diag
from scipy.optimize import linear_sum_assignment

from tests.reference.matching import turn_and_scale

Floats = npt.NDArray[np.float64]

_SEEN = np.eye(4, 8)
_PLACE, _SPEED = 1 / 20, 1 / 160  # deviations, in parts of the box's height


@dataclass
class Track:
    """One track; `state` is unconfirmed, tracked or lost."""

    id: int
    state: str
    class_id: int
    first_frame: float
    last_frame: float
    mean: Floats  # centre x, y, width over height, height, and their velocities
    covariance: Floats
    row: int = -1  # the detection of this frame
    overdue: bool = False  # was lost for too long

    def box(self) -> Floats:
        cx, cy, aspect, height = self.mean[:4]
        half = np.array([aspect * height, height]) / 2
        return np.concatenate([np.array([cx, cy]) - half, np.array([cx, cy]) + half])


def _measured(box: Floats) -> Floats:
    width, height = box[2] - box[0], box[3] - box[1]
    return np.array([box[0] + width / 2, box[1] + height / 2, width / height, height])


def _iou(a: Floats, b: Floats) -> float:
    common = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    if (common <= 0).any():
        return 0.0
    both = (a[2:] - a[:2]).prod() + (b[2:] - b[:2]).prod() - common.prod()
    return float(common.prod() / both)


class ByteTrack:
    """The tracks of one sequence; parameters are those of `endcap.Tracker`."""

    def __init__(
        self,
        *,
        high: float = 0.25,
        low: float = 0.1,
        new: float = 0.25,
        costs: tuple[float, float, float] = (0.8, 0.5, 0.7),
        fuse_score: bool = True,
        class_agnostic: bool = True,
        max_lost_frames: int = 30,
        duplicate_iou: float = 0.85,
    ) -> None:
        self.high, self.low, self.new = high, low, new
        self.costs = costs
        self.fuse_score = fuse_score
        self.class_agnostic = class_agnostic
        self.max_lost_frames = max_lost_frames
        self.duplicate_iou = duplicate_iou
        self.tracks: list[Track] = []
        self.frame = 0.0
        self.next_id = 1
        self.step = 1.0  # frames since the previous one
        self.camera: Floats | None = None  # its motion since then, [2, 3]

    def update(self, boxes: Any, scores: Any, class_ids: Any) -> list[int]:
        """Return the id of each detection, -1 for none."""
        is_first = self.frame == 0
        self.frame += self.step
        boxes = np.asarray(boxes, np.float64).reshape(-1, 4)
        scores = np.asarray(scores, np.float64)
        self.seen = (boxes, scores, class_ids)
        for track in self.tracks:
            track.row = -1
            if self.camera is not None:
                turn, scale = turn_and_scale(self.camera)
                move = np.kron(np.eye(2), block_diag(turn, 1, scale))
                track.mean = move @ track.mean
                track.mean[:2] += self.camera[:, 2]
                track.covariance = move @ track.covariance @ move.T
            if track.state != "unconfirmed":
                self._predict(track)
        high = [i for i, score in enumerate(scores) if score >= self.high]
        low = [i for i, score in enumerate(scores) if self.low < score < self.high]
        confirmed = [track for track in self.tracks if track.state != "unconfirmed"]
        unconfirmed = [track for track in self.tracks if track.state == "unconfirmed"]
        confirmed, high = self._associate(confirmed, high, self.costs[0], self.fuse_score)
        missing = [track for track in confirmed if track.state == "tracked"]
        missing, _ = self._associate(missing, low, self.costs[1], False)
        unconfirmed, high = self._associate(unconfirmed, high, self.costs[2], self.fuse_score)
        # As in ultralytics: in the frame after it was lost for too long a track may come back.
        lost = [track for track in self.tracks if track.state == "lost"]
        ended = [track for track in [*lost, *missing] if track.overdue]
        for track in lost:
            track.overdue |= self.frame - track.last_frame > self.max_lost_frames + 0.5
        for track in missing:
            track.state = "lost"
        self._remove(ended + unconfirmed)
        for i in high:
            if scores[i] >= self.new:
                self._start(i, "tracked" if is_first else "unconfirmed")
        self._remove(self._duplicates())
        ids = [-1] * len(scores)
        for track in self.tracks:
            if track.state == "tracked" and track.row >= 0:
                ids[track.row] = track.id
        return ids

    def _predict(self, track: Track) -> None:
        transition = np.eye(8) + self.step * np.eye(8, k=4)
        if track.state == "lost":
            track.mean[7] = 0
        height = track.mean[3]
        place, speed = _PLACE * height, _SPEED * height
        noise = np.array([place, place, 1e-2, place, speed, speed, 1e-5, speed])
        track.mean = transition @ track.mean
        track.covariance = transition @ track.covariance @ transition.T
        track.covariance += self.step * np.diag(noise**2)

    def _correct(self, track: Track, box: Floats) -> None:
        place = _PLACE * track.mean[3]
        noise = np.diag(np.array([place, place, 1e-1, place]) ** 2)
        innovation = _SEEN @ track.covariance @ _SEEN.T + noise
        gain = track.covariance @ _SEEN.T @ np.linalg.inv(innovation)
        track.mean = track.mean + gain @ (_measured(box) - _SEEN @ track.mean)
        track.covariance = track.covariance - gain @ innovation @ gain.T

    def _associate(
        self, tracks: list[Track], rows: list[int], most: float, fuse: bool
    ) -> tuple[list[Track], list[int]]:
        boxes, scores, class_ids = self.seen
        gains = np.zeros((len(tracks), len(rows)))
        for t, track in enumerate(tracks):
            for r, i in enumerate(rows):
                if not self.class_agnostic and class_ids[i] != track.class_id:
                    continue
                iou = _iou(track.box(), boxes[i])
                gain = most - (1 - (iou * scores[i] if fuse else iou))
                if iou > 0 and gain > 0:
                    gains[t, r] = gain
        pairs = zip(*linear_sum_assignment(gains, maximize=True), strict=True)
        matched = [(t, rows[r]) for t, r in pairs if gains[t, r] > 0]
        for t, i in matched:
            self._correct(tracks[t], boxes[i])
            tracks[t].state = "tracked"
            tracks[t].last_frame = self.frame
            tracks[t].class_id = int(class_ids[i])
            tracks[t].row = i
        matched_tracks = {t for t, _ in matched}
        matched_rows = {i for _, i in matched}
        return (
            [track for t, track in enumerate(tracks) if t not in matched_tracks],
            [i for i in rows if i not in matched_rows],
        )

    def _start(self, row: int, state: str) -> None:
        boxes, _, class_ids = self.seen
        height = boxes[row][3] - boxes[row][1]
        place, speed = 2 * _PLACE * height, 10 * _SPEED * height
        deviations = np.array([place, place, 1e-2, place, speed, speed, 1e-5, speed])
        self.tracks.append(
            Track(
                id=self.next_id,
                state=state,
                class_id=int(class_ids[row]),
                first_frame=self.frame,
                last_frame=self.frame,
                mean=np.concatenate([_measured(boxes[row]), np.zeros(4)]),
                covariance=np.diag(deviations**2),
                row=row,
            )
        )
        self.next_id += 1

    def _duplicates(self) -> list[Track]:
        dropped = []
        for track in self.tracks:
            for lost in self.tracks:
                if track.state == "lost" or lost.state != "lost":
                    continue
                if _iou(track.box(), lost.box()) > self.duplicate_iou:
                    age = track.last_frame - track.first_frame
                    dropped.append(lost if age > lost.last_frame - lost.first_frame else track)
        return dropped

    def _remove(self, ended: list[Track]) -> None:
        self.tracks = [track for track in self.tracks if not any(track is each for each in ended)]
