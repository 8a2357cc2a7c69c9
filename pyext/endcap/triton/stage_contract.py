"""What our two backends' parameters come to: every value, and the tensors, as the core says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from endcap import _core
from endcap.triton.tensor_spec import TRITON_TYPES, TensorSpec


@dataclass(frozen=True)
class StageContract:
    """parameters, meanings: of all of them, as text. inputs, outputs: of one image, unbatched."""

    parameters: Mapping[str, str]
    meanings: Mapping[str, str]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


ENCODED = TensorSpec("encoded", "STRING", (1,))
# What postprocess takes beside the head, both optional.
SIDE_INPUTS = (TensorSpec("geometry", "FP32", (8,)), TensorSpec("status", "INT32", (1,)))


def preprocess_contract(parameters: Mapping[str, str]) -> StageContract:
    """Raise InvalidArgumentError or UnsupportedError for parameters that cannot be."""
    core = _core.Preprocessor(list(parameters.items()), 1)
    return StageContract(*_texts(core.parameters), (ENCODED,), _tensors(core.outputs))


def postprocess_contract(parameters: Mapping[str, str]) -> StageContract:
    """inputs: of the head only. outputs: without names of classes.

    A dimension that the network decides is None. Raises InvalidArgumentError for parameters that
    cannot be.
    """
    core = _core.Postprocessor(list(parameters.items()), 1)
    outputs = (*_tensors(core.outputs), *run_lengths(core))
    return StageContract(*_texts(core.parameters), _tensors(core.inputs), outputs)


def run_lengths(core: _core.Postprocessor) -> tuple[TensorSpec, ...]:
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
