"""Trains the sample detector on drawn scenes and writes it as ONNX.

    python -m training.train_detector --epochs 20 --output model_repository/detector/1/model.onnx

Most steps see 320x320 inputs, the last ones the full 640x640 (`PHASES`). With `--epochs` equal
options give equal schedules; with `--minutes` the schedule follows the clock.
"""

from __future__ import annotations

import argparse
import copy
import math
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import torch
from torch import Tensor

from .assignment import Targets
from .dataset import SceneCache, vary
from .export_onnx import export_onnx
from .loss import detection_loss
from .network import Detector, cell_grid
from .shapes import CLASS_NAMES

PEAK_LEARNING_RATE = 3e-3
WEIGHT_DECAY = 0.02
WARM_UP = 0.03
AVERAGE_DECAY = 0.998
MAX_GRADIENT_NORM = 10.0
# From this share of the training on, cells are assigned by task alignment.
ALIGNED_FROM = 0.5


@dataclass(frozen=True)
class Phase:
    """From which share of the training on, with which input side and batch size."""

    begins: float
    side: int
    batch: int


PHASES = (Phase(0.0, 320, 8), Phase(0.75, 640, 4))


def main() -> None:
    """Run the command line."""
    options = _parse_options()
    torch.set_num_threads(options.threads)
    cv2.setNumThreads(options.threads)
    torch.manual_seed(options.seed)
    torch.use_deterministic_algorithms(True)
    with tempfile.TemporaryDirectory(prefix="endcap-scenes-") as scratch:
        folder = options.cache or Path(scratch)
        scenes = SceneCache(folder, options.scenes, options.seed, workers=options.workers)
        detector = train(scenes, options)
    if options.checkpoint:
        torch.save(detector.state_dict(), options.checkpoint)
    export_onnx(detector, CLASS_NAMES, options.output)


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Trains the sample detector on drawn scenes and writes it as ONNX.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    length = parser.add_mutually_exclusive_group(required=True)
    length.add_argument("--epochs", type=float, help="passes over the scenes; reproducible")
    length.add_argument("--minutes", type=float, help="training time after drawing the scenes")
    parser.add_argument("--scenes", type=int, default=3000, help="training scenes to draw")
    parser.add_argument("--seed", type=int, default=0, help="seed of scenes and training")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads that train")
    parser.add_argument("--workers", type=int, default=2, help="processes that draw scenes")
    parser.add_argument("--cache", type=Path, help="folder that keeps the drawn scenes for reuse")
    parser.add_argument("--start", type=Path, help="checkpoint to go on from")
    parser.add_argument("--checkpoint", type=Path, help="where to save the PyTorch weights")
    parser.add_argument(
        "--precision",
        choices=("float32", "bfloat16"),
        default="float32",
        help="arithmetic of the convolutions in training; bfloat16 is faster on recent CPUs",
    )
    parser.add_argument("--output", type=Path, required=True, help="the ONNX file to write")
    return parser.parse_args()


def train(scenes: SceneCache, options: argparse.Namespace) -> Detector:
    """Train a detector; return the moving average of its weights."""
    detector = Detector(len(CLASS_NAMES))
    if options.start:
        detector.load_state_dict(torch.load(options.start, weights_only=True))
    average = copy.deepcopy(detector)
    optimizer = torch.optim.AdamW(
        detector.parameters(), lr=PEAK_LEARNING_RATE, weight_decay=WEIGHT_DECAY
    )
    reduced = options.precision == "bfloat16"
    started, last_print, mean_loss = time.monotonic(), 0.0, math.nan
    for step, (progress, images, targets) in enumerate(_batches(scenes, options)):
        for group in optimizer.param_groups:
            group["lr"] = PEAK_LEARNING_RATE * _learning_rate_share(progress)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=reduced):
            boxes, logits = detector(images)
        cells = cell_grid(*images.shape[2:])
        aligned = progress >= ALIGNED_FROM
        loss = detection_loss(boxes, logits, cells, targets, aligned=aligned)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(detector.parameters(), MAX_GRADIENT_NORM)
        optimizer.step()
        _update_average(average, detector, step)
        value = loss.item()
        mean_loss = value if step == 0 else 0.98 * mean_loss + 0.02 * value
        elapsed = time.monotonic() - started
        if elapsed - last_print > 5.0:
            last_print = elapsed
            print(
                f"\r{progress:6.1%}  step {step}  input {images.shape[2]}  "
                f"loss {mean_loss:.3f}  {elapsed / 60.0:.1f} min ",
                end="",
                flush=True,
            )
    print(f"\ntrained {step + 1} steps in {(time.monotonic() - started) / 60.0:.1f} min")
    return average


def _batches(
    scenes: SceneCache, options: argparse.Namespace
) -> Iterator[tuple[float, Tensor, Targets]]:
    """Progress 0..1, images float32 [N, 3, S, S] and targets, until the training is over."""
    rng = np.random.default_rng([options.seed, 2])
    started, seen = time.monotonic(), 0
    order = rng.permutation(len(scenes))
    while True:
        if options.minutes is not None:
            progress = (time.monotonic() - started) / (60.0 * options.minutes)
        else:
            progress = seen / (options.epochs * len(scenes))
        if progress >= 1.0:
            return
        phase = [phase for phase in PHASES if phase.begins <= progress][-1]
        if len(order) < phase.batch:
            order = np.concatenate([order, rng.permutation(len(scenes))])
        yield progress, *_load_batch(rng, scenes, order[: phase.batch].tolist(), phase.side)
        order, seen = order[phase.batch :], seen + phase.batch


def _load_batch(
    rng: np.random.Generator, scenes: SceneCache, indices: list[int], side: int
) -> tuple[Tensor, Targets]:
    images, boxes, class_ids = [], [], []
    for index in indices:
        image, all_boxes, all_ids = scenes[index]
        varied, moved, keep = vary(rng, image, all_boxes, side)
        images.append(torch.from_numpy(varied.transpose(2, 0, 1)).float().div(255))
        boxes.append(torch.from_numpy(moved[keep]))
        class_ids.append(torch.from_numpy(all_ids[keep]))
    most = max(1, *(len(item) for item in boxes))
    targets = Targets(
        torch.zeros(len(indices), most, 4),
        torch.zeros(len(indices), most, dtype=torch.int64),
        torch.zeros(len(indices), most, dtype=torch.bool),
    )
    for row, (item_boxes, item_ids) in enumerate(zip(boxes, class_ids, strict=True)):
        targets.boxes[row, : len(item_boxes)] = item_boxes
        targets.class_ids[row, : len(item_ids)] = item_ids
        targets.valid[row, : len(item_ids)] = True
    return torch.stack(images).contiguous(memory_format=torch.channels_last), targets


def _learning_rate_share(progress: float) -> float:
    """Linear warm-up, then a half cosine down to 1 in 100."""
    if progress < WARM_UP:
        return max(0.01, progress / WARM_UP)
    along = (progress - WARM_UP) / (1.0 - WARM_UP)
    return 0.01 + 0.99 * 0.5 * (1.0 + math.cos(math.pi * along))


@torch.no_grad()
def _update_average(average: Detector, detector: Detector, step: int) -> None:
    keep = min(AVERAGE_DECAY, (step + 1) / (step + 10))
    for mean, value in zip(
        average.state_dict().values(), detector.state_dict().values(), strict=True
    ):
        if mean.is_floating_point():
            mean.lerp_(value, 1.0 - keep)
        else:
            mean.copy_(value)


if __name__ == "__main__":
    main()
