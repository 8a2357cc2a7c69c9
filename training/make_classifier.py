"""Writes the sample classifier, which names the colour of what a crop shows.

    python -m training.make_classifier --output FOLDER/model.onnx --labels FOLDER/labels.txt

Nothing in it is learnt. The shipped files are model_repository/classifier/1/model.onnx and
model_repository/classify_postprocess/labels.txt.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from .colour_names import COLOUR_NAMES, PROTOTYPES

Array = npt.NDArray[np.float32]

SIDE = 224
CELL = 8  # pixels; colours are averaged over cells of this side before they are named
OPSET = 17
IR_VERSION = 8  # of ONNX Runtime 1.17 and later
# ImageNet's, which the preset `torchvision` takes off.
MEAN = np.array([0.485, 0.456, 0.406])
STD = np.array([0.229, 0.224, 0.225])
# sRGB's curve is nearly this power.
GAMMA = 2.2
# B. Ottosson, "A perceptual color space for image processing", 2020: linear sRGB to the cones'
# answers, and their cube roots to Oklab.
RGB_TO_LMS = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
LMS_TO_OKLAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)
# Shading changes a thing's lightness more than its hue.
AXIS_WEIGHTS = np.array([0.6, 1.2, 1.2])
# Standard deviation of a vote, in Oklab: cells whose colour is near a border count for both sides.
VOTE_WIDTH = 0.03
# A colour of which nothing was seen has this share, so that its logarithm is finite.
LEAST_SHARE = 1e-4


def make_classifier() -> onnx.ModelProto:
    """Return the network: every cell of the crop votes for the colour names near its own colour.

    Input `images` float32 [N, 3, 224, 224], RGB with ImageNet's mean and deviation. Output `logits`
    float32 [N, len(COLOUR_NAMES)], logarithms of shares of the votes, weighted towards the middle.
    """
    to_oklab = AXIS_WEIGHTS[:, None] * LMS_TO_OKLAB
    prototypes = np.array([_oklab(rgb) for _, rgb in PROTOTYPES])
    owners = [COLOUR_NAMES.index(name) for name, _ in PROTOTYPES]
    closeness = prototypes @ to_oklab / VOTE_WIDTH**2
    offset = -0.5 * (prototypes**2).sum(axis=1) / VOTE_WIDTH**2
    constants = {
        "unnormalise": _kernel(np.diag(STD)),
        "mean": MEAN,
        "zero": np.array(0.0),
        "one": np.array(1.0),
        "gamma": np.array(GAMMA),
        "rgb_to_lms": _kernel(RGB_TO_LMS),
        "cube_root": np.array(1.0 / 3.0),
        "closeness": _kernel(closeness),
        "closeness_offset": offset,
        "names_of_prototypes": _kernel(np.eye(len(COLOUR_NAMES))[owners].T),
        "middle": _middle(),
        "least_share": np.array(LEAST_SHARE),
    }
    nodes = [
        helper.make_node(
            "AveragePool", ["images"], ["cells"], kernel_shape=[CELL] * 2, strides=[CELL] * 2
        ),
        helper.make_node("Conv", ["cells", "unnormalise", "mean"], ["srgb_open"]),
        helper.make_node("Clip", ["srgb_open", "zero", "one"], ["srgb"]),
        helper.make_node("Pow", ["srgb", "gamma"], ["linear"]),
        helper.make_node("Conv", ["linear", "rgb_to_lms"], ["lms"]),
        helper.make_node("Pow", ["lms", "cube_root"], ["lms_roots"]),
        # -|x - p|^2 / 2 without |x|^2, which is the same for all prototypes: softmax takes it off.
        helper.make_node("Conv", ["lms_roots", "closeness", "closeness_offset"], ["close"]),
        helper.make_node("Softmax", ["close"], ["votes"], axis=1),
        helper.make_node("Conv", ["votes", "names_of_prototypes"], ["named"]),
        helper.make_node("Mul", ["named", "middle"], ["counted"]),
        helper.make_node("GlobalAveragePool", ["counted"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["share"]),
        helper.make_node("Max", ["share", "least_share"], ["positive"]),
        helper.make_node("Log", ["positive"], ["logits"]),
    ]
    graph = helper.make_graph(
        nodes,
        "colour_of_a_crop",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["batch", 3, SIDE, SIDE])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", len(COLOUR_NAMES)])],
        [numpy_helper.from_array(a.astype(np.float32), name) for name, a in constants.items()],
    )
    opset = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION)
    helper.set_model_props(model, {"names": str(dict(enumerate(COLOUR_NAMES)))})
    onnx.checker.check_model(model, full_check=True)
    return model


def _oklab(rgb: str) -> npt.NDArray[np.float64]:
    srgb = np.array([int(rgb[i : i + 2], 16) for i in (0, 2, 4)]) / 255
    return AXIS_WEIGHTS * (LMS_TO_OKLAB @ np.cbrt(RGB_TO_LMS @ srgb**GAMMA))


def _kernel(matrix: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return a matrix as the weights of a convolution of one pixel."""
    return matrix[:, :, None, None]


def _middle() -> npt.NDArray[np.float64]:
    """Weights float64 [1, 1, 28, 28] of mean 1 that fall towards the border."""
    cells = SIDE // CELL
    at = (np.arange(cells) + 0.5) / (cells / 2) - 1  # of each cell's centre, 1 at the sides
    weights = np.exp(-0.5 * (np.hypot(at[:, None], at[None, :]) / 0.3) ** 2)
    return (weights / weights.mean())[None, None]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Writes the sample classifier of colours.")
    parser.add_argument("--output", type=Path, required=True, help="the ONNX file")
    parser.add_argument("--labels", type=Path, help="text file for the colour names, one a line")
    options = parser.parse_args()
    options.output.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(make_classifier(), options.output)
    if options.labels is not None:
        options.labels.write_text("".join(f"{name}\n" for name in COLOUR_NAMES), encoding="utf-8")
    print(f"{options.output}: {options.output.stat().st_size} bytes")


if __name__ == "__main__":
    main()
