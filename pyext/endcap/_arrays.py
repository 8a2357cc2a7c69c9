"""Arrays of other libraries as NumPy's, without a copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from endcap.errors import InvalidArgumentError


def from_dlpack(source: Any, name: str) -> npt.NDArray[Any]:
    """Return a NumPy view of an object that has ``__dlpack__``; ``name`` is for the error.

    Raises:
        InvalidArgumentError: memory that NumPy cannot reach, such as a GPU's.
    """
    try:
        array: npt.NDArray[Any] = np.from_dlpack(source)
    except (AttributeError, BufferError, RuntimeError, TypeError) as error:
        raise InvalidArgumentError(
            f"{name} is a {type(source).__name__} that cannot be read through DLPack: this build "
            f"reads CPU memory only ({error})"
        ) from error
    return array
