"""Cascades of composing models with known responses, and pictures that encode their content."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import jpegs
from damage import copy_model
from model_folders import tensor, write_model

CASCADE = "cascade"  # in the shipped repository
SCRIPTED = "cascade_scripted"
SHIPPED = Path(__file__).resolve().parents[2] / "model_repository"
ROWS = 32  # of the scripted detector
THRESHOLD = 0.5
BATCH_SIZE = 4
COMMENT = 0xFE  # marker of a JPEG's comment
FAILING_LEVEL = 1.0  # of the mean of a crop's tensor, above which a classifier fails
# Class 3 goes nowhere. No model is called `absent`.
ROUTES = ", ".join(
    [
        "0=preprocess_rois+shades",
        "1|2=preprocess_rois+shades_failing",
        "4=preprocess_rois+absent",
        "5=preprocess_rois+shades_odd",
    ]
)

Row = tuple[float, float, float, float, float, int]  # x1, y1, x2, y2, score, class id

SLOW_LINE = "a slow picture has come"
# Finds what a picture's comment says; one without a comment fails it, as a broken image would.
SCRIPTED_DETECT = """
import json
import time
import numpy as np
import triton_python_backend_utils as pb_utils

ROWS = 32

def rows_in(file):
    start = file.index(b"rows:") + 5
    return json.loads(file[start:file.index(b"!", start)])

def tensors(files):
    n = len(files)
    found = {"num_detections": np.zeros((n, 1), np.int32),
             "detection_boxes": np.zeros((n, ROWS, 4), np.float32),
             "detection_scores": np.zeros((n, ROWS), np.float32),
             "detection_classes": np.zeros((n, ROWS), np.int32),
             "detection_indices": np.full((n, ROWS), -1, np.int32),
             "status": np.zeros((n, 1), np.int32)}
    for i, file in enumerate(files):
        for r, (*box, score, class_id) in enumerate(rows_in(file)):
            found["num_detections"][i] = r + 1
            found["detection_boxes"][i, r] = box
            found["detection_scores"][i, r] = score
            found["detection_classes"][i, r] = class_id
            found["detection_indices"][i, r] = 100 + r
    return [pb_utils.Tensor(*each) for each in found.items()]

class TritonPythonModel:
    def execute(self, requests):
        return [self.respond(request) for request in requests]

    def respond(self, request):
        encoded = pb_utils.get_input_tensor_by_name(request, "encoded").as_numpy()
        if b"slow" in encoded[0, 0][:20]:
            pb_utils.Logger.log_info("a slow picture has come")
            time.sleep(1)
        try:
            return pb_utils.InferenceResponse(tensors(encoded[:, 0]))
        except ValueError:
            error = pb_utils.TritonError("corrupt_image: there is no comment",
                                         pb_utils.TritonError.INVALID_ARG)
            return pb_utils.InferenceResponse([], error)
"""
# The brightest channel and its mean. `shades_failing` fails a request that holds a bright crop, and
# `shades_odd` gives strings for class ids.
SHADES = """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        self.fails = args["model_name"].endswith("failing")
        self.ids = np.object_ if args["model_name"].endswith("odd") else np.int32

    def execute(self, requests):
        return [self.respond(request) for request in requests]

    def respond(self, request):
        images = pb_utils.get_input_tensor_by_name(request, "images").as_numpy()
        means = images.mean(axis=(2, 3))
        if self.fails and means.mean(axis=1).max() > 1.0:
            return pb_utils.InferenceResponse([], pb_utils.TritonError("too bright"))
        ids = means.argmax(axis=1).astype(str).astype(self.ids)[:, None]
        scores = means.max(axis=1).astype(np.float32)[:, None]
        return pb_utils.InferenceResponse([pb_utils.Tensor("class_ids", ids),
                                           pb_utils.Tensor("class_scores", scores)])
"""


def write_all(repository: Path) -> None:
    """The shipped models, two more cascades, and `detect_python` of the Python models."""
    shutil.copytree(SHIPPED, repository, ignore=shutil.ignore_patterns("samples", "__pycache__"))
    encoded = [tensor("encoded", "TYPE_STRING", [1])]
    write_model(
        repository,
        "scripted",
        backend="python",
        max_batch_size=16,
        inputs=encoded,
        outputs=[
            tensor("num_detections", "TYPE_INT32", [1]),
            tensor("detection_boxes", "TYPE_FP32", [ROWS, 4]),
            tensor("detection_scores", "TYPE_FP32", [ROWS]),
            tensor("detection_classes", "TYPE_INT32", [ROWS]),
            tensor("detection_indices", "TYPE_INT32", [ROWS]),
            tensor("status", "TYPE_INT32", [1]),
        ],
        files={"1/model.py": SCRIPTED_DETECT},
    )
    for name in ("shades", "shades_failing", "shades_odd"):
        ids = "TYPE_STRING" if name == "shades_odd" else "TYPE_INT32"
        write_model(
            repository,
            name,
            backend="python",
            max_batch_size=16,
            inputs=[tensor("images", "TYPE_FP32", [3, 224, 224])],
            outputs=[
                tensor("class_ids", ids, [1]),
                tensor("class_scores", "TYPE_FP32", [1]),
            ],
            files={"1/model.py": SHADES},
        )
    _write_variant(repository, "cascade_detecting", classifiers="")
    _write_variant(
        repository,
        SCRIPTED,
        detect_model="scripted",
        classifiers=ROUTES,
        classify_threshold=THRESHOLD,
        classify_batch_size=BATCH_SIZE,
    )
    config = copy_model("detect", repository, name="detect_python") / "config.pbtxt"
    steps = r'(model_name: "(?:preprocess|detector|postprocess))"'
    text, count = re.subn(steps, r'\1_python"', config.read_text())
    assert count == 3
    config.write_text(text)


def _write_variant(repository: Path, name: str, **parameters: object) -> None:
    """The shipped cascade with other parameters, whose requests wait a while for each other."""
    folder = repository / name
    shutil.copytree(repository / CASCADE, folder)
    config = folder / "config.pbtxt"
    text = re.sub(r"^name: .*$", f'name: "{name}"', config.read_text(), flags=re.MULTILINE)
    text = text.replace("dims: [ 300", f"dims: [ {ROWS if 'scripted' in name else 300}")
    waiting = "dynamic_batching { max_queue_delay_microseconds: 300000 }"
    text = re.sub(r"^dynamic_batching {[^}]*}", waiting, text, flags=re.MULTILINE)
    for key, value in parameters.items():
        text, count = re.subn(
            rf'(key: "{key}"\s+value {{ string_value: )"[^"]*"', rf'\1"{value}"', text
        )
        assert count == 1, f"{CASCADE} has {count} parameters {key}"
    config.write_text(text)


def picture(rows: Sequence[Row], *, level: int = 60, slow: bool = False) -> bytes:
    """A JPEG file of 200x300 about one brightness, whose comment tells the scripted detector.

    slow: the detector takes a second for it, and begins with the log line SLOW_LINE.
    """
    pixels = (jpegs.photo(200, 300, seed=len(rows)) // 4 + level).clip(0, 255).astype("uint8")
    comment = f"{'slow' if slow else ''} rows:{json.dumps(rows)}!"
    return jpegs.insert_segment(jpegs.encode(pixels), COMMENT, comment.encode())
