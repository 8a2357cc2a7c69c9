"""Heads to detections: endcap's Postprocessor and what ultralytics' predictors do.

The heads are synthetic, always the same, and like those of a crowded picture: around an object many
anchors agree on a box, more or less, with scores that fall off from the best one, and around a weak
hint they do so for a few classes with tiny scores; elsewhere boxes are noise, and scores small but
not zero, as sigmoids are. Above 0.25 there are some hundred candidates, and above 0.001 more than
30,000 where an anchor may have several labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

import endcap
from benchmarks.cpu.peers import one_torch_thread
from benchmarks.results import Table
from benchmarks.timing import Budget, Case, Entry, load, measure, one_cpu

SIDE = 640
NUM_CLASSES = 80
STRIDES = (8, 16, 32)
_BACKGROUND_SCORE = 2e-4  # mean of an exponential: 0.7 % of the scores are above 0.001
IOU_THRESHOLD = 0.7
OFFSET_SHARE = 0.99  # of kept boxes, by peers that move the classes apart and so round coordinates

Floats = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]


def anchors() -> tuple[Floats, Floats]:
    """Return centres [8400, 2] and strides [8400] in pixels, finest grid first."""
    centres, strides = [], []
    for stride in STRIDES:
        line = (np.arange(SIDE // stride, dtype=np.float32) + 0.5) * stride
        x, y = np.meshgrid(line, line)
        centres.append(np.stack([x.ravel(), y.ravel()], axis=1))
        strides.append(np.full(x.size, stride, np.float32))
    return np.concatenate(centres), np.concatenate(strides)


def make_head(seed: int = 0) -> Floats:
    """Return a YOLOv8 head [84, 8400]: cx, cy, w, h in pixels, then a score for each class."""
    random = np.random.default_rng(seed)
    centres, strides = anchors()
    count = len(strides)
    boxes = np.empty((count, 4), np.float32)
    boxes[:, :2] = centres + random.normal(0, 0.5, (count, 2)) * strides[:, None]
    boxes[:, 2:] = strides[:, None] * random.lognormal(1.0, 0.5, (count, 2))
    scores = random.exponential(_BACKGROUND_SCORE, (count, NUM_CLASSES)).clip(0, 0.2)
    for _ in range(400):  # hints
        near = _agree_on_a_box(random, boxes, 40, spread=0.1)
        for class_id in random.integers(NUM_CLASSES, size=3):
            scores[near, class_id] = random.lognormal(-5.5, 0.8, len(near)).clip(0, 0.2)
    for _ in range(60):  # objects
        near = _agree_on_a_box(random, boxes, 12, spread=0.04)
        best = random.uniform(0.5, 0.95)
        scores[near, random.integers(NUM_CLASSES)] = best * random.uniform(0.4, 1, len(near))
    head = np.concatenate([boxes, scores.astype(np.float32)], axis=1)
    return np.ascontiguousarray(head.T)


def _agree_on_a_box(
    random: np.random.Generator, boxes: Floats, count: int, *, spread: float
) -> Ids:
    """Give the `count` nearest anchors of a fitting grid one box, but for `spread` of its size."""
    centres, strides = anchors()
    size = random.lognormal(4.0, 0.7, 2).clip(12, 400)  # width, height
    centre = random.uniform(size / 2, SIDE - size / 2)
    grid = np.flatnonzero(strides == STRIDES[int(np.clip(np.log2(size.max() / 40), 0, 2))])
    distance = np.abs(centres[grid] - centre).max(axis=1)
    near: Ids = grid[np.argsort(distance, kind="stable")[:count]]
    boxes[near, :2] = centre + random.normal(0, spread, (len(near), 2)) * size
    boxes[near, 2:] = size * random.normal(1, spread, (len(near), 2)).clip(0.7, 1.3)
    return near


def rotated_boxes(count: int = 1000) -> tuple[Floats, Floats]:
    """Return boxes cx, cy, w, h, angle [N, 5] and scores [N] of an aerial picture of 1024x1024."""
    random = np.random.default_rng(0)
    objects = max(1, count // 8)
    width = random.lognormal(3.7, 0.5, objects).clip(12, 300)
    sizes = np.stack([width, width * random.uniform(0.2, 0.8, objects)], axis=1)
    centres = random.uniform(0, 1024, (objects, 2))
    of = random.integers(objects, size=count)
    near = centres[of] + random.normal(0, 0.05, (count, 2)) * sizes[of]
    around = sizes[of] * random.normal(1, 0.08, (count, 2)).clip(0.7, 1.3)
    angles = random.uniform(-np.pi / 4, 3 * np.pi / 4, objects)[of]
    angles = angles + random.normal(0, 0.05, count)
    scores = (random.permutation(count) + 1.0) / count
    boxes = np.concatenate([near, around, angles[:, None]], axis=1)
    return boxes.astype(np.float32), scores.astype(np.float32)


@dataclass(frozen=True)
class Result:
    """What a peer returned once, and the case to time.

    Attributes:
        kept: Anchor and class of each detection, best first.
        values: Its mask, keypoints or angle; None of a plain head.
    """

    run: Callable[..., object]
    prepare: Callable[[], Any]
    kept: list[tuple[int, int]]
    values: npt.NDArray[Any] | None


@dataclass(frozen=True)
class Task:
    """A head, and options of both peers.

    Attributes:
        tensors: The head, and prototypes if it has some.
        values: Field of endcap's result that holds the values of each detection.
        finish: From torch, the prototypes and ultralytics' rows to their values.
        max_difference: Of values; of masks 1 - IoU.
    """

    head: str
    num_classes: int
    tensors: Mapping[str, npt.NDArray[Any]]
    score_threshold: float = 0.25
    iou_threshold: float = IOU_THRESHOLD
    max_detections: int = 300
    multi_label: bool = False
    values: str = ""
    finish: Callable[[Any, Any], Any] | None = None
    max_difference: float = 1e-3

    def endcap(self) -> Result:
        """Return endcap on one thread."""
        more: dict[str, Any] = {"mask_resolution": "input"} if self.values == "masks" else {}
        if self.head == "yolov8_obb":
            more["rotated_nms"] = "probiou_fast"
        postprocess = endcap.Postprocessor(
            self.head,
            self.num_classes,
            score_threshold=self.score_threshold,
            iou_threshold=self.iou_threshold,
            max_candidates=30_000,
            max_detections=self.max_detections,
            multi_label=self.multi_label,
            threads=1,
            **more,
        )

        def prepare() -> Any:  # a copy, as a network would have just written it
            copies = {name: tensor.copy() for name, tensor in self.tensors.items()}
            return copies if len(copies) > 1 else copies["head"]

        rows: Any = postprocess(prepare())[0]
        kept = list(zip(rows.indices.tolist(), rows.class_ids.tolist(), strict=True))
        return Result(
            postprocess, prepare, kept, getattr(rows, self.values) if self.values else None
        )

    def ultralytics(self) -> Result:
        """Return ultralytics on one thread, with torchvision's suppression, which it prefers.

        Each call gets a copy, since the function may write into its input. A float16 head is
        converted in the call: torchvision has no suppression of float16 boxes on a CPU.
        """
        torch = one_torch_thread()
        import_module("torchvision")  # its presence decides which algorithm runs
        suppress = import_module("ultralytics.utils.nms").non_max_suppression
        head = torch.from_numpy(self.tensors["head"])[None]
        protos = torch.from_numpy(self.tensors["protos"]) if "protos" in self.tensors else None

        def run(fresh: Any) -> Any:
            (rows,), (indices,) = suppress(
                fresh.float(),
                conf_thres=self.score_threshold,
                iou_thres=self.iou_threshold,
                multi_label=self.multi_label,
                max_det=self.max_detections,
                nc=self.num_classes,
                max_nms=30_000,
                max_time_img=1e9,  # on a slow machine it would return nothing
                rotated=self.head == "yolov8_obb",
                return_idxs=True,
            )
            return rows, indices, self.finish(protos, rows) if self.finish else None

        rows, indices, values = run(head.clone())
        kept = list(zip(indices.tolist(), rows[:, 5].int().tolist(), strict=True))
        return Result(run, head.clone, kept, None if values is None else values.numpy())

    def entries(self) -> dict[str, Entry]:
        """Return both peers, the second one compared with endcap."""
        ours, theirs = self.endcap(), load(self.ultralytics)
        entries: dict[str, Entry] = {
            "endcap": Case(ours.run, prepare=ours.prepare),
            "ultralytics": theirs if isinstance(theirs, str) else self._judge(ours, theirs),
        }
        return entries

    def _judge(self, ours: Result, theirs: Result) -> Entry:
        entry = judge(theirs.run, theirs.kept, ours.kept, OFFSET_SHARE, theirs.prepare)
        if isinstance(entry, Case) and ours.values is not None and theirs.values is not None:
            both = [each for each in ours.kept if each in theirs.kept]
            first, second = (
                result.values[[result.kept.index(each) for each in both]]  # type: ignore[index]
                for result in (ours, theirs)
            )
            difference = _mask_error if self.values == "masks" else _largest
            if (off := difference(first, second)) > self.max_difference:
                return f"not verified: {self.values} differ by {off:.2g}"
        return entry


def judge(
    run: Callable[..., object],
    theirs: Iterable[object],
    ours: Iterable[object],
    share: float = 1.0,
    prepare: Callable[[], Any] | None = None,
) -> Entry:
    """Return the case of a peer that kept what endcap keeps: `share` of them at least."""
    first, second = list(theirs), list(ours)
    if len(set(first)) != len(first):
        return "not verified: it kept a box twice"
    differing = len(set(first) ^ set(second))
    if not second or differing > (1 - share) * len(set(first) | set(second)):
        return f"not verified: of {len(second)} kept {differing} differ"
    text = (
        f"same {len(second)} kept" if not differing else f"{len(second)} kept, {differing} differ"
    )
    return Case(run, text, prepare)


def _mask_error(ours: Any, theirs: Any) -> float:
    """Return 1 - IoU of the two masks that agree least, of those with more than some pixels."""
    ours, theirs = ours.astype(bool), theirs.astype(bool)
    both, either = (ours & theirs).sum((1, 2)), (ours | theirs).sum((1, 2))
    large = either > 100
    return float(1 - (both[large] / either[large]).min())


def _largest(ours: Any, theirs: Any) -> float:
    return float(np.abs(np.squeeze(ours) - np.squeeze(theirs)).max())


def _segmentation(plain: Floats) -> Task:
    random = np.random.default_rng(1)
    coefficients = random.normal(0, 1, (32, plain.shape[1]))
    line = np.linspace(0, 2 * np.pi, 160)
    waves, phases = random.uniform(1, 9, (2, 32)), random.uniform(0, 6, (2, 32))  # blobs, not noise
    across, down = (
        np.cos(np.outer(wave, line) + phase[:, None])
        for wave, phase in zip(waves, phases, strict=True)
    )
    tensors = {
        "head": np.concatenate([plain, coefficients]).astype(np.float32),
        "protos": (across[:, None] * down[:, :, None]).astype(np.float32),
    }

    def finish(protos: Any, rows: Any) -> Any:
        process_mask = import_module("ultralytics.utils.ops").process_mask
        return process_mask(protos, rows[:, 6:], rows[:, :4], (SIDE, SIDE), upsample=True)

    options: dict[str, Any] = {"max_detections": 50, "max_difference": 0.01}
    return Task("yolov8_seg", NUM_CLASSES, tensors, values="masks", finish=finish, **options)


def _pose(plain: Floats) -> Task:
    points = np.random.default_rng(2).uniform(0, SIDE, (17, 3, plain.shape[1]))
    points[:, 2] /= SIDE
    best = plain[4:].max(axis=0, keepdims=True)
    head = np.concatenate([plain[:4], best, points.reshape(51, -1)]).astype(np.float32)

    def finish(_: Any, rows: Any) -> Any:
        keypoints = rows[:, 6:].view(len(rows), 17, 3)
        scale = import_module("ultralytics.utils.ops").scale_coords
        return scale((SIDE, SIDE), keypoints, (SIDE, SIDE))

    return Task("yolov8_pose", 1, {"head": head}, values="keypoints", finish=finish)


def _rotated() -> Task:
    random = np.random.default_rng(3)
    boxes, scores = rotated_boxes()
    head = np.zeros((4 + 15 + 1, 8400), np.float32)
    places = random.permutation(head.shape[1])[: len(boxes)]
    head[:4, places], head[-1, places] = boxes[:, :4].T, boxes[:, 4]
    head[4 + random.integers(15, size=len(boxes)), places] = 0.3 + 0.6 * scores
    options: dict[str, Any] = {"iou_threshold": 0.45, "max_detections": len(boxes)}
    return Task(
        "yolov8_obb",
        15,
        {"head": head},
        values="angles",
        finish=lambda _, rows: rows[:, 6],
        **options,
    )


def tasks() -> dict[str, Task]:
    """Return the heads by name."""
    plain = make_head()
    head, half = {"head": plain}, {"head": plain.astype(np.float16)}
    return {
        "YOLOv8, score 0.25": Task("yolov8", NUM_CLASSES, head),
        "YOLOv8, score 0.25, float16": Task("yolov8", NUM_CLASSES, half),
        "YOLOv8, score 0.001, several labels": Task(
            "yolov8", NUM_CLASSES, head, score_threshold=0.001, multi_label=True
        ),
        "YOLOv8-seg, 50 masks of 640x640": _segmentation(plain),
        "YOLOv8-pose, 17 keypoints": _pose(plain),
        "YOLOv8-obb, 1,000 candidates": _rotated(),
    }


def run(budget: Budget, say: Callable[[str], None]) -> Table:
    """Verify and time every head, on one CPU."""
    table = Table("Head to detections", "ms", ["endcap", "ultralytics"])
    with one_cpu():
        for name, task in tasks().items():
            add_row(table, name, task.entries(), budget)
            say(name)
    return table


def add_row(table: Table, name: str, entries: Mapping[str, Entry], budget: Budget) -> None:
    """Time the entries; a column without one stays empty."""
    figures = measure(entries, budget)
    table.rows[name] = [figures.get(column) for column in table.columns]
    table.drawn.append(name)
    for column, entry in entries.items():
        if note := entry if isinstance(entry, str) else entry.note:
            table.notes[f"{name}, {column}"] = note
