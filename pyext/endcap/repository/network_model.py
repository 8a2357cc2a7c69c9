"""The network's model: what runs it, and its outputs as postprocess takes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from endcap.repository.errors import RepositoryError
from endcap.repository.head_evidence import Head
from endcap.repository.head_families import NO_HEAD
from endcap.repository.network_tensors import NetworkOutput
from endcap.repository.options import AS_GIVEN, Runtime
from endcap.triton.tensor_contract import other_head_types, postprocess_contract
from endcap.triton.tensor_spec import TensorSpec


@dataclass(frozen=True)
class NetworkModel:
    """What runs the network and why, and the outputs of its model."""

    runtime: Runtime
    reason: str
    outputs: tuple[TensorSpec, ...]


def choose_runtime(
    path: Path,
    head: Head,
    wanted: Runtime | None,
    parameters: Mapping[str, str],
) -> NetworkModel:
    """Return the wanted runtime; else endcap's backend, or Python where an output is converted.

    Raises:
        RepositoryError: The wanted runtime cannot convert an output.
    """
    if wanted is not None:
        outputs = served_outputs(path, head, wanted, parameters)
        return NetworkModel(wanted, AS_GIVEN, tuple(outputs))
    try:
        outputs = served_outputs(path, head, Runtime.endcap_onnx, parameters)
        reason = "ONNX Runtime inside the server, without Python"
        return NetworkModel(Runtime.endcap_onnx, reason, tuple(outputs))
    except RepositoryError:
        outputs = served_outputs(path, head, Runtime.python, parameters)
        reason = "its code converts an output to what postprocess takes"
        return NetworkModel(Runtime.python, reason, tuple(outputs))


def served_outputs(
    path: Path,
    head: Head,
    runtime: Runtime,
    parameters: Mapping[str, str],
) -> Iterator[TensorSpec]:
    """Yield the outputs of the network's model, in the types and shapes that postprocess takes.

    Args:
        path: The network, for messages.
        head: Its head, with the network's outputs.
        runtime: What runs it.
        parameters: Of postprocess, all that are written.

    Raises:
        RepositoryError: An output has another type or shape, and only Python could convert it.
    """
    taken = {}
    if head.family != NO_HEAD:
        taken = {spec.name: spec for spec in postprocess_contract(parameters).inputs}
    for part, output in head.inputs.items():
        wanted, dims = output.data_type, output.served_dims
        if part in taken and wanted not in other_head_types(taken[part]):
            wanted = taken[part].data_type
        if part in taken and len(taken[part].dims) == 1:
            dims = dims[:1] or (1,)
        served = TensorSpec(output.name, wanted, dims)
        if runtime is not Runtime.python:
            _refuse_conversion(path, output, served)
        yield served


def _refuse_conversion(path: Path, output: NetworkOutput, served: TensorSpec) -> None:
    """Raise RepositoryError for an output that only Python code can convert."""
    given = (output.data_type, output.served_dims)
    if not output.has_batch or (served.data_type, served.dims) != given:
        shape = output if output.has_batch else f"{output}, without a batch dimension"
        raise RepositoryError(
            f"{path} gives {shape}, and postprocess takes {served}; --runtime python converts it "
            "on the way"
        )
