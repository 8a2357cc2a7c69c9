"""ONNX files without their weights: inputs, outputs and metadata."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from endcap.repository.errors import RepositoryError, import_onnx
from endcap.repository.metadata import NetworkMetadata, read_metadata
from endcap.triton.tensor_spec import TRITON_TYPES, TensorSpec

# A location by which ONNX Runtime takes weights from its own memory: not for files.
_MEMORY_LOCATION = "_ORT_MEM_ADDR_"
_EXPORTS = (
    "give an ONNX file, exported by `yolo export model=MODEL.pt format=onnx` (ultralytics), "
    "torch.onnx.export, `optimum-cli export onnx` (transformers), `python -m tf2onnx.convert` "
    "(TensorFlow) or `paddle2onnx`; for a TensorRT engine the file that it was made from"
)


@dataclass(frozen=True)
class OnnxFile:
    """A network's inputs and outputs, with the batch dimension, and what is declared about it."""

    path: Path  # as the user gave it
    file: Path  # what is to be run and copied: `path`, or its edited copy
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    metadata: NetworkMetadata
    external_files: Mapping[str, Path]  # of weights, by the location that `file` gives
    model: Any  # onnx.ModelProto, external weights not loaded

    def weight_names(self) -> dict[str, str]:
        """Return names for the external files in a repository, where others have theirs."""
        return {
            location: f"weights_{number}.bin" if number > 1 else "weights.bin"
            for number, location in enumerate(sorted(self.external_files), 1)
        }

    def inferred_outputs(self) -> tuple[TensorSpec, ...]:
        """Return the outputs with what their nodes tell of the shapes, as servers read them."""
        inference: Any = import_onnx("onnx.shape_inference")
        try:
            model = inference.infer_shapes(self.model)
        except inference.InferenceError:  # of operators that onnx knows otherwise
            return self.outputs
        return tuple(_spec(each) for each in model.graph.output)

    def relocate_weights(self, locations: Mapping[str, str]) -> bytes:
        """Return the content of the file with other locations of the external weights."""
        model = type(self.model)()
        model.CopyFrom(self.model)
        for tensor in _external_tensors(model):
            for entry in tensor.external_data:
                if entry.key == "location":
                    entry.value = locations[entry.value]
        return bytes(model.SerializeToString())


def read_onnx(path: Path) -> OnnxFile:
    """Read a file.

    Raises:
        RepositoryError: It is not an ONNX model, or lacks a file that holds its weights.
        OSError: It cannot be read.
    """
    onnx: Any = import_onnx()
    if path.exists() and not path.is_file():
        raise RepositoryError(f"{path} is not a regular file; give the ONNX file itself")
    encoded = path.read_bytes()
    try:
        model = onnx.load_model_from_string(encoded)
    except Exception as error:  # protobuf's DecodeError, of one of its several implementations
        raise RepositoryError(
            f"{path} is not an ONNX model ({len(encoded)} bytes that do not decode as one); "
            f"{_EXPORTS}"
        ) from error
    if not model.opset_import or not model.graph.node:
        raise RepositoryError(
            f"{path} is not an ONNX model: it decodes, but holds no graph; export the network again"
        )
    weights = {each.name for each in model.graph.initializer}
    for each in (*model.graph.input, *model.graph.output):
        if not isinstance(each.name, str) or not each.name.isprintable():  # or no UTF-8
            raise RepositoryError(
                f"{path} has a tensor whose name has control characters ({each.name!r}); export it "
                "with other names"
            )
    return OnnxFile(
        path=path,
        file=path,
        # Before IR version 4 every weight was listed as an input as well.
        inputs=tuple(_spec(each) for each in model.graph.input if each.name not in weights),
        outputs=tuple(_spec(each) for each in model.graph.output),
        metadata=read_metadata({each.key: each.value for each in model.metadata_props}),
        external_files=dict(_external_files(path, model)),
        model=model,
    )


def walk_nodes(graph: Any) -> Iterator[Any]:
    """Yield the nodes of a graph and of the graphs inside them."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                yield from walk_nodes(inner)


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


def _external_files(path: Path, model: Any) -> Iterator[tuple[str, Path]]:
    # A network and its weights may both be links into one folder, as in caches of downloads.
    folders = (path.parent.resolve(), path.resolve().parent)
    for tensor in _external_tensors(model):
        locations = [entry.value for entry in tensor.external_data if entry.key == "location"]
        if len(locations) != 1:  # readers differ in which one they take
            raise RepositoryError(
                f"{path} gives {len(locations)} locations of the weights {tensor.name}, and one is "
                "expected; export it again"
            )
        (location,) = locations
        file = path.parent / location
        # Hidden files are those of settings and keys.
        is_hidden = any(part.startswith(".") for part in Path(location).parts)
        is_inside = any(file.resolve().is_relative_to(folder) for folder in folders)
        if is_hidden or Path(location).is_absolute() or (file.exists() and not is_inside):
            raise RepositoryError(
                f"{path} keeps the weights {tensor.name} in {location}, which is hidden or outside "
                "of its folder; export it with the weights next to it"
            )
        if not file.is_file() or _MEMORY_LOCATION in location:
            raise RepositoryError(
                f"{path} keeps the weights {tensor.name} in {location}, and {file} is not there; "
                "put that file next to the network, or export it with its weights inside"
            )
        yield location, file


def _external_tensors(model: Any) -> Iterator[Any]:
    """Yield the tensors whose values lie in other files, wherever in the model they stand."""
    external: Any = import_onnx("onnx.external_data_helper")
    messages = [model]
    while messages:
        message = messages.pop()
        if message.DESCRIPTOR.name == "TensorProto":
            if external.uses_external_data(message):
                yield message
            continue
        for field, value in message.ListFields():
            if field.message_type is not None:
                messages += [value] if hasattr(value, "DESCRIPTOR") else value
