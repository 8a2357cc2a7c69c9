"""Requests to a model and responses, their tensors and data types, for both protocols."""

from __future__ import annotations

import importlib
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from endcap._pip_commands import install_command
from endcap.client.errors import ClientError, RequestError
from endcap.errors import InvalidArgumentError, UnsupportedError
from endcap.triton.tensor_spec import TRITON_TYPES

_TRITON_TYPES = {name: datatype for name, datatype in TRITON_TYPES.items() if name != "bfloat16"}
_TRITON_TYPES["object"] = "BYTES"  # as the protocols call strings
_NUMPY_TYPES = {name: np.dtype(dtype) for dtype, name in _TRITON_TYPES.items()}
DATATYPES = frozenset(_NUMPY_TYPES) | {"BF16"}  # all of Triton's; NumPy has no bfloat16

RegionKind = Literal["system", "cuda"]

_LONGEST_TEXT = 200
_LARGEST_SEQUENCE_ID = 2**63 - 1  # gRPC's parameters have no greater numbers
_LONGEST_SEQUENCE_ID = 128


@dataclass(frozen=True)
class SharedSlice:
    """A part of a shared-memory region that is registered with the server.

    Attributes:
        region: The name that it is registered under.
        offset: Byte offset in the region.
        byte_size: Length in bytes.
    """

    region: str
    offset: int
    byte_size: int


@dataclass(frozen=True)
class InputTensor:
    """An input of a request.

    Attributes:
        shape: With the batch dimension where the model has one.
        datatype: Triton's name, as "FP32".
        data: The elements, of BYTES as an object array of bytes; or where in shared memory they
            are, of BYTES each with its length before it, uint32, little-endian.
    """

    name: str
    shape: tuple[int, ...]
    datatype: str
    data: NDArray[Any] | SharedSlice = field(repr=False)

    @staticmethod
    def of(name: str, array: NDArray[Any]) -> InputTensor:
        """Return the input that holds `array`; one of bytes has dtype object."""
        return InputTensor(name, array.shape, triton_type(array.dtype), array)


@dataclass(frozen=True)
class OutputTensor:
    """A requested output.

    Attributes:
        shared: The part of shared memory that the server writes it to; None is the response.
        class_count: The number of its best elements to request, as texts, by Triton's
            classification extension; 0 for the tensor itself.
    """

    name: str
    shared: SharedSlice | None = None
    class_count: int = 0


@dataclass(frozen=True)
class SequenceStep:
    """The position of a request in a sequence of a stateful model.

    Attributes:
        id: A number above 0 and below 2**63, or a text of 1 to 128 bytes, as Triton has them.
            Raises InvalidArgumentError for another id.
    """

    id: int | str
    start: bool = False
    end: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.id, str):
            is_allowed = 0 < len(self.id.encode()) <= _LONGEST_SEQUENCE_ID
        else:
            is_allowed = 0 < self.id <= _LARGEST_SEQUENCE_ID
        if not is_allowed:
            raise InvalidArgumentError(
                f"sequence {self.id!r} is no id of a sequence; give a number from 1 to 2**63 - 1, "
                f"or a text of 1 to {_LONGEST_SEQUENCE_ID} bytes"
            )


@dataclass(frozen=True)
class Call:
    """An inference request, of either protocol.

    Attributes:
        request_id: Appears in the server's log; may be empty.
        timeout_us: Microseconds from its arrival after which nobody waits for the response, as
            Triton's parameter `timeout`; None sends none.
    """

    model: str
    inputs: Sequence[InputTensor]
    outputs: Sequence[OutputTensor]
    request_id: str = ""
    sequence: SequenceStep | None = None
    timeout_us: int | None = None

    @property
    def shares_memory(self) -> bool:
        """Whether any of its tensors lies in shared memory."""
        return any(isinstance(tensor.data, SharedSlice) for tensor in self.inputs) or any(
            output.shared is not None for output in self.outputs
        )


@dataclass(frozen=True)
class TensorSpec:
    """The type and shape of a tensor; in a model's metadata -1 is a dimension of any size."""

    datatype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class ModelMetadata:
    """The tensors of a model, by name."""

    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]


def read_metadata(model: str, document: Mapping[str, Any]) -> ModelMetadata:
    """Return the metadata of a model from Triton's, as JSON objects.

    Raises:
        RequestError: A name, data type or shape is impossible.
    """
    return ModelMetadata(
        _read_specs(model, document.get("inputs", [])),
        _read_specs(model, document.get("outputs", [])),
    )


def _read_specs(model: str, tensors: Iterable[Mapping[str, Any]]) -> dict[str, TensorSpec]:
    specs: dict[str, TensorSpec] = {}
    for tensor in tensors:
        name, datatype = str(tensor.get("name", "")), tensor.get("datatype", "")
        shape = tuple(map(int, tensor.get("shape", ())))
        if name in specs or datatype not in DATATYPES or any(side < -1 for side in shape):
            raise RequestError(
                "internal",
                f"the server declares a tensor {name!r} of model '{model}' of type {datatype!r} "
                f"and shape {list(shape)}, which is impossible",
            )
        specs[name] = TensorSpec(datatype, shape)
    return specs


@dataclass(frozen=True)
class Response:
    """A response.

    Attributes:
        tensors: The requested outputs by name; None where the response lacks one.
        shared: Those that are in shared memory instead.
        request_id: As sent.
        final: Whether no other response follows, for decoupled models.
    """

    tensors: Mapping[str, NDArray[Any] | None] = field(repr=False)
    shared: Mapping[str, TensorSpec] = field(default_factory=dict)
    request_id: str = ""
    final: bool = True


@cache  # NumPy makes a type's name anew each time
def triton_type(dtype: np.dtype[Any]) -> str:
    """Return Triton's name of a NumPy type, "FP32" for float32 and "BYTES" for object.

    Raises:
        InvalidArgumentError: For a type that Triton lacks, and for another byte order than this
            machine's.
    """
    name = _TRITON_TYPES.get(dtype.name)
    if name is None:
        raise InvalidArgumentError(
            f"Triton has no type for arrays of {dtype}; give bool, integers or floats of up to 64 "
            "bits, or an object array of bytes"
        )
    if not dtype.isnative:
        raise InvalidArgumentError(
            f"an array of {dtype.name} has the byte order of another machine; give it as "
            f"array.astype('{dtype.name}')"
        )
    return name


def numpy_type(datatype: str) -> np.dtype[Any]:
    """Return the NumPy type for Triton's name of a type, object for "BYTES".

    Raises:
        UnsupportedError: For "BF16", which NumPy lacks, and for names that Triton does not have.
    """
    dtype = _NUMPY_TYPES.get(datatype)
    if dtype is None:
        raise UnsupportedError(f"NumPy has no type for tensors of {datatype}; take FP32 or FP16")
    return dtype


def infer_arguments(tritonclient: Any, call: Call) -> dict[str, Any]:
    """Return the arguments of `infer` of a client of tritonclient.

    Args:
        tritonclient: `tritonclient.grpc` or `tritonclient.http`.
        call: The call.

    Raises:
        InvalidArgumentError: The elements of an input do not match its shape and data type.
    """
    arguments = {
        "model_name": call.model,
        "inputs": [_input(tritonclient, tensor) for tensor in call.inputs],
        "outputs": [_output(tritonclient, output) for output in call.outputs],
        "request_id": call.request_id,
        "timeout": call.timeout_us,
    }
    if call.sequence is not None:
        arguments["sequence_id"] = call.sequence.id
        arguments["sequence_start"] = call.sequence.start
        arguments["sequence_end"] = call.sequence.end
    return arguments


def _input(tritonclient: Any, tensor: InputTensor) -> Any:
    given = tritonclient.InferInput(
        tensor.name, [int(side) for side in tensor.shape], tensor.datatype
    )
    if isinstance(tensor.data, SharedSlice):
        part = tensor.data
        return given.set_shared_memory(part.region, part.byte_size, part.offset)
    return given.set_data_from_numpy(_elements(tensor, tensor.data))


def _output(tritonclient: Any, output: OutputTensor) -> Any:
    requested = tritonclient.InferRequestedOutput(output.name, class_count=output.class_count)
    if output.shared is not None:
        part = output.shared
        requested.set_shared_memory(part.region, part.byte_size, part.offset)
    return requested


def _elements(tensor: InputTensor, data: NDArray[Any]) -> NDArray[Any]:
    if data.shape != tuple(tensor.shape) or triton_type(data.dtype) != tensor.datatype:
        raise InvalidArgumentError(
            f"input {tensor.name} is declared as {tensor.datatype} {list(tensor.shape)}, but its "
            f"data are {triton_type(data.dtype)} {list(data.shape)}; make them agree"
        )
    if tensor.datatype == "BYTES" and not all(type(element) is bytes for element in data.flat):
        raise InvalidArgumentError(
            f"input {tensor.name} has elements that are not bytes; give bytes"
        )
    return data


def read_response(
    call: Call,
    outputs: Iterable[tuple[Any, Any, Any]],
    as_numpy: Callable[[str], Any],
    request_id: str,
    *,
    final: bool = True,
) -> Response:
    """Return a response, checked: a server is not trusted.

    Args:
        call: The request.
        outputs: The name, shape and data type of each tensor.
        as_numpy: A function that returns the tensor of a name.
        request_id: Of the response.
        final: See `Response`.

    Raises:
        RequestError: The tensors do not match their shapes and data types.
    """
    shared = {output.name for output in call.outputs if output.shared is not None}
    tensors: dict[str, Any] = {o.name: None for o in call.outputs if o.name not in shared}
    in_region: dict[str, TensorSpec] = {}
    try:
        for name, sides, datatype in outputs:
            shape = tuple(sides)
            if not all(type(side) is int and side >= 0 for side in shape):
                raise ValueError(f"an output has the shape {list(shape)}")
            if not isinstance(datatype, str) or datatype not in DATATYPES:
                raise ValueError(f"an output has the type {datatype!r}")
            if name in shared:
                in_region[name] = TensorSpec(datatype, shape)
            else:
                tensors[name] = as_numpy(name)
    except (*UNREADABLE, import_client("utils").InferenceServerException) as error:
        raise unreadable(error, call) from error
    return Response(tensors, in_region, request_id, final)


# What reading a response raises that is not as it should be.
UNREADABLE = (
    ValueError,
    TypeError,
    OverflowError,  # of numbers that their type does not hold
    LookupError,
    AttributeError,
    RecursionError,  # of JSON
    struct.error,
    zlib.error,
)


def unreadable(error: Exception, call: Call) -> RequestError:
    """Return the error of a response that does not hold what it should."""
    text = f"the server's response cannot be read: {str(error)[:_LONGEST_TEXT]}"
    return RequestError("internal", text, request_id=call.request_id)


def import_client(module: str) -> Any:
    """Return a module of tritonclient, as "grpc" or "http.aio"; ClientError where it is missing."""
    try:
        return importlib.import_module(f"tritonclient.{module}")
    except (ImportError, RuntimeError) as error:  # tritonclient wraps a missing part of it
        raise ClientError(
            f"Triton's client is not installed ({error}); run `{install_command('client')}`"
        ) from error
