"""The shipped classifier of crops: the file belongs to its script, and names colours."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import onnxruntime
import pytest

import endcap
from tests.support.damage import SHIPPED
from tests.support.doc_pages import ROOT

FILE = SHIPPED / "classifier" / "1" / "model.onnx"
LABELS_FILE = SHIPPED / "classify_postprocess" / "labels.txt"
LABELS = LABELS_FILE.read_text().split()


def classify(images: np.ndarray) -> list[str]:
    session = onnxruntime.InferenceSession(FILE, providers=["CPUExecutionProvider"])
    (logits,) = session.run(["logits"], {"images": images})
    np.testing.assert_allclose(np.exp(logits).sum(axis=1), 1, atol=2e-3)  # shares of all votes
    return [LABELS[i] for i in logits.argmax(axis=1)]


def crops(pictures: list[np.ndarray]) -> np.ndarray:
    result = endcap.preprocess(pictures, preset="torchvision", fit="stretch", size=224)
    return np.asarray(result.images)


def disc(inside: tuple[int, int, int], outside: tuple[int, int, int]) -> np.ndarray:
    """A disc of colour `inside` that fills its picture."""
    at = (np.arange(200) + 0.5) / 100 - 1
    radius = np.hypot(at[:, None], at[None, :])[..., None]
    return np.where(radius <= 1, inside, outside).astype(np.uint8)


def test_the_files_are_what_the_script_writes(tmp_path):
    model, labels = tmp_path / "model.onnx", tmp_path / "labels.txt"
    command = [sys.executable, "-m", "training.make_classifier", "--output", model]
    subprocess.run([*command, "--labels", labels], cwd=ROOT, check=True, capture_output=True)
    assert labels.read_bytes() == LABELS_FILE.read_bytes()
    images = np.random.default_rng(0).normal(size=(2, 3, 224, 224)).astype(np.float32)
    responses = [
        onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"]).run(
            None, {"images": images}
        )
        for file in (model, FILE)
    ]
    np.testing.assert_array_equal(responses[0], responses[1])


@pytest.mark.parametrize("flip", [False, True], ids=["on_gray", "on_green"])
def test_plain_colours_by_their_names(flip):
    colours = {
        "black": (5, 5, 5), "gray": (128, 128, 128), "white": (250, 250, 250), "red": (220, 10, 10),
        "orange": (250, 140, 10), "yellow": (250, 240, 20), "green": (20, 180, 40),
        "blue": (20, 60, 220), "purple": (120, 20, 160), "pink": (250, 130, 180),
        "brown": (110, 60, 25),
    }  # fmt: skip
    behind = (20, 160, 60) if flip else (100, 100, 100)
    images = crops([disc(colour, behind) for colour in colours.values()])
    assert classify(images) == list(colours) == [n for n in LABELS if n in colours]
