"""Runs `endcap init` in this process, on small networks that are written for it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper
from typer.testing import Result

from endcap.repository.options import InitOptions
from endcap.repository.plan import Plan, make_plan
from tests.support.cli_runs import endcap
from tests.support.family_networks import Network
from tests.support.finished_networks import Finished
from tests.support.onnx_heads import Shape, declare, network

# What is written whatever runs the network.
COMMON = {
    "README.md",
    "preprocess/config.pbtxt",
    "preprocess/warmup/encoded",
    "detector/config.pbtxt",
    "postprocess/config.pbtxt",
    "detect/config.pbtxt",
}

IMAGE: Mapping[str, Shape] = {"images": ["batch", 3, 64, 64]}


def plan_network(network: Network | Finished, folder: Path, **options: object) -> Plan:
    """What init decides about a network."""
    model = network.write(folder / "model.onnx")
    return make_plan(model, InitOptions(**options), folder)  # type: ignore[arg-type]


def init(model: Path, *options: object, output: Path | None = None) -> Result:
    """Run the command; the repository is `models` beside the network unless told otherwise."""
    target = output or model.parent / "models"
    return endcap("init", model, "-o", target, *options, columns=200)


def write_shapes(
    path: Path,
    outputs: Mapping[str, Shape],
    *,
    inputs: Mapping[str, Shape] = IMAGE,
    element: int = TensorProto.FLOAT,
    metadata: Mapping[str, str] | None = None,
) -> Path:
    """A network whose outputs are zeros of the given shapes; a text is a free dimension.

    The batch dimension is the first input's; the others are fixed.
    """
    (first, *_) = inputs
    axes = list(range(1, len(inputs[first])))
    nodes = f"all = Cast<to=1>({first}) mean = ReduceMean<axes={axes}, keepdims=0>(all)"
    constants: dict[str, Any] = {}
    for name, shape in outputs.items():
        constants[f"{name}_zeros"] = np.zeros([1, *shape[1:]], np.float32)
        constants[f"{name}_rank"] = np.array([-1, *[1] * (len(shape) - 1)])
        nodes += f" {name}_each = Reshape(mean, {name}_rank)"
        nodes += f" {name} = Mul({name}_each, {name}_zeros)"
    given = ", ".join(declare(name, shape, element) for name, shape in inputs.items())
    made = ", ".join(declare(name, shape) for name, shape in outputs.items())
    model = network(f"({given}) => ({made})", nodes, **constants)
    helper.set_model_props(model, dict(metadata or {}))
    onnx.save(model, str(path))
    return path


def written(folder: Path, network: Network, *options: object) -> Path:
    done = init(network.write(folder / "model.onnx"), *options)
    assert done.exit_code == 0, done.stderr
    return folder / "models"


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
