"""Tensors that the parameters of endcap's backends determine, as the core has them.

The server decides by backends/*/contracts.cc; this is the same for Python.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from endcap import _core
from endcap.triton.tensor_spec import TRITON_TYPES, TensorSpec, free_dims

ENCODED = TensorSpec("encoded", "STRING", (1,))
# What postprocess takes beside the head, both optional.
SIDE_INPUTS = (TensorSpec("geometry", "FP32", (8,)), TensorSpec("status", "INT32", (1,)))

Core = _core.Preprocessor | _core.Postprocessor

_ENCODED = (ENCODED, TensorSpec("encoded", "UINT8", (None,)))
_ROIS = TensorSpec("rois", "FP32", (None, 4))
_SORTED = ("class_scores", "class_ids")  # best first, not in the order of the classes


@dataclass(frozen=True)
class StageContract:
    """Parameters of a stage and the tensors that they make.

    Attributes:
        parameters: The value of each, as text.
        meanings: The meaning of each.
        inputs: Of one image, without a batch dimension.
        outputs: The same.
    """

    parameters: Mapping[str, str]
    meanings: Mapping[str, str]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


def preprocess_contract(parameters: Mapping[str, str]) -> StageContract:
    """Return the contract of a preprocess model.

    Raises:
        InvalidArgumentError: A parameter has an impossible value.
        UnsupportedError: This build cannot do it.
    """
    core = _core.Preprocessor(list(parameters.items()), 1)
    return StageContract(*_texts(core.parameters), (ENCODED,), _tensors(core.outputs))


def postprocess_contract(parameters: Mapping[str, str]) -> StageContract:
    """Return the contract of a postprocess model: inputs of the head, outputs without class names.

    A dimension that the network decides is None.

    Raises:
        InvalidArgumentError: A parameter has an impossible value.
    """
    core = _core.Postprocessor(list(parameters.items()), 1)
    outputs = (*_tensors(core.outputs), *rle_outputs(core))
    return StageContract(*_texts(core.parameters), _tensors(core.inputs), outputs)


def rle_outputs(core: _core.Postprocessor) -> tuple[TensorSpec, ...]:
    """Return the output of masks, one string a row, which the backend makes; () without masks."""
    values = {name: value for name, _, _, value in core.parameters}
    if not any(name == "mask_size" for name, _, _ in core.outputs):
        return ()
    return (TensorSpec("detection_rle", "STRING", (int(values["max_detections"]),)),)


def _texts(rows: list[_core.Parameter]) -> tuple[dict[str, str], dict[str, str]]:
    values = {name: value for name, _, _, value in rows}
    return values, {name: meaning for name, meaning, _, _ in rows}


def _tensors(specs: list[_core.Spec]) -> tuple[TensorSpec, ...]:
    return tuple(
        TensorSpec(name, TRITON_TYPES[dtype], tuple(dim if dim >= 0 else None for dim in dims))
        for name, dtype, dims in specs
    )


@dataclass(frozen=True)
class TensorContract:
    """What a tensor may be: one of `forms`, the first where nothing is declared.

    Attributes:
        determined_by: The parameters on which the form depends, "" where it is always the same.
        labels_belong_to: The output that takes a label_filename in this one's stead.
    """

    forms: tuple[TensorSpec, ...]
    determined_by: str = ""
    optional: bool = False
    labels_belong_to: str = ""

    @property
    def name(self) -> str:
        """The tensor's name."""
        return self.forms[0].name


def contracts_of(core: Core, *, with_rois: bool = False) -> dict[str, list[TensorContract]]:
    """Return the contracts of the inputs and of the outputs, in their order.

    Args:
        core: The engine with the parameters.
        with_rois: The config lists an input `rois`, which only preprocess may have.
    """
    if isinstance(core, _core.Preprocessor):
        specs = [_spec(each) for each in core.outputs]
        inputs = [TensorContract(_ENCODED)]
        if with_rois:
            specs = [_for_each_roi(spec) for spec in specs]
            inputs.append(TensorContract((_ROIS,)))
        outputs = [
            TensorContract((spec,), "size, color, layout or dtype" if spec.name == "images" else "")
            for spec in specs
        ]
        return {"input": inputs, "output": outputs}
    values = {name: value for name, _, _, value in core.parameters}
    if values["head"] == "classification":
        outputs = _class_outputs(core, values)
    else:
        specs = [*map(_spec, core.outputs), *rle_outputs(core)]
        outputs = [TensorContract((spec,), _says(values, "max_detections")) for spec in specs]
    return {"input": [*_head_inputs(core, values), *_side_inputs()], "output": outputs}


def _for_each_roi(spec: TensorSpec) -> TensorSpec:
    of_one = () if spec.name == "status" else spec.dims  # a number, not a tensor of one
    return TensorSpec(spec.name, spec.data_type, (None, *of_one))


def _head_inputs(core: _core.Postprocessor, values: dict[str, str]) -> list[TensorContract]:
    determined_by = f"{_says(values, 'head')} or {_says(values, 'num_classes')}"
    contracts = []
    for each in core.inputs:
        spec = _spec(each)
        others = (TensorSpec(spec.name, other, spec.dims) for other in other_head_types(spec))
        contracts.append(TensorContract((spec, *others), determined_by))
    return contracts


def other_head_types(spec: TensorSpec) -> tuple[str, ...]:
    """Return the other data types in which postprocess reads an input of a head."""
    if spec.data_type == "FP32":
        return ("FP16",)
    return ("INT64",) if spec.name == "classes" else ()


def _side_inputs() -> list[TensorContract]:
    return [TensorContract((spec,), optional=True) for spec in SIDE_INPUTS]


def _class_outputs(core: _core.Postprocessor, values: dict[str, str]) -> list[TensorContract]:
    contracts = []
    for each in core.outputs:
        spec = _spec(each)
        all_classes = spec.name == "class_probabilities"
        contracts.append(
            TensorContract(
                (spec,),
                _says(values, "num_classes" if all_classes else "top_k"),
                labels_belong_to="class_probabilities" if spec.name in _SORTED else "",
            )
        )
    labels = TensorSpec("class_labels", "STRING", (int(values["top_k"]),))
    return [*contracts, TensorContract((labels,), _says(values, "top_k"))]


def class_paths_contract(core: Core) -> TensorContract:
    """Return the output that `labels_separator` adds to a classifier."""
    values = {name: value for name, _, _, value in core.parameters}
    paths = TensorSpec("class_paths", "STRING", (int(values["top_k"]),))
    return TensorContract((paths,), _says(values, "top_k"))


def _says(values: dict[str, str], name: str) -> str:
    return f"{name}={values[name]}"


def _spec(core_spec: tuple[str, str, Sequence[int]]) -> TensorSpec:
    name, dtype, shape = core_spec
    return TensorSpec(name, TRITON_TYPES[dtype], free_dims(shape))
