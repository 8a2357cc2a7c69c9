"""Networks for `endcap init`, and what the reference expects of a served image."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

from tests.reference import detections, heads, placement
from tests.support import cli_runs
from tests.support import family_networks as families
from tests.support import odd_networks as odd
from tests.support.family_networks import Network, Output
from tests.support.finished_networks import Finished
from tests.support.jpegs import photo_jpeg

Floats = np.ndarray

PICTURES = [photo_jpeg(90, 130, seed=1), photo_jpeg(64, 48, seed=2), photo_jpeg(200, 150, seed=3)]
TOP_K = 5
DETECTIONS = 300
NAMES = '{0: "a", 1: "b, c", 2: "d"}'


@dataclass(frozen=True)
class Case:
    """A network, the options of init, and how the reference reads its images and its head."""

    network: Network
    family: str
    options: Sequence[object] = ()
    image: Callable[[bytes], tuple[Floats, Floats | None]] = lambda jpeg: letterboxed(jpeg)

    @property
    def takes_batches(self) -> bool:
        """Whether several images make one request."""
        is_for_one = any(output.for_one for output in self.network.outputs.values())
        return self.network.batch != 1 and not is_for_one


def letterboxed(jpeg: bytes) -> tuple[Floats, Floats]:
    """Ultralytics' preparation for 64x64: RGB [3, 64, 64] from 0 to 1, and the geometry."""
    pixels = cv2.cvtColor(cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR), 4)
    height, width = pixels.shape[:2]
    place = placement.letterbox(height, width, 64, 64, upscale=True, pad_align="center")
    resized = cv2.resize(pixels, (place.new_w, place.new_h), interpolation=cv2.INTER_LINEAR)
    canvas = placement.on_canvas(resized, place, 64, 64)
    tensor = (canvas.astype(np.float32) / np.float32(255)).transpose(2, 0, 1)
    return tensor, place.geometry(height, width)


def as_bytes(jpeg: bytes) -> tuple[Floats, Floats]:
    tensor, geometry = letterboxed(jpeg)
    return np.round(tensor * 255), geometry


def channels_last(jpeg: bytes) -> tuple[Floats, Floats]:
    tensor, geometry = letterboxed(jpeg)
    return tensor.transpose(1, 2, 0), geometry


def cropped(jpeg: bytes) -> tuple[Floats, None]:
    """torchvision's preparation for 64x64: the shorter side has 73 pixels, of which 64 are kept."""
    picture = Image.open(io.BytesIO(jpeg)).convert("RGB")
    place = placement.center_crop(picture.height, picture.width, 64, 64, resize_shorter=73)
    resized = picture.resize((place.new_w, place.new_h), Image.Resampling.BILINEAR)
    left, top = -place.pad_x, -place.pad_y
    pixels = np.asarray(resized.crop((left, top, left + 64, top + 64)), np.float32) / 255
    mean, std = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
    return ((pixels - mean) / std).transpose(2, 0, 1), None


IN_PYTHON = ("--preprocess", "python", "--postprocess", "python")
CASES = {
    "v8": Case(families.yolov8(), "yolov8"),
    "v8_single": Case(families.yolov8(batch=1), "yolov8"),
    "v8_one_inside": Case(odd.for_one(families.yolov8()), "yolov8"),
    "v8_declared_for_one": Case(odd.declared_for_one(families.yolov8()), "yolov8"),
    "v8_half": Case(families.yolov8(dtype="float16"), "yolov8"),
    "v8_bytes": Case(families.yolov8(dtype="uint8"), "yolov8", image=as_bytes),
    "v8_last": Case(families.yolov8(layout="nhwc"), "yolov8", image=channels_last),
    "v8_named": Case(families.yolov8(metadata={"names": NAMES, "stride": "32"}), "yolov8"),
    "v8_in_python": Case(families.yolov8(), "yolov8", IN_PYTHON),
    "nms_inside_int64": Case(
        families.efficient_nms(ids="int64"),
        "efficient_nms",
        ["--num-classes", 6, "--preset", "ultralytics"],
    ),
    "logits": Case(
        families.classifier(), "classification", ["--preset", "torchvision"], image=cropped
    ),
    "one_logit": Case(
        Network({"logit": families.Output(np.float32(0.3), 2.0)}),
        "classification",
        ["--head", "classification", "--preset", "torchvision"],
        image=cropped,
    ),
}


def _unread(batch: int | str, *, has_batch: bool = True) -> Network:
    """A network of which no family knows the outputs; one has a name that preprocess takes."""
    random = np.random.default_rng(3)
    outputs = {
        "heat": Output(random.random((3, 16, 16), np.float32), 1.0, batch=has_batch),
        "status": Output(
            np.arange(6, dtype=np.float32).reshape(2, 3), dtype="int64", batch=has_batch
        ),
    }
    return Network(outputs, batch=batch)


# Of `--head none`.
UNREAD = {
    "unread": _unread("batch"),
    "unread_without_batch": _unread(1, has_batch=False),
}


def write_together(
    cases: Iterable[tuple[str, Network | Finished, Sequence[object]]], folder: Path
) -> Path:
    """Write each network's repository by the command; return one folder with all their models."""
    together = folder / "together"
    together.mkdir()
    for name, network, options in cases:
        model = network.write(folder / f"{name}.onnx")
        # In this process: starting one takes longer than the command.
        done = cli_runs.endcap("init", model, "-o", folder / name, "--name", name, *options)
        assert done.exit_code == 0, done.stderr
        for written in (folder / name).iterdir():
            if written.is_dir():
                shutil.move(written, together / written.name)
    return together


def expected_rows(case: Case, jpeg: bytes) -> detections.Rows:
    tensor, geometry = case.image(jpeg)
    outputs = case.network.expected_outputs(tensor)
    (first, *_) = outputs.values()
    if case.family == "efficient_nms":
        count = int(outputs["num_dets"][0])
        candidates = [
            heads.Candidate(
                outputs["det_boxes"][i],
                outputs["det_scores"][i],
                int(outputs["det_classes"][i]),
                i,
            )
            for i in range(count)
        ]
    else:
        candidates = heads.candidates("yolov8", {"head": first}, num_classes=len(first) - 4)
    ranked, _ = heads.best(candidates, 30000)
    return detections.pack(
        ranked,
        max_detections=DETECTIONS,
        geometry=geometry,
        iou_threshold=0.7 if case.family == "yolov8" else None,
    )
