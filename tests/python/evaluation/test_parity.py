"""`endcap parity`: its pipelines and its messages."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from endcap.triton.model_config import set_parameter
from tests.support.cli_runs import assert_error_message, endcap
from tests.support.normalising_networks import X, behind
from tests.support.training_faults import write_images

SHIPPED = Path(__file__).resolve().parents[3] / "model_repository"
SAMPLES = SHIPPED / "detect" / "samples"
PIPELINE = """
import cv2
import numpy as np

def load(path, bgr=False, size=640):
    image = cv2.imread(path)
    if image is None:
        raise ValueError("no image")
    height, width = image.shape[:2]
    ratio = min(size / height, size / width)
    height, width = round(height * ratio), round(width * ratio)
    image = cv2.resize(image, (width, height))
    top, left = (size - height) // 2, (size - width) // 2
    padding = top, size - height - top, left, size - width - left
    image = cv2.copyMakeBorder(image, *padding, cv2.BORDER_CONSTANT, value=(114,) * 3)
    return image.transpose(2, 0, 1)[:: 1 if bgr else -1].astype(np.float32)[None] / 255

def load_bgr(path):
    return load(path, bgr=True)

def load_large(path):
    return load(path, size=704)

def load_many(path):
    return np.zeros((2, 3, 640, 640), np.float32)

def load_text(path):
    return np.array(["text"])

def load_infinite(path):
    return np.full((3, 640, 640), np.inf, np.float32)

def load_printing(path):
    print("loading", path)
    return load(path)

def load_pair(path):
    return load(path), 3

def load_mixed(path):
    return load(path).astype(np.float16 if "320x240" in path else np.float32)

def load_and_exit(path):
    raise SystemExit(5)

class Data:
    load = staticmethod(load)

def load_any_size(path):
    return np.zeros((3, *cv2.imread(path).shape[:2]), np.float32)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of training code in the current folder; its name is the test's own."""
    name = f"training_{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(PIPELINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """A folder of three samples: the time that a difference costs grows with their number."""
    folder = tmp_path / "few"
    folder.mkdir()
    for name in ("320x240", "512x600", "640x427"):
        shutil.copy(SAMPLES / f"shapes_{name}.jpg", folder)
    return folder


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    copy = tmp_path / "models"
    copy.mkdir()
    for name in ("detect", "preprocess", "detector", "postprocess"):
        shutil.copytree(SHIPPED / name, copy / name, ignore=shutil.ignore_patterns("samples"))
    return copy


# --- the command ----------------------------------------------------------------------------------


def test_the_same_pixels(module: str, repository: Path) -> None:
    result = endcap(
        "parity", SAMPLES, "--training", f"{module}:load", "--repository", repository, columns=160
    )
    assert result.exit_code == 0, result.output
    assert "No difference was found: the network sees the same pixels." in result.stdout


def set_in(repository: Path, name: str, value: str) -> None:
    config = repository / "preprocess" / "config.pbtxt"
    config.write_text(set_parameter(config.read_text(), name, value))


def test_what_was_found_mends_it(module: str, repository: Path, few: Path) -> None:
    arguments = ["parity", few, "--training", f"{module}:load_bgr", "--repository", repository]
    result = endcap(*arguments, "--json")
    report = json.loads(result.stdout)
    (cause,) = report["causes"]
    assert (result.exit_code, cause["name"], report["settings"]) == (1, "color", {"color": "bgr"})
    assert cause["effect"]["mean_steps"] > 1
    assert "set color=bgr" in endcap(*arguments, columns=160).stdout
    set_in(repository, "color", "bgr")
    result = endcap(*arguments)
    assert result.exit_code == 0, result.output


def test_a_network_that_divides_by_itself(module: str, repository: Path, few: Path) -> None:
    """What the network does of the training's normalisation is a cause where preprocess repeats it.

    The training's tensors are those that the network has behind its division.
    """
    behind(repository / "detector" / "1" / "model.onnx", ("Div", X, 255.0))
    options = [few, "--training", f"{module}:load", "--repository", repository]
    twice = endcap("parity", *options, "--json")
    report = json.loads(twice.stdout)
    assert (twice.exit_code, report["settings"]) == (1, {"scale": "1"})
    assert "the network itself begins by computing x / 255" in " ".join(report["notes"])
    set_in(repository, "scale", "1")
    mended = endcap("parity", *options, "--json")
    assert mended.exit_code == 0, mended.stdout


def test_an_image_that_fails_is_named_and_the_others_are_compared(
    module: str, tmp_path: Path
) -> None:
    images = tmp_path / "images"
    write_images(images)
    (images / "broken.jpg").write_bytes(b"\xff\xd8 no image")
    result = endcap("parity", images, "--training", f"{module}:load", "--preset", "ultralytics")
    assert result.exit_code == 1
    assert "broken.jpg" in result.stdout.replace("\n", "")  # long paths are broken anywhere
    assert "images   5" in result.stdout
    assert "No difference was found" in result.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--training", "m:f"], "give --repository DIR or --preset NAME"),
        (["--training", "nothing", "--preset", "ultralytics"], "--training is 'nothing'"),
        (["--training", "no_module:f", "--preset", "ultralytics"], "cannot be imported"),
        (["--training", "json:f", "--preset", "ultralytics"], "json has no function f"),
        (
            ["--training", "m:f", "--preset", "ultralytics", "--repository", SHIPPED],
            "leave --preset and --set out",
        ),
        (["--training", "m:f", "--repository", "nowhere"], "nowhere/detect/config.pbtxt"),
        (["--training", "m:f", "--preset", "ultralytics", "--set", "size"], "give NAME=VALUE"),
    ],
)
def test_what_cannot_be_compared(options: list[object], message: str) -> None:
    assert_error_message(endcap("parity", SAMPLES, *options), message)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("load_many", "the tensor of one image is expected"),
        ("load_text", "the tensor of one image is expected"),
        ("load_infinite", "numbers that are not finite"),
        ("load_any_size", "makes tensors of several shapes"),
        ("load_mixed", "makes tensors of several types or layouts, float16 nchw and float32 nchw"),
        ("load_and_exit", "SystemExit: 5"),
    ],
)
def test_what_a_function_must_return(module: str, few: Path, function: str, message: str) -> None:
    result = endcap("parity", few, "--training", f"{module}:{function}", "--preset", "rtdetr")
    assert_error_message(result, message)


@pytest.mark.parametrize("function", ["load_printing", "load_pair", "Data.load"])
def test_what_a_function_may_do(module: str, function: str) -> None:
    result = endcap(
        *("parity", SAMPLES, "--training", f"{module}:{function}", "--preset", "ultralytics"),
        "--json",
    )
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["causes"] == []


@pytest.mark.parametrize(
    ("text", "message"),
    [("raise ValueError('no')", "ValueError: no"), ("def f(:", "SyntaxError"), ("exit(3)", "3")],
)
def test_a_module_that_fails(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"failing_{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    result = endcap("parity", SAMPLES, "--training", f"{name}:f", "--preset", "ultralytics")
    assert_error_message(result, f"{name}:f", message)


@pytest.mark.parametrize("name", ["ultralytics", "torchvision", "timm:resnet50"])
def test_a_missing_library_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    package = name.partition(":")[0]
    monkeypatch.setitem(__import__("sys").modules, package, None)  # as if it were not installed
    result = endcap("parity", SAMPLES, "--training", name, "--preset", "ultralytics")
    assert_error_message(result, f"takes {package}, which cannot be imported")
    assert f"pip install {package}" in result.stderr
