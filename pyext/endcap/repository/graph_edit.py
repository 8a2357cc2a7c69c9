"""Edits at the ends of a network's graph, for what its neighbours give and take.

An input [C, H, W] and outputs without a batch dimension get one, inputs whose value is known become
constants, and outputs are reshaped, transposed or get other columns. Whatever runs the network runs
the edited file. Names of inputs and outputs stay.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from endcap.repository.errors import import_onnx
from endcap.repository.network_tensors import NetworkInput, NetworkOutput, OutputEdit
from endcap.repository.onnx_file import OnnxFile, walk_nodes
from endcap.triton.tensor_spec import TRITON_TYPES, TensorSpec

_PREFIX = "endcap_"
_AXES_ARE_INPUTS_SINCE = 13  # of Squeeze and Unsqueeze, the operator set
_DEFAULT_DOMAINS = ("", "ai.onnx")
_COLUMNS_AXIS = 2  # of [batch, rows, columns]


def edit_network(
    network: OnnxFile,
    image: NetworkInput,
    outputs: Iterable[NetworkOutput],
    scratch: Path,
    dropped: Collection[str] = (),
) -> OnnxFile:
    """Return a network that takes batches of images alone and gives its outputs as edited.

    Where nothing has to be edited it is the network itself, else a new file in the folder
    `scratch`, without the outputs whose names are `dropped`.
    """
    edited = [output for output in outputs if output.edit != OutputEdit()]
    if not (edited or dropped or image.constants) and image.has_batch:
        return network
    model = type(network.model)()
    model.CopyFrom(network.model)
    graph = _Graph(model)
    to_tensor: Any = import_onnx("onnx.numpy_helper").from_array
    model.graph.initializer.extend(to_tensor(each, name) for name, each in image.constants.items())
    _remove(model.graph.input, image.constants)
    if not image.has_batch:
        graph.squeeze_input(image.name)
    for output in edited:
        graph.edit_output(output)
    _remove(model.graph.output, dropped)  # their nodes stay, as others may need them
    file = scratch / "edited.onnx"
    file.write_bytes(model.SerializeToString())
    file.chmod(network.file.stat().st_mode & 0o777)
    (declared,) = (spec for spec in network.inputs if spec.name == image.name)
    if not image.has_batch:
        declared = TensorSpec(image.name, image.data_type, (1, *declared.dims))
    return replace(network, file=file, inputs=(declared,), model=model)


def _remove(values: Any, names: Collection[str]) -> None:
    for value in [each for each in values if each.name in names]:
        values.remove(value)


class _Graph:
    """A model that is edited in place."""

    def __init__(self, model: Any) -> None:
        self._helper: Any = import_onnx("onnx.helper")
        self._to_tensor: Any = import_onnx("onnx.numpy_helper").from_array
        self._graph = model.graph
        versions = [each.version for each in model.opset_import if each.domain in _DEFAULT_DOMAINS]
        self._axes_are_inputs = max(versions, default=1) >= _AXES_ARE_INPUTS_SINCE
        self._taken = {each.name for each in (*self._graph.input, *self._graph.initializer)}
        for node in walk_nodes(self._graph):
            self._taken |= {*node.input, *node.output}

    def squeeze_input(self, name: str) -> None:
        """Make an input [C, H, W] one of [1, C, H, W]."""
        (value,) = (each for each in self._graph.input if each.name == name)
        inner = self._rename(name)
        sizes = [dim.dim_value or dim.dim_param for dim in value.type.tensor_type.shape.dim]
        element = value.type.tensor_type.elem_type
        value.CopyFrom(self._helper.make_tensor_value_info(name, element, [1, *sizes]))
        axes, attributes = self._first_axis()
        squeeze = self._helper.make_node("Squeeze", [name, *axes], [inner], **attributes)
        self._graph.node.insert(0, squeeze)

    def edit_output(self, output: NetworkOutput) -> None:
        """Append to an output what its edit says."""
        (value,) = (each for each in self._graph.output if each.name == output.name)
        inner, element = self._rename(output.name), value.type.tensor_type.elem_type
        nodes = [*self._steps(output.edit, inner, element)]
        nodes[-1].output[0] = output.name
        self._graph.node.extend(nodes)
        shape: list[str | int] = [1, *output.dims]
        for axis, is_free in enumerate(output.is_dynamic):
            if is_free:
                shape[axis] = f"{output.name}_dim_{axis}"
        element = self._element(output.data_type)
        value.CopyFrom(self._helper.make_tensor_value_info(output.name, element, shape))

    def _steps(self, edit: OutputEdit, last: str, element: int) -> Iterator[Any]:
        def step(kind: str, *more: str, **attributes: Any) -> Any:
            nonlocal last
            result = self._new_name(last)
            node = self._helper.make_node(kind, [last, *more], [result], **attributes)
            last = result
            return node

        if edit.adds_batch:
            axes, attributes = self._first_axis()
            yield step("Unsqueeze", *axes, **attributes)
        if edit.shape:
            yield step("Reshape", self._constant([-1, *edit.shape]))
        if edit.appends:  # as a column [N, K, 1]
            numbers, column = self._new_name(edit.appends), self._new_name(edit.appends)
            shape = self._constant([1 if edit.adds_batch else 0, -1, 1])
            yield self._helper.make_node("Cast", [edit.appends], [numbers], to=element)
            yield self._helper.make_node("Reshape", [numbers, shape], [column])
            yield step("Concat", column, axis=_COLUMNS_AXIS)
        if edit.transposes:
            yield step("Transpose", perm=[0, 2, 1])
        if edit.columns:
            yield step("Gather", self._constant([*edit.columns]), axis=_COLUMNS_AXIS)
        if edit.data_type:
            yield step("Cast", to=self._element(edit.data_type))
        if edit.frees_batch:
            yield step("Identity")

    def _element(self, data_type: str) -> int:
        name = next(name for name, each in TRITON_TYPES.items() if each == data_type)
        return int(self._helper.np_dtype_to_tensor_dtype(np.dtype(name)))

    def _first_axis(self) -> tuple[list[str], dict[str, Any]]:
        """Return the further inputs and the attributes of a Squeeze of the first axis."""
        return ([self._constant([0])], {}) if self._axes_are_inputs else ([], {"axes": [0]})

    def _constant(self, values: list[int]) -> str:
        name = self._new_name("constant")
        self._graph.initializer.append(self._to_tensor(np.array(values, np.int64), name))
        return name

    def _new_name(self, base: str) -> str:
        number = 1
        while f"{_PREFIX}{base}_{number}" in self._taken:
            number += 1
        self._taken.add(f"{_PREFIX}{base}_{number}")
        return f"{_PREFIX}{base}_{number}"

    def _rename(self, old: str) -> str:
        """Give a tensor a new name wherever nodes use it; names are unique in a whole model."""
        new = self._new_name(old)
        for node in walk_nodes(self._graph):
            for tensors in (node.input, node.output):
                tensors[:] = [new if name == old else name for name in tensors]
        for each in (*self._graph.initializer, *self._graph.value_info):
            if each.name == old:
                each.name = new
        return new
