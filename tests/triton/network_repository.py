"""Writes an ensemble around an ONNX file, for any head: preprocess, the network, postprocess."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from model_folders import tensor, write_model, write_postprocess, write_preprocess

RUN_NETWORK = """
from pathlib import Path
import onnxruntime
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        path = Path(args["model_repository"]) / args["model_version"] / "model.onnx"
        self.session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        self.names = [each.name for each in self.session.get_outputs()]

    def execute(self, requests):
        images = [pb_utils.get_input_tensor_by_name(each, "images").as_numpy() for each in requests]
        return [self.respond(self.session.run(self.names, {"images": each})) for each in images]

    def respond(self, heads):
        tensors = [pb_utils.Tensor(*each) for each in zip(self.names, heads)]
        return pb_utils.InferenceResponse(tensors)
"""
BATCH = 4


@dataclass(frozen=True)
class Tensor:
    """Triton's type and one item's dims."""

    data_type: str
    dims: list[int]


DETECTIONS = {
    "num_detections": Tensor("TYPE_INT32", [1]),
    "detection_boxes": Tensor("TYPE_FP32", [300, 4]),
    "detection_scores": Tensor("TYPE_FP32", [300]),
    "detection_classes": Tensor("TYPE_INT32", [300]),
    "detection_indices": Tensor("TYPE_INT32", [300]),
    "status": Tensor("TYPE_INT32", [1]),
}


@dataclass(frozen=True, kw_only=True)
class Network:
    """An ONNX file, its tensors, and which input of postprocess each of its outputs is."""

    file: Path
    images: Tensor
    outputs: Mapping[str, Tensor]
    heads: Mapping[str, str]  # by the names of postprocess' inputs


def write_ensemble(
    repository: Path,
    name: str,
    network: Network,
    *,
    preprocess: Mapping[str, object],
    postprocess: Mapping[str, object],
    responses: Mapping[str, Tensor],
    files: Mapping[str, str] | None = None,
) -> None:
    """Writes NAME_preprocess, NAME_network and NAME_postprocess, and the ensemble NAME of them."""
    write_preprocess(repository, f"{name}_preprocess", max_batch_size=BATCH, parameters=preprocess)
    write_model(
        repository,
        f"{name}_network",
        backend="python",
        max_batch_size=BATCH,
        inputs=[tensor("images", network.images.data_type, network.images.dims)],
        outputs=_tensors(network.outputs),
        files={"1/model.py": RUN_NETWORK},
    )
    shutil.copyfile(network.file, repository / f"{name}_network" / "1" / "model.onnx")
    write_postprocess(
        repository,
        f"{name}_postprocess",
        max_batch_size=BATCH,
        parameters=postprocess,
        files=files,
    )
    steps = [
        _step(
            f"{name}_preprocess", ["encoded"], ["images", "geometry", "status"], {"status": "bad"}
        ),
        _step(f"{name}_network", ["images"], list(network.outputs), {}),
        _step(
            f"{name}_postprocess",
            [*network.heads, "geometry", "status"],
            list(responses),
            {**network.heads, "status": "bad"},
            {},
        ),
    ]
    lines = [
        'platform: "ensemble"',
        f"max_batch_size: {BATCH}",
        f"input {tensor('encoded', 'TYPE_STRING', [1])}",
        *(f"output {each}" for each in _tensors(responses)),
        f"ensemble_scheduling {{ {' '.join(steps)} }}",
    ]
    (repository / name / "1").mkdir(parents=True)
    (repository / name / "config.pbtxt").write_text("\n".join(lines) + "\n")


def _tensors(tensors: Mapping[str, Tensor]) -> list[str]:
    return [tensor(name, each.data_type, each.dims) for name, each in tensors.items()]


def _step(
    model: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    names: Mapping[str, str],
    output_names: Mapping[str, str] | None = None,
) -> str:
    """names: the ensemble's name of a tensor where it is not the model's own."""
    of_outputs = names if output_names is None else output_names
    maps = [
        *(f'input_map {{ key: "{n}" value: "{names.get(n, n)}" }}' for n in inputs),
        *(f'output_map {{ key: "{n}" value: "{of_outputs.get(n, n)}" }}' for n in outputs),
    ]
    return f'step {{ model_name: "{model}" model_version: -1 {" ".join(maps)} }}'
