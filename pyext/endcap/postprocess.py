"""Raw heads to detections: box_decode, nms, and boxes mapped back to the source image."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from endcap import _core
from endcap._arrays import empty, to_array
from endcap._device import require_cpu, thread_count
from endcap._head import Head, to_batched
from endcap._text import Parameter, to_parameters
from endcap.detections import Classification, Detections
from endcap.errors import InvalidArgumentError, error_for_status


class Postprocessor:
    """A reusable, thread-safe callable: raw heads in, detections out.

    Args:
        head: the family: ``yolov5``, ``yolov8`` (also v9, 11, 12), ``end2end`` (v10, 26),
            ``efficient_nms`` or ``classification``.
        num_classes: classes of the model; must fit the head's shape (80).
        score_threshold: a candidate's score must be greater (0.25).
        iou_threshold: a box is suppressed when its IoU with a kept one is greater (0.7).
        max_candidates: best scores first (30000).
        max_detections: rows K of the result (300).
        multi_label: every class over the threshold is a candidate, not the best only (False).
        class_agnostic: boxes of different classes suppress each other (False).
        device: ``cpu``.
        threads: images worked on at the same time; all CPUs by default.
        fields: box_format (``default``, ``xyxy``, ``cxcywh``), box_unit (``pixel``,
            ``normalized``), input_size (for normalized boxes), activation (``default``, ``none``,
            ``sigmoid``, ``softmax``), top_k (classification).

    Raises:
        InvalidArgumentError: an unknown name or an impossible value.
        CudaError: a CUDA device was asked for.
    """

    def __init__(
        self,
        head: str = "yolov8",
        num_classes: int | None = None,
        *,
        score_threshold: float | None = None,
        iou_threshold: float | None = None,
        max_candidates: int | None = None,
        max_detections: int | None = None,
        multi_label: bool | None = None,
        class_agnostic: bool | None = None,
        device: str = "cpu",
        threads: int | None = None,
        **fields: object,
    ) -> None:
        require_cpu(device)
        named = {
            "head": head,
            "num_classes": num_classes,
            "score_threshold": score_threshold,
            "iou_threshold": iou_threshold,
            "max_candidates": max_candidates,
            "max_detections": max_detections,
            "multi_label": multi_label,
            "class_agnostic": class_agnostic,
        }
        self._core = _core.Postprocessor(to_parameters({**named, **fields}), thread_count(threads))
        self._family = head
        self._inputs = self._core.inputs
        self._outputs = [(tuple(shape), np.dtype(dtype)) for _, dtype, shape in self._core.outputs]

    @property
    def parameters(self) -> dict[str, str]:
        """Every parameter and its value as text."""
        return {row.name: row.value for row in self.describe()}

    def describe(self) -> list[Parameter]:
        """Return every parameter with its meaning, the values it may have, and its value."""
        return [Parameter(*row) for row in self._core.parameters]

    @property
    def threads(self) -> int:
        """Images worked on at the same time."""
        return self._core.threads

    def __call__(
        self,
        head: Head,
        geometry: npt.ArrayLike | None = None,
        status: npt.ArrayLike | None = None,
    ) -> Detections | Classification:
        """Process one image's head or a batch of B; one image gives a batch of 1.

        Args:
            head: as the family says, float32 or float16; read in place.
            geometry: float32 [8] or [B, 8] from preprocess; without it boxes stay in pixels of the
                model's input.
            status: int32 [B] from preprocess; an image whose status is not 0 has no detections.

        Raises:
            InvalidArgumentError: a shape, dtype or value that does not fit; NaN in the head.
        """
        tensors, _ = to_batched(head, self._inputs)
        count = len(tensors[0])
        geometry_rows = _rows(geometry, np.float32, (count, 8), "geometry")
        status_rows = _rows(status, np.int32, (count,), "status")
        out = [empty((count, *shape), dtype) for shape, dtype in self._outputs]
        items = self._core.run(tensors, geometry_rows, status_rows, out)
        for index, (code, message, _) in enumerate(items):
            if code != 0:
                place = f"image index {index} of {count}: " if count > 1 else ""
                raise error_for_status(code, place + message)
        if self._family == "classification":
            return Classification(out[0], out[1], out[2], out[3][:, 0])
        truncated = np.array([flag for _, _, flag in items], np.bool_)
        return Detections(
            num_detections=out[0][:, 0],
            boxes=out[1],
            scores=out[2],
            class_ids=out[3],
            indices=out[4],
            status=out[5][:, 0],
            truncated=truncated,
        )


def _rows(
    values: npt.ArrayLike | None, dtype: type[Any], shape: tuple[int, ...], name: str
) -> npt.NDArray[Any]:
    if values is None:
        return np.empty(0, dtype)
    array = to_array(values, dtype, name)
    if shape[0] == 1 and array.shape == shape[1:]:
        array = array.reshape(shape)
    if array.shape != shape:
        raise InvalidArgumentError(f"{name} has shape {list(array.shape)}: give {list(shape)}")
    return array
