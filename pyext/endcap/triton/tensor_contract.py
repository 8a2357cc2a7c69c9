"""The tensors that the parameters of endcap's backends determine.

The server decides by backends/*/contracts.cc; this is the same for Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from endcap import _core
from endcap.triton.stage_contract import ENCODED, SIDE_INPUTS, run_lengths
from endcap.triton.tensor_spec import TRITON_TYPES, TensorSpec, free_dims

Core = _core.Preprocessor | _core.Postprocessor

_ENCODED = (ENCODED, TensorSpec("encoded", "UINT8", (None,)))
_ROIS = TensorSpec("rois", "FP32", (None, 4))
_SORTED = ("class_scores", "class_ids")  # best first, not in the order of the classes


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
        specs = [*map(_spec, core.outputs), *run_lengths(core)]
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
        half = (TensorSpec(spec.name, "FP16", spec.dims),) if spec.data_type == "FP32" else ()
        contracts.append(TensorContract((spec, *half), determined_by))
    return contracts


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
    """The output that `labels_separator` adds to a classifier."""
    values = {name: value for name, _, _, value in core.parameters}
    paths = TensorSpec("class_paths", "STRING", (int(values["top_k"]),))
    return TensorContract((paths,), _says(values, "top_k"))


def _says(values: dict[str, str], name: str) -> str:
    return f"{name}={values[name]}"


def _spec(core_spec: tuple[str, str, Sequence[int]]) -> TensorSpec:
    name, dtype, shape = core_spec
    return TensorSpec(name, TRITON_TYPES[dtype], free_dims(shape))
