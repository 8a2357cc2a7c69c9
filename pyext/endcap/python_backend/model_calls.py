"""Calls of other models of the same server: requests, and errors about their responses."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy.typing as npt

from endcap.errors import InvalidArgumentError

ENCODED = "encoded"


class Tensor(Protocol):
    """A tensor as the server's stub hands it over."""

    def as_numpy(self) -> npt.NDArray[Any]:
        """Return its memory as an array, without a copy; strings as objects."""
        ...


@dataclass(frozen=True, kw_only=True)
class ModelCall:
    """One request to another model.

    Args:
        model: its name; the newest version is called.
        inputs: by name. A tensor of the same name that the server gave goes on without a copy.
        outputs: the outputs wanted; all where none is named.
        origin: the request for whose sake this one is made: the inner request has its id,
            correlation id, timeout and trace, but no id that is no UTF-8. None where it is made for
            several.
        on_cpu: whether the outputs are needed in CPU memory; else they stay where the model has
            them.
    """

    model: str
    inputs: Mapping[str, Tensor | npt.NDArray[Any]]
    outputs: tuple[str, ...] = ()
    origin: Any = None
    on_cpu: bool = True


CallModel = Callable[[ModelCall], dict[str, Tensor]]
CallModelAsync = Callable[[ModelCall], Awaitable[dict[str, Tensor]]]


def arrays(tensors: Mapping[str, Tensor]) -> dict[str, npt.NDArray[Any]]:
    """Return the tensors' memory, which must be the CPU's."""
    return {name: tensor.as_numpy() for name, tensor in tensors.items()}


@contextlib.contextmanager
def errors_naming(model: str) -> Iterator[None]:
    """Put the model's name into an InvalidArgumentError about its response."""
    try:
        yield
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"model '{model}': {error}") from error
