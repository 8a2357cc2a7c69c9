"""Raw heads to candidates, the stage before suppression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt

import endcap._core as _core
from endcap._arrays import find_device, from_dlpack, require_host
from endcap.cuda_array import Target
from endcap.errors import InvalidArgumentError
from endcap.parameters import HeadParameters, list_parameters, to_parameters

if TYPE_CHECKING:
    from typing_extensions import Unpack


# One array, or for a family with several inputs a mapping by name or a sequence in their order.
Head: TypeAlias = Any
Specs: TypeAlias = list[tuple[str, str, list[int]]]

_CORE_DTYPES = frozenset({np.dtype(np.float32), np.dtype(np.float16), np.dtype(np.int32)})


@dataclass(frozen=True)
class Candidates:
    """N boxes over the score threshold, best first; equal scores by lower index, then class.

    Attributes:
        boxes: float32 [N, 4], x1, y1, x2, y2 in pixels of the model's input.
        scores: float32 [N].
        class_ids: int32 [N].
        indices: int32 [N], the anchor, query or row that each box came from.
        truncated: more than ``max_candidates`` were over the threshold.
        dropped: anchors, queries or rows that ``on_nan="drop"`` left out.
    """

    boxes: npt.NDArray[np.float32]
    scores: npt.NDArray[np.float32]
    class_ids: npt.NDArray[np.int32]
    indices: npt.NDArray[np.int32]
    truncated: bool
    dropped: int = 0

    def __repr__(self) -> str:
        more = ", truncated" if self.truncated else ""
        return f"<Candidates: {len(self.scores)} boxes{more}>"


@list_parameters(HeadParameters)
def box_decode(
    head: Head,
    *,
    family: str = "yolov8",
    num_classes: int | None = None,
    **fields: Unpack[HeadParameters],
) -> Candidates:
    """Read one image's raw head.

    Args:
        head: ``yolov5`` [A, 5+C], ``yolov8`` [4+C, A] (``yolov8_pose`` and its like have more
            rows), ``end2end`` [K, 6] (``end2end_pose`` and its like have more columns); for
            ``rtdetr`` a mapping with logits and boxes, for ``ssd`` with boxes, scores and anchors,
            for ``efficient_nms`` with num_detections, boxes, scores and classes, for
            ``detections`` without the first of these. float32 or float16.
        family: the head family.
        num_classes: classes of the model.
        fields: the head's other parameters by name, of ``endcap.parameters.HeadParameters``.

    Raises:
        InvalidArgumentError: a shape, dtype or value that does not fit; NaN, unless
            ``on_nan="drop"`` leaves its anchor out.
    """
    parameters = to_parameters({"head": family, "num_classes": num_classes, **fields})
    specs = _core.Postprocessor(parameters, 1).inputs
    tensors, batched = to_batched(head, specs)
    if batched:
        raise InvalidArgumentError("the head has a batch dimension: give one image's")
    return Candidates(*_core.box_decode(parameters, tensors))


def to_batched(head: Head, specs: Specs, target: Target | None = None) -> tuple[list[Any], bool]:
    """Return C-contiguous arrays [B, ...] in the order of ``specs``, and whether a batch came.

    With a target, parts that lie on its device stay there, as tensors of the core.

    Raises:
        InvalidArgumentError: a missing input, a part on another device, or a rank that fits neither
            one image nor a batch.
    """
    if len(specs) == 1 and _is_as_it_is(head) and head.ndim == len(specs[0][2]):
        return [head[np.newaxis]], False  # the usual case
    arrays: list[Any] = [
        _to_array(part, name)
        if target is None or find_device(part) is None
        else target.borrow(part, name)
        for part, (name, _, _) in zip(_parts(head, specs), specs, strict=True)
    ]
    batched = _is_batch([tuple(array.shape) for array in arrays], specs)
    return [array if batched else array.reshape([1, *array.shape]) for array in arrays], batched


def _is_batch(shapes: list[tuple[int, ...]], specs: Specs) -> bool:
    more_axes = {len(shape) - len(spec[2]) for shape, spec in zip(shapes, specs, strict=True)}
    if more_axes == {0} or more_axes == {1}:
        return 1 in more_axes
    given = ", ".join(f"{spec[0]} {list(shape)}" for shape, spec in zip(shapes, specs, strict=True))
    wanted = ", ".join(f"{name} {_shape_text(shape)}" for name, _, shape in specs)
    raise InvalidArgumentError(
        f"the head has shapes {given}: give {wanted} for one image, or a batch of them"
    )


def _parts(head: Head, specs: Specs) -> list[Any]:
    names = [name for name, _, _ in specs]
    if isinstance(head, Mapping):
        missing = [name for name in names if name not in head]
        if missing:
            raise InvalidArgumentError(f"the head lacks {missing[0]!r}: it needs {names}")
        return [head[name] for name in names]
    if len(names) == 1:
        return [head]
    if isinstance(head, Sequence) and len(head) == len(names):
        return list(head)
    raise InvalidArgumentError(f"this head has {len(names)} inputs: give a mapping with {names}")


def _is_as_it_is(part: Any) -> TypeGuard[npt.NDArray[Any]]:
    return type(part) is np.ndarray and part.dtype in _CORE_DTYPES and part.flags.c_contiguous


def _to_array(part: Any, name: str) -> npt.NDArray[Any]:
    if _is_as_it_is(part):
        return part  # each check below takes as long as this one
    if not isinstance(part, np.ndarray) and hasattr(part, "__dlpack__"):
        part = from_dlpack(part, name)
    require_host(part, name)
    array = np.asarray(part)
    if name == "class_map" and array.dtype in (np.uint8, np.int32, np.int64):
        return np.ascontiguousarray(array)
    if array.dtype == np.int64 and (array == array.astype(np.int32)).all():
        array = array.astype(np.int32)
    is_class_id = name == "classes" and array.dtype == np.int64
    if not is_class_id and array.dtype not in (np.float32, np.float16, np.int32):
        raise InvalidArgumentError(
            f"{name} is {array.dtype}: give float32 or float16, or int32 for counts and classes; a "
            "class_map may be uint8, int32 or int64"
        )
    return np.ascontiguousarray(array)


def _shape_text(shape: list[int]) -> str:
    return "[" + ", ".join("*" if size < 0 else str(size) for size in shape) + "]"
