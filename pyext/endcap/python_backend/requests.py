"""Requests as the server hands them over: their ids, and their input tensors where those lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import endcap._core as _core
from endcap.cuda_array import Target
from endcap.errors import InvalidArgumentError, UnsupportedError


def request_label(request: Any) -> str:
    r"""Return such as ``request 'order-4711', correlation id 77``, with long ids clipped.

    Bytes that are not UTF-8 are written as ``\xff``.
    """
    request_id, correlation_id = _read(request.request_id), _read(request.correlation_id)
    label = f"request '{_as_text(request_id)}'" if request_id else "request without id"
    if not correlation_id:
        return label
    if isinstance(correlation_id, int):
        return f"{label}, correlation id {correlation_id}"
    return f"{label}, correlation id '{_as_text(correlation_id)}'"


def ids_for_calls(request: Any) -> dict[str, str | int]:
    """Return the ids by their names in an InferenceRequest, without those that are no UTF-8.

    A Python model that is called with such an id could not read it. A long request id is clipped,
    as the server puts it into messages.
    """
    ids = {
        "request_id": _read(request.request_id),
        "correlation_id": _read(request.correlation_id),
    }
    if isinstance(ids["request_id"], str):
        ids["request_id"] = _core.clip_text(ids["request_id"])
    return {name: value for name, value in ids.items() if not isinstance(value, bytes)}


def _read(method: Callable[[], str | int]) -> str | int | bytes:
    """Return an id; its bytes where they are no UTF-8, at which the server's method raises."""
    try:
        return method()
    except UnicodeDecodeError as error:
        return error.object


def _as_text(value: str | int | bytes) -> str:
    text = value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)
    return _core.clip_text(text)


def find_input(request: Any, name: str) -> Any | None:
    """Return the tensor that a request has by that name, None where it has none."""
    return next((tensor for tensor in request.inputs() if tensor.name() == name), None)


def get_input(request: Any, name: str) -> Any:
    """Return the tensor that a request has by that name.

    Raises:
        InvalidArgumentError: it has none.
    """
    tensor = find_input(request, name)
    if tensor is None:
        raise InvalidArgumentError(f"input '{name}' is missing in the request")
    return tensor


def on_host(tensor: Any) -> npt.NDArray[Any]:
    """Return a tensor's array, C-contiguous and aligned.

    It is the server's shared memory where that allows, and a copy of a tensor on a GPU.
    """
    if tensor.is_cpu():
        array: npt.NDArray[Any] = tensor.as_numpy()
        return np.require(array, requirements=["C", "A"])
    device_id = tensor.__dlpack_device__()[1]
    return Target(device_id).borrow(tensor, f"input '{tensor.name()}'").to_numpy()


def in_place(tensor: Any, target: Target) -> npt.NDArray[Any] | _core.CudaTensor:
    """Return a tensor of the target's GPU as it lies there, any other as `on_host`."""
    if tensor.is_cpu() or tensor.__dlpack_device__()[1] != target.device_id:
        return on_host(tensor)
    return target.borrow(tensor, f"input '{tensor.name()}'")


def encoded_files(request: Any, *, batched: bool) -> list[_core.ImageBuffer]:
    """Return the files of the input `encoded`: one a BYTES element, or one a row of UINT8.

    Raises:
        InvalidArgumentError: there is not one for each image.
        UnsupportedError: BYTES in the memory of a GPU, which the server does not hand over.
    """
    tensor = get_input(request, "encoded")
    try:
        array = on_host(tensor)
    except InvalidArgumentError as error:
        raise UnsupportedError(
            f"input 'encoded' lies on a GPU and cannot be read there ({error}): give it in host "
            "memory"
        ) from error
    count = array.shape[0] if batched else 1
    if count < 1:
        raise InvalidArgumentError("input 'encoded' holds no item: its batch dimension is 0")
    if array.dtype == np.uint8:
        return list(array.reshape(count, array.size // count))
    files: list[_core.ImageBuffer] = array.reshape(-1).tolist()
    if len(files) != count:
        raise InvalidArgumentError(
            f"input 'encoded' has {len(files)} elements for {count} images; it takes one for each"
        )
    return files
