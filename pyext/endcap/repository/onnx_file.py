"""What an ONNX file says of itself, read without its weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from endcap.repository.errors import RepositoryError, import_onnx
from endcap.repository.tensor_spec import TRITON_TYPES, TensorSpec


@dataclass(frozen=True)
class OnnxFile:
    """A network's inputs and outputs, with the batch dimension, and what its exporter wrote.

    path: as the user gave it. file: what is to be run and copied, `path` itself unless it was
    converted. external_files: files beside `file` that hold weights, all of them there.
    """

    path: Path
    file: Path
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    metadata: Mapping[str, str]
    external_files: tuple[Path, ...]
    model: Any  # onnx.ModelProto, external weights not loaded


def read_onnx(path: Path) -> OnnxFile:
    """Reads a file.

    Raises RepositoryError when it is no ONNX model, or lacks a file that holds its weights, and
    OSError when it cannot be read.
    """
    onnx: Any = import_onnx()
    if path.is_dir():
        raise RepositoryError(f"{path} is a folder; give the ONNX file itself")
    if path.exists() and not path.is_file():
        raise RepositoryError(f"{path} is a pipe or a device; give the ONNX file itself")
    encoded = path.read_bytes()
    try:
        model = onnx.load_model_from_string(encoded)
    except Exception as error:  # protobuf's DecodeError, of one of its several implementations
        raise RepositoryError(
            f"{path} is no ONNX model ({len(encoded)} bytes that do not decode as one); "
            "export the network to ONNX and give that file"
        ) from error
    if not model.opset_import or not model.graph.node:
        raise RepositoryError(
            f"{path} is no ONNX model: it decodes, but holds no graph; export the network again"
        )
    weights = {each.name for each in model.graph.initializer}
    return OnnxFile(
        path=path,
        file=path,
        # Before IR version 4 every weight was listed as an input as well.
        inputs=tuple(_spec(each) for each in model.graph.input if each.name not in weights),
        outputs=tuple(_spec(each) for each in model.graph.output),
        metadata={each.key: each.value for each in model.metadata_props},
        external_files=tuple(sorted(set(_external_files(path, model)))),
        model=model,
    )


def _spec(value: Any) -> TensorSpec:
    helper: Any = import_onnx("onnx.helper")
    tensor = value.type.tensor_type
    try:
        data_type = TRITON_TYPES.get(helper.tensor_dtype_to_np_dtype(tensor.elem_type).name, "")
    except KeyError:  # a sequence, a map, or a type younger than the package
        data_type = ""
    dims = tuple(
        dim.dim_value if dim.HasField("dim_value") and dim.dim_value > 0 else None
        for dim in tensor.shape.dim
    )
    return TensorSpec(value.name, data_type, dims)


def _external_files(path: Path, model: Any) -> Iterator[Path]:
    external: Any = import_onnx("onnx.external_data_helper")
    for tensor in external._get_all_tensors(model):
        if not external.uses_external_data(tensor):
            continue
        location = next((e.value for e in tensor.external_data if e.key == "location"), "")
        file = path.parent / location
        if Path(location).is_absolute() or ".." in Path(location).parts:
            raise RepositoryError(
                f"{path} keeps the weights {tensor.name} in {location}, outside of its folder; "
                "export it with the weights beside it"
            )
        if not file.is_file():
            raise RepositoryError(
                f"{path} keeps the weights {tensor.name} in {location}, and {file} is not there; "
                "put that file beside the network"
            )
        yield file
