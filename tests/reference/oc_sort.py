"""OC-SORT by its definition (arXiv 2203.14360), one track and one matrix at a time, in float64."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
from scipy.linalg import block_diag

from tests.reference.matching import Floats, match, turn_and_scale

# Centre x, y, area, width over height; the velocities of the first three.
_SEEN = np.eye(4, 7)
_PROCESS = np.diag([1, 1, 1, 1, 0.01, 0.01, 0.0001])
_NOISE = np.diag([1.0, 1.0, 10.0, 10.0])


def measure(box: Floats) -> Floats:
    width, height = box[2:] - box[:2]
    centre = (box[:2] + box[2:]) / 2
    return np.array([*centre, width * height, width / (height + 1e-6)])


def move_box(box: Floats, camera: Floats) -> Floats:
    turn, scale = turn_and_scale(camera)
    centre, half = (box[:2] + box[2:]) / 2, scale * (box[2:] - box[:2]) / 2
    centre = turn @ centre + camera[:, 2]
    return np.concatenate([centre - half, centre + half])


def direction(start: Floats, end: Floats) -> Floats:
    """Return the direction between the centres of boxes."""
    way = (end[:2] + end[2:]) / 2 - (start[:2] + start[2:]) / 2
    return np.asarray(way / (np.sqrt((way**2).sum()) + 1e-6))


class Filter:
    """The Kalman filter of SORT (arXiv 1602.00763)."""

    def __init__(self, measured: Floats) -> None:
        self.mean = np.concatenate([measured, np.zeros(3)])
        self.covariance = np.diag([10.0] * 4 + [10000.0] * 3)

    def predict(self, step: float) -> None:
        transition = np.eye(7) + step * np.eye(7, k=4)
        if self.mean[2] + step * self.mean[6] <= 0:
            self.mean[6] = 0.0
        self.mean = transition @ self.mean
        self.covariance = transition @ self.covariance @ transition.T + step * _PROCESS

    def move(self, camera: Floats) -> None:
        turn, scale = turn_and_scale(camera)
        move = block_diag(turn, scale**2, 1, turn, scale**2)
        self.mean = move @ self.mean
        self.mean[:2] += camera[:, 2]
        self.covariance = move @ self.covariance @ move.T

    def correct(self, measured: Floats) -> None:
        noise = _SEEN @ self.covariance @ _SEEN.T + _NOISE
        gain = self.covariance @ _SEEN.T @ np.linalg.inv(noise)
        self.mean = self.mean + gain @ (measured - _SEEN @ self.mean)
        self.covariance = (np.eye(7) - gain @ _SEEN) @ self.covariance

    def box(self) -> Floats:
        width = math.sqrt(self.mean[2] * self.mean[3])
        half = np.array([width, self.mean[2] / width]) / 2
        return np.concatenate([self.mean[:2] - half, self.mean[:2] + half])


class Track:
    """One track; `id` is -1 until it is confirmed."""

    def __init__(self, box: Floats, class_id: int) -> None:
        self.id, self.class_id = -1, class_id
        self.age = self.missed = 0.0
        self.consecutive = 0
        self.last = box
        self.seen: dict[float, Floats] = {}  # boxes by age, without the first one
        self.direction: Floats | None = None
        self.filter = Filter(measure(box))
        self.frozen: Filter | None = None  # of the first frame without a detection
        self.frozen_after = 0.0  # frames after the last detection

    def predict(self, step: float) -> None:
        if self.frozen is None and self.missed > 0:
            self.frozen, self.frozen_after = copy.deepcopy(self.filter), self.missed
        self.filter.predict(step)
        if self.missed > 0:
            self.consecutive = 0
        self.missed += step
        self.age += step

    def move(self, camera: Floats) -> None:
        turn, scale = turn_and_scale(camera)
        self.filter.move(camera)
        if self.frozen is not None:
            self.frozen.move(camera)
        self.last = move_box(self.last, camera)
        self.seen = {age: move_box(each, camera) for age, each in self.seen.items()}
        if self.direction is not None:
            self.direction = turn @ self.direction / scale

    def earlier(self, frames: int) -> Floats | None:
        """Return the box of some frames ago, else the oldest one since, else the newest."""
        before = [age for age in self.seen if self.age - frames - 0.5 <= age < self.age]
        if before:
            return self.seen[min(before)]
        return self.seen[max(self.seen)] if self.seen else None

    def correct(self, box: Floats, frames: int) -> None:
        earlier = self.earlier(frames)
        if earlier is not None:
            self.direction = direction(earlier, box)
        if self.frozen is not None:
            self._repeat(box)
        self.filter.correct(measure(box))
        self.missed = 0
        self.consecutive += 1
        self.last = box
        self.seen[self.age] = box
        oldest = self.age - frames - 0.5
        self.seen = {age: each for age, each in self.seen.items() if age >= oldest}

    def _repeat(self, box: Floats) -> None:
        """Repeat the frames without a detection, on the line between the boxes around them."""
        assert self.frozen is not None
        self.filter, self.frozen = self.frozen, None
        start, end = (
            np.array([*each[:2], math.sqrt(each[2] * each[3]), math.sqrt(each[2] / each[3])])
            for each in (measure(self.last), measure(box))
        )
        steps = max(1, round(self.missed - self.frozen_after))
        pace = (self.missed - self.frozen_after) / steps
        for step in range(steps + 1):
            time = self.frozen_after + step * pace
            x, y, width, height = start + time * (end - start) / self.missed
            self.filter.correct(np.array([x, y, width * height, width / height]))
            if step < steps:
                self.filter.predict(pace)


class OcSort:
    """The tracks of a sequence; defaults are those of the preset ocsort."""

    def __init__(
        self,
        *,
        high: float = 0.6,
        new: float = 0.0,
        ious: tuple[float, float] = (0.3, 0.3),
        confirm_frames: int = 3,
        direction_weight: float = 0.2,
        direction_frames: int = 3,
        max_lost_frames: int = 30,
        class_agnostic: bool = True,
    ) -> None:
        self.high, self.new, self.ious = high, new, ious
        self.confirm_frames, self.max_lost_frames = confirm_frames, max_lost_frames
        self.direction_weight, self.direction_frames = direction_weight, direction_frames
        self.class_agnostic = class_agnostic
        self.tracks: list[Track] = []
        self.next_id = 1
        self.step = 1.0  # frames since the previous one
        self.camera: Floats | None = None  # its motion since then, [2, 3]
        self.frame = 0

    def update(self, boxes: Any, scores: Any, class_ids: Any) -> list[int]:
        """Return the id of each detection, -1 for none."""
        boxes = np.asarray(boxes, np.float64).reshape(-1, 4)
        scores = np.asarray(scores, np.float32)
        ids = [-1] * len(scores)
        if not self.tracks and len(scores) == 0:
            return ids
        for track in self.tracks:
            if self.camera is not None:
                track.move(self.camera)
            track.predict(self.step)
        numbers = np.flatnonzero(scores >= np.float32(self.high)).tolist()
        wanted = list(self.tracks)
        gains: Floats | float = self._momentum(wanted, boxes[numbers], scores[numbers])
        for stage, least in enumerate(self.ious):  # where motion says, then where it was seen last
            track_boxes = [track.last if stage else track.filter.box() for track in wanted]
            for track, number in match(
                *(wanted, numbers, (boxes, class_ids), track_boxes, least),
                class_agnostic=self.class_agnostic,
                momentum=gains,
            ):
                track.correct(boxes[number], self.direction_frames)
                if self.frame <= self.confirm_frames or track.consecutive >= self.confirm_frames:
                    if track.id < 0:
                        track.id = self.next_id
                        self.next_id += 1
                    ids[number] = track.id
            gains = 0.0
        for number in numbers:
            if float(scores[number]) >= self.new:
                self.tracks.append(Track(boxes[number], int(class_ids[number])))
        self.tracks = [track for track in self.tracks if track.missed <= self.max_lost_frames + 0.5]
        self.frame += 1
        return ids

    def _momentum(self, tracks: list[Track], boxes: Floats, scores: Any) -> Floats:
        """Return what each pair gains by its direction."""
        gains = np.zeros((len(tracks), len(boxes)))
        for row, track in enumerate(tracks):
            start = track.earlier(self.direction_frames)
            if track.direction is None or start is None:
                continue
            for column, box in enumerate(boxes):
                cosine = float(np.clip(direction(start, box) @ track.direction, -1, 1))
                consistency = (math.pi / 2 - math.acos(cosine)) / math.pi
                gains[row, column] = self.direction_weight * consistency * float(scores[column])
        return gains
