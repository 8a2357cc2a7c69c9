"""Normalisation at the beginning of a network, and what `endcap init` leaves to preprocess."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from endcap.repository.input_normalization import Normalization, find_normalization
from endcap.repository.options import InitOptions
from endcap.repository.plan import make_plan
from endcap.repository.validation import validate_repository
from endcap.triton.ensemble import find_network, read_ensemble
from endcap.triton.model_contract import preprocess_contract
from tests.support import family_networks as families
from tests.support.init_runs import init, plan_network
from tests.support.normalising_networks import Step, X, behind, graph

MEAN, STD = (0.5, 0.25, 0.75), (0.5, 0.25, 0.125)
IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
NHWC = [1, 8, 8, 3]


def channels(values: Sequence[float]) -> np.ndarray:
    return np.asarray(values, np.float32).reshape(1, 3, 1, 1)


SUB = ("Sub", X, channels(MEAN))
TO_FLOAT = ("Cast", X, {"to": TensorProto.FLOAT})
BATCH_NORMALIZATION = (
    "BatchNormalization",
    X,
    *(np.float32(each) for each in ([1, 2, 1], [0, 1, 0], [0.5, 0.5, 0.75], [0.25, 1, 0.0625])),
    {"epsilon": 0.0},
)
CHAINS: dict[str, tuple[Any, Normalization]] = {
    "mean, deviation": (
        graph(SUB, ("Div", X, channels(STD))),
        Normalization(MEAN, STD),
    ),
    "mean, factor": (
        graph(("Identity", X), SUB, ("Mul", X, channels([2, 4, 8]))),
        Normalization(MEAN, STD),
    ),
    "scalar": (graph(("Div", X, 255.0)), Normalization((0,) * 3, (255,) * 3)),
    "scalar first": (graph(("Mul", 0.25, X)), Normalization((0,) * 3, (4,) * 3)),
    "negative": (graph(("Sub", 1.0, X)), Normalization((1,) * 3, (-1,) * 3)),
    "factor, mean": (
        graph(("Mul", X, 2.0), ("Add", X, -1.0)),
        Normalization((0.5,) * 3, (0.5,) * 3),
    ),
    "scale, mean, deviation": (
        graph(("Div", X, 255.0), SUB, ("Div", X, channels(STD))),
        Normalization((127.5, 63.75, 191.25), (127.5, 63.75, 31.875)),
    ),
    "batch normalization": (
        graph(BATCH_NORMALIZATION),
        Normalization((0.5, 0, 0.75), (0.5, 0.5, 0.25)),
    ),
    "bytes": (
        graph(TO_FLOAT, ("Div", X, 255.0), element=TensorProto.UINT8),
        Normalization((0,) * 3, (255,) * 3),
    ),
    "transposed": (
        graph(("Transpose", X, {"perm": [0, 3, 1, 2]}), SUB, dims=NHWC),
        Normalization(MEAN, (1,) * 3),
    ),
    "channels last": (
        graph(("Sub", X, np.float32(MEAN)), dims=NHWC),
        Normalization(MEAN, (1,) * 3),
    ),
    "of one image": (
        graph(("Gather", X, np.array(0), {"axis": 0}), ("Sub", X, channels(MEAN)[0])),
        Normalization(MEAN, (1,) * 3),
    ),
}


@pytest.mark.parametrize("name", CHAINS)
def test_constants_at_the_beginning_are_put_together(name: str) -> None:
    made, expected = CHAINS[name]
    assert find_normalization(made, "x") == expected


OTHERS = {
    "none": graph(),
    "nothing": graph(("Mul", X, 1.0), ("Sub", X, 0.0)),
    "behind another": graph(("Relu", X), ("Div", X, 255.0)),
    "reversed": graph(("Div", 255.0, X)),
    "zero": graph(("Mul", X, channels([0, 1, 1]))),
    "NaN": graph(("Sub", X, channels([np.nan, 1, 1]))),
    "of pixels": graph(("Sub", X, np.arange(64, dtype=np.float32).reshape(8, 8))),
    "of integers": graph(("Div", X, np.array(255, np.uint8)), TO_FLOAT, element=TensorProto.UINT8),
    "rounded": graph(("Cast", X, {"to": TensorProto.INT32}), TO_FLOAT, ("Div", X, 255.0)),
    "one channel": graph(("Gather", X, np.array(0), {"axis": 1}), ("Div", X, 255.0)),
    "no constant": graph(("Div", X, X)),
    "no type": graph(("Cast", X), ("Div", X, 255.0)),
    "no such axes": graph(("Transpose", X, {"perm": [3, 2]}), ("Div", X, 255.0)),
    "no indices": graph(("Gather", X, {"axis": 0}), ("Div", X, 255.0)),
    "infinite": graph(("Div", X, np.float32(np.inf)), ("Div", X, 255.0)),
    "texts": graph(("Mul", X, np.array(["a"])), ("Div", X, 255.0)),
    "no statistics": graph(("BatchNormalization", X), ("Div", X, 255.0)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_beginnings_are_no_normalisation(name: str) -> None:
    assert find_normalization(OTHERS[name], "x") is None


def test_it_ends_where_several_operators_read_it() -> None:
    """What only one of two branches does is not done to the whole image."""
    made = graph(("Div", X, 255.0), ("Sub", X, 0.5))
    made.node.append(helper.make_node("Relu", ["t0"], ["branch"]))
    made.node.append(helper.make_node("Shape", ["x"], ["shape"]))
    assert find_normalization(made, "x") == Normalization((0,) * 3, (255,) * 3)


def test_what_a_branch_does_is_not_done_to_every_image() -> None:
    made = graph(("Div", X, 255.0))
    branch = helper.make_graph([made.node[0]], "then", [], [])
    del made.node[0]
    condition = helper.make_node("If", ["c"], ["t0"], then_branch=branch, else_branch=branch)
    made.node.insert(0, condition)
    assert find_normalization(made, "x") is None


def test_constants_may_be_nodes() -> None:
    made = graph(("Div", X, 255.0))
    del made.initializer[:]
    made.node.append(helper.make_node("Constant", [], ["c0_1"], value_float=255.0))
    assert find_normalization(made, "x") == Normalization((0,) * 3, (255,) * 3)


# --- what preprocess is left to do ---

HALF = ("Sub", X, 127.5), ("Div", X, 127.5)


# What it gives does not depend on its images.
(OUTPUT,) = families.yolov8().outputs.items()
CONSTANT = replace(families.yolov8(), outputs={OUTPUT[0]: replace(OUTPUT[1], change=0.0)})
TWICE = (
    "preprocess computes x / 255 of each pixel x, and the network of detector then begins by "
    "computing x / 255 itself"
)


def imagenet(factor: float = 1) -> tuple[Step, Step]:
    mean, std = (factor * channels(each) for each in IMAGENET)
    return ("Sub", X, mean), ("Div", X, std)


@pytest.mark.parametrize(
    ("steps", "options", "expected"),
    [
        ([("Div", X, 255.0)], [], ("1", "0,0,0", "1,1,1")),
        ([("Mul", X, 1 / 256)], ["--preset", "rtdetr"], ("1", "0,0,0", "1,1,1")),
        (imagenet(), ["--preset", "torchvision"], (repr(1 / 255), "0,0,0", "1,1,1")),
        (imagenet(255), ["--preset", "torchvision"], ("1", "0,0,0", "1,1,1")),
        (imagenet()[1:], ["--preset", "torchvision"], (repr(1 / 255), None, "1,1,1")),
        ([("Mul", X, 1 / 127.5), ("Sub", X, 1.0)], ["--preset", "inception"], ("1", "0,0,0", None)),
        ([("Sub", X, 1.0)], ["--preset", "inception"], (repr(1 / 127.5), "0,0,0", None)),
        # A head's usual preset, which a whole normalisation in the network outweighs.
        (imagenet(), [], (repr(1 / 255), "0,0,0", "1,1,1")),
        (imagenet(255), [], ("1", "0,0,0", "1,1,1")),
        # What is given wins.
        ([("Div", X, 255.0)], ["--preset", "torchvision", "--set", "scale=1"], ("1", None, None)),
        ([("Div", X, 255.0)], ["--set", f"scale={1 / 255!r}"], (repr(1 / 255), "0,0,0", "1,1,1")),
    ],
)
def test_preprocess_does_what_the_network_leaves(
    steps: Sequence[Step], options: list[str], expected: tuple[str | None, ...], tmp_path: Path
) -> None:
    """None stands for the preset's own value."""
    done = init(behind(CONSTANT.write(tmp_path / "model.onnx"), *steps), *options)
    assert done.exit_code == 0, done.stderr
    assert "computed by the network itself" in done.stdout
    written = written_parameters(tmp_path / "models")
    preset = preprocess_contract({"preset": written["preset"]}).parameters
    values = preprocess_contract(written).parameters
    for name, value in zip(("scale", "mean", "std"), expected, strict=True):
        assert numbers(values[name]) == pytest.approx(numbers(value or preset[name]))
    divided_twice = values["scale"] != "1" and isinstance(steps[0][2], float) and "Div" in steps[0]
    problems = [finding.problem for finding in validate_repository(tmp_path / "models").findings]
    assert problems == [TWICE] * divided_twice


def numbers(text: str) -> list[float]:
    return [float(each) for each in text.split(",")]


def written_parameters(repository: Path) -> dict[str, str]:
    return find_network(read_ensemble(repository, "detect")).preprocess


def test_bytes_are_left_to_the_network(tmp_path: Path) -> None:
    network = replace(families.yolov8(), dtype="uint8")
    steps = ("Cast", X, {"to": TensorProto.FLOAT}), ("Div", X, 255.0)
    done = init(behind(network.write(tmp_path / "model.onnx"), *steps), "--preset", "ultralytics")
    assert done.exit_code == 0, done.stderr
    assert re.search("begins with +x / 255 +computed by the network itself", done.stdout)


@pytest.mark.parametrize(
    ("dtype", "steps", "preset", "named"),
    [
        ("float32", [("Div", X, 255.0)], "torchvision", "x / 255 (Div), and --preset torchvision"),
        ("float32", HALF, "ultralytics", "(x - 127.5) / 127.5 (Sub, Div), and --preset ultralytic"),
        ("float32", imagenet(), "inception", "/ (0.229, 0.224, 0.225) (Sub, Div), and --preset in"),
        ("uint8", [("Cast", X, {"to": TensorProto.FLOAT}), *HALF], "ultralytics", "(x - 127.5) / "),
    ],
)
def test_a_preset_that_contradicts_the_network_is_refused(
    dtype: str, steps: Sequence[Step], preset: str, named: str, tmp_path: Path
) -> None:
    network = replace(CONSTANT, dtype=dtype)
    model = behind(network.write(tmp_path / "model.onnx"), *steps)
    done = init(model, "--preset", preset)
    assert done.exit_code == 2
    message = " ".join(done.stderr.split())
    assert named in message
    assert (
        "they contradict each other; give another --preset, or what the network gets: " in message
    )
    advised = message.rpartition("network gets: ")[2].partition(" for pixels")[0].split()
    assert init(model, "--preset", preset, *advised).exit_code == 0


def test_a_file_next_to_the_network_that_contradicts_it_is_refused(tmp_path: Path) -> None:
    model = behind(families.rtdetr().write(tmp_path / "model.onnx"), *imagenet())
    given = {"image_processor_type": "x", "rescale_factor": 0.1, "do_normalize": False}
    given["size"] = {"height": 64, "width": 64}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(given))
    done = init(model, "--num-classes", 4)
    assert done.exit_code == 2
    assert "preprocessor_config.json next to" in " ".join(done.stderr.split())


def test_noise_is_in_the_range_that_the_network_takes(tmp_path: Path) -> None:
    """The trial run of a network that divides by 255 shows what the same one shows without."""
    plain = plan_network(families.yolov8(), tmp_path)
    path = behind(families.yolov8().write(tmp_path / "divides.onnx"), ("Div", X, 255.0))
    divided = make_plan(path, InitOptions(), tmp_path)
    (expected,), (found,) = (
        [output.values for output in plan.head.inputs.values()] for plan in (plain, divided)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5)
