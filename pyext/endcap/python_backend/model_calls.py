"""Calls of other models of the same server: requests, responses, and the tensors of such models."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from endcap.errors import InvalidArgumentError

ENCODED = "encoded"
# Outputs of a detector that are read; it may have others.
READ_OUTPUTS = ("num_detections", "detection_boxes", "detection_scores", "detection_classes")
# Triton's type, and the dims of one item.
Tensors = Mapping[str, tuple[str, list[int]]]


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


@dataclass(frozen=True)
class Detections:
    """Rows of N images, K each; the first `counts` of them count.

    Args:
        counts: int64 [N], 0 to K.
        boxes: float32 [N, K, 4], x1, y1, x2, y2 in pixels of the oriented image.
        scores: float32 [N, K], best first.
        class_ids: int32 [N, K].
    """

    counts: npt.NDArray[np.int64]
    boxes: npt.NDArray[np.float32]
    scores: npt.NDArray[np.float32]
    class_ids: npt.NDArray[np.int32]


def read_detections(outputs: Mapping[str, npt.NDArray[Any]]) -> Detections:
    """Return a detector's outputs as rows of images.

    Args:
        outputs: `READ_OUTPUTS` by name, with or without a batch dimension in front.

    Raises:
        InvalidArgumentError: one is missing, or has not the shape of the others.
    """
    missing = [name for name in READ_OUTPUTS if name not in outputs]
    if missing:
        raise InvalidArgumentError(f"it gave no {' and no '.join(missing)}")
    counts, boxes, scores, class_ids = (outputs[name] for name in READ_OUTPUTS)
    rows = scores.shape
    if not (
        len(rows) in (1, 2)
        and class_ids.shape == rows
        and boxes.shape == (*rows, 4)
        and counts.shape == (*rows[:-1], 1)
    ):
        shapes = ", ".join(f"{name} {list(outputs[name].shape)}" for name in READ_OUTPUTS)
        raise InvalidArgumentError(f"its outputs do not belong together: {shapes}")
    images, most = counts.size, rows[-1]
    return Detections(
        counts=np.clip(counts.reshape(images).astype(np.int64), 0, most),
        boxes=boxes.reshape(images, most, 4),
        scores=scores.reshape(images, most),
        class_ids=class_ids.reshape(images, most),
    )


def complete_config(config: Any, inputs: Tensors, outputs: Tensors) -> Any:
    """Return the server's ModelConfig with all tensors of a side that declares none.

    Tensors that are declared keep their dims and get the type where they have none; those that are
    not in the tables are left alone.

    Raises:
        ValueError: a declared tensor has another type.
    """
    declared = config.as_dict()
    for side, tensors, add in (
        ("input", inputs, config.add_input),
        ("output", outputs, config.add_output),
    ):
        given = {tensor["name"]: tensor for tensor in declared[side]}
        for name, (data_type, dims) in tensors.items():
            if name in given or not given:
                dims = given.get(name, {}).get("dims") or dims
                add({"name": name, "data_type": data_type, "dims": dims})
    return config
