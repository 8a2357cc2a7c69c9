"""Writes the detector as an ONNX file and compares it with PyTorch."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import torch

from .network import STRIDES, Detector, DetectorWithHead

INPUT_SIDE = 640
OPSET = 17
# ONNX Runtime and PyTorch sum convolutions in different orders: scores agree to 1e-4 and boxes
# to a hundredth of a pixel.
SCORE_TOLERANCE = 1e-4
BOX_TOLERANCE_PIXELS = 1e-2


def export_onnx(detector: Detector, class_names: tuple[str, ...], path: Path) -> None:
    """Write `images` float32 [N, 3, 640, 640] -> `head` float32 [N, 4 + C, 8400].

    The file's metadata holds `names`, `stride`, `task` and `imgsz` under the keys that
    ultralytics' exporter uses.

    Raises:
        RuntimeError: the file does not give PyTorch's numbers.
    """
    model = DetectorWithHead(detector).eval()
    example = torch.rand(2, 3, INPUT_SIDE, INPUT_SIDE, generator=torch.Generator().manual_seed(0))
    path.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        # The tracer says that the cell centres become constants, which is what is wanted.
        warnings.filterwarnings("ignore", "Converting a tensor to a Python integer")
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.onnx.export(
            model,
            (example,),
            path,
            input_names=["images"],
            output_names=["head"],
            dynamic_axes={"images": {0: "batch"}, "head": {0: "batch"}},
            opset_version=OPSET,
            dynamo=False,
        )
    with torch.inference_mode():
        expected = model(example).numpy()
    _describe(path, class_names, expected.shape[1:])
    _compare(path, example.numpy(), expected)


def _describe(path: Path, class_names: tuple[str, ...], head_shape: tuple[int, ...]) -> None:
    """Add the metadata, and the head's sizes, which the exporter leaves open."""
    proto = onnx.load(path)
    dims = proto.graph.output[0].type.tensor_type.shape.dim
    for dim, size in zip(dims[1:], head_shape, strict=True):
        dim.dim_value = size
    facts = {
        "names": dict(enumerate(class_names)),
        "stride": max(STRIDES),
        "task": "detect",
        "imgsz": [INPUT_SIDE, INPUT_SIDE],
        "batch": 1,
    }
    onnx.helper.set_model_props(proto, {key: str(value) for key, value in facts.items()})
    onnx.checker.check_model(proto, full_check=True)
    onnx.save(proto, path)


def _compare(
    path: Path, images: npt.NDArray[np.float32], expected: npt.NDArray[np.float32]
) -> None:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (head,) = session.run(["head"], {"images": images})
    difference = np.abs(head - expected)
    boxes, scores = float(difference[:, :4].max()), float(difference[:, 4:].max())
    if boxes > BOX_TOLERANCE_PIXELS or scores > SCORE_TOLERANCE:
        raise RuntimeError(
            f"{path} differs from PyTorch by {boxes:.2g} pixels and {scores:.2g} in scores; "
            f"allowed are {BOX_TOLERANCE_PIXELS} and {SCORE_TOLERANCE}."
        )
    print(f"{path}: {path.stat().st_size} bytes; boxes within {boxes:.1e} px of PyTorch's")
