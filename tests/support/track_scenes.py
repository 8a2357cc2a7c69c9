"""Sequences of detections with the objects that they are of, from a seed.

Objects enter, move in straight lines and curves, cross and hide each other, leave and come back.
Their detections jitter, have low scores while they are hidden in part, and are missing while they
are hidden; others are of no object.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import endcap

WIDTH, HEIGHT = 1280, 720
_EDGE = 20  # pixels of an object that still show at the picture's edge
_MAX_HIDDEN = 0.75  # of an object that is detected


@dataclass(frozen=True)
class Frame:
    """The detections of one frame.

    Attributes:
        boxes: float32 [N, 4], x1, y1, x2, y2.
        scores: float32 [N].
        class_ids: int32 [N].
        objects: int [N], the object of each detection; -1 for none.
    """

    boxes: npt.NDArray[np.float32]
    scores: npt.NDArray[np.float32]
    class_ids: npt.NDArray[np.int32]
    objects: npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Object:
    first: int  # frames
    last: int
    away: range  # frames that it is somewhere else in
    class_id: int
    start: npt.NDArray[np.float64]  # centre, pixels
    velocity: npt.NDArray[np.float64]  # pixels a frame
    turn: float  # radians a frame
    size: npt.NDArray[np.float64]
    growth: float  # of the size, a frame

    def box(self, frame: int) -> npt.NDArray[np.float64]:
        time = frame - self.first
        angle = self.turn * time
        along = time if abs(angle) < 1e-9 else np.sin(angle) / self.turn
        across = 0.0 if abs(angle) < 1e-9 else (1 - np.cos(angle)) / self.turn
        normal = np.array([-self.velocity[1], self.velocity[0]])
        centre = self.start + along * self.velocity + across * normal
        half = self.size * self.growth**time / 2
        return np.concatenate([centre - half, centre + half])


def to_detections(frame: Frame) -> endcap.ImageDetections:
    """Return the detections of a frame as the library has them."""
    return endcap.ImageDetections(
        boxes=frame.boxes,
        scores=frame.scores,
        class_ids=frame.class_ids,
        indices=np.arange(len(frame.scores), dtype=np.int32),
    )


def track(scene: list[Frame], tracker: endcap.Tracker) -> list[list[int]]:
    """Return the ids that a tracker gives to the detections of each frame."""
    ids = []
    for frame in scene:
        tracked = tracker(to_detections(frame))
        assert tracked.track_ids is not None
        ids.append(tracked.track_ids.tolist())
    return ids


def make_scene(seed: int, *, frames: int = 80, objects: int = 10) -> list[Frame]:
    """Return the frames of one sequence."""
    random = np.random.default_rng(seed)
    moving = [_make_object(random, frames) for _ in range(objects)]
    return [_make_frame(random, moving, number) for number in range(frames)]


def _make_object(random: np.random.Generator, frames: int) -> _Object:
    first = int(random.integers(0, frames // 2)) if random.uniform() < 0.6 else 0
    last = int(random.integers(first + 10, frames + 10))
    away = range(0)
    if random.uniform() < 0.3:
        begin = int(random.integers(first + 5, last))
        away = range(begin, begin + int(random.integers(3, 45)))
    height = random.uniform(60, 220)
    heading = random.uniform(-np.pi, np.pi)
    speed = random.uniform(0, 9)
    return _Object(
        first=first,
        last=last,
        away=away,
        class_id=int(random.integers(0, 3)),
        start=random.uniform((100, 100), (WIDTH - 100, HEIGHT - 100)),
        velocity=speed * np.array([np.cos(heading), np.sin(heading)]),
        turn=random.uniform(-0.03, 0.03) if random.uniform() < 0.4 else 0.0,
        size=np.array([height * random.uniform(0.4, 1.2), height]),
        growth=random.uniform(0.997, 1.003),
    )


def _make_frame(random: np.random.Generator, moving: list[_Object], number: int) -> Frame:
    rows = list(_detect(random, moving, number))
    for _ in range(int(random.poisson(0.4))):  # of nothing
        corner = random.uniform((0, 0), (WIDTH - 200, HEIGHT - 200))
        box = np.concatenate([corner, corner + random.uniform(20, 200, 2)])
        rows.append((box, random.uniform(0.05, 0.5), int(random.integers(0, 3)), -1))
    order = random.permutation(len(rows))
    rows = [rows[i] for i in order]
    return Frame(
        boxes=np.array([row[0] for row in rows], np.float32).reshape(-1, 4),
        scores=np.array([row[1] for row in rows], np.float32),
        class_ids=np.array([row[2] for row in rows], np.int32),
        objects=np.array([row[3] for row in rows], np.int64),
    )


def _detect(
    random: np.random.Generator, moving: list[_Object], number: int
) -> Iterator[tuple[npt.NDArray[np.float64], float, int, int]]:
    """Yield box, score, class and object.

    Later objects are in front of earlier ones.
    """
    present = [
        (index, each, each.box(number))
        for index, each in enumerate(moving)
        if each.first <= number <= each.last and number not in each.away
    ]
    for place, (index, each, box) in enumerate(present):
        inside = np.clip(box, 0, [WIDTH, HEIGHT, WIDTH, HEIGHT])
        if (inside[2:] - inside[:2] < _EDGE).any():
            continue
        hidden = max((_covered(box, other) for *_, other in present[place + 1 :]), default=0.0)
        if hidden > _MAX_HIDDEN or random.uniform() < 0.02:
            continue
        score = float(np.clip(random.normal(0.85 - 0.8 * hidden, 0.05), 0.02, 0.99))
        jitter = random.normal(0, 0.012, 4) * np.tile(each.size, 2)
        yield inside + jitter, score, each.class_id, index


def _covered(box: npt.NDArray[np.float64], other: npt.NDArray[np.float64]) -> float:
    common = np.minimum(box[2:], other[2:]) - np.maximum(box[:2], other[:2])
    if (common <= 0).any():
        return 0.0
    return float(common.prod() / (box[2:] - box[:2]).prod())
