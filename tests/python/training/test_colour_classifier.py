"""The shipped classifier of crops: the file belongs to its script, and names colours."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import onnxruntime
import pytest
from damage import SHIPPED
from doc_pages import ROOT
from tolerances import SAMPLE_SHARE_ROUNDING
from training.make_classifier import LEAST_SHARE

import endcap

FILE = SHIPPED / "classifier" / "1" / "model.onnx"
LABELS_FILE = SHIPPED / "classify_postprocess" / "labels.txt"
OF_PIXELS = SHIPPED / "image_classifier"
LABELS = LABELS_FILE.read_text().split()


def names_of(images: np.ndarray, output: str = "logits") -> list[str]:
    session = onnxruntime.InferenceSession(FILE, providers=["CPUExecutionProvider"])
    (logits,) = session.run([output], {"images": images})
    np.testing.assert_allclose(np.exp(logits).sum(axis=1), 1, atol=2e-3)  # shares of all votes
    return [LABELS[i] for i in logits.argmax(axis=1)]


def crops(pictures: list[np.ndarray]) -> np.ndarray:
    result = endcap.preprocess(pictures, preset="torchvision", fit="stretch", size=224)
    return np.asarray(result.images)


def disc(inside: tuple[int, int, int], outside: tuple[int, int, int], hole: float) -> np.ndarray:
    """A ring of colour `inside` that fills its picture, with a hole of a share of its radius."""
    at = (np.arange(200) + 0.5) / 100 - 1
    radius = np.hypot(at[:, None], at[None, :])[..., None]
    ring = (radius <= 1) & (radius >= hole)
    return np.where(ring, inside, outside).astype(np.uint8)


@pytest.mark.parametrize(
    ("options", "shipped", "shipped_labels"),
    [
        ([], FILE, LABELS_FILE),
        (["--pixels"], OF_PIXELS / "1" / "model.onnx", OF_PIXELS / "labels.txt"),
    ],
    ids=["crops", "pixels"],
)
def test_the_files_are_what_the_script_writes(tmp_path, options, shipped, shipped_labels):
    model, labels = tmp_path / "model.onnx", tmp_path / "labels.txt"
    command = [sys.executable, "-m", "training.make_classifier", "--output", model, *options]
    subprocess.run([*command, "--labels", labels], cwd=ROOT, check=True, capture_output=True)
    assert labels.read_bytes() == shipped_labels.read_bytes()
    images = np.random.default_rng(0).normal(size=(2, 3, 224, 224)).astype(np.float32)
    responses = [
        onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"]).run(
            None, {"images": images}
        )
        for file in (model, shipped)
    ]
    np.testing.assert_array_equal(responses[0], responses[1])


def test_the_network_for_pixels_gives_the_shares_of_the_other_one():
    pictures = list(np.random.default_rng(1).integers(0, 256, (4, 300, 200, 3), np.uint8))
    pixels = endcap.preprocess(
        pictures, preset="torchvision", fit="stretch", size=224, scale=1, mean=0, std=1
    )
    session = onnxruntime.InferenceSession(
        OF_PIXELS / "1" / "model.onnx", providers=["CPUExecutionProvider"]
    )
    (shares,) = session.run(None, {"images": np.asarray(pixels.images)})
    session = onnxruntime.InferenceSession(FILE, providers=["CPUExecutionProvider"])
    (logits,) = session.run(["logits"], {"images": crops(pictures)})
    np.testing.assert_allclose(
        np.maximum(shares, LEAST_SHARE), np.exp(logits), rtol=0, atol=SAMPLE_SHARE_ROUNDING
    )


@pytest.mark.parametrize("flip", [False, True], ids=["on_gray", "on_green"])
def test_plain_colours_by_their_names(flip):
    colours = {
        "black": (5, 5, 5), "gray": (128, 128, 128), "white": (250, 250, 250), "red": (220, 10, 10),
        "orange": (250, 140, 10), "yellow": (250, 240, 20), "green": (20, 180, 40),
        "blue": (20, 60, 220), "purple": (120, 20, 160), "pink": (250, 130, 180),
        "brown": (110, 60, 25),
    }  # fmt: skip
    behind = (20, 160, 60) if flip else (100, 100, 100)
    images = crops([disc(colour, behind, 0) for colour in colours.values()])
    assert names_of(images) == list(colours) == [n for n in LABELS if n in colours]


def test_rings_are_named_by_their_rim():
    images = crops([disc((220, 10, 10), (20, 60, 220), hole) for hole in (0.5, 0.6, 0.74)])
    assert names_of(images, "ring_logits") == ["red"] * 3
    assert names_of(images) == ["blue"] * 3
