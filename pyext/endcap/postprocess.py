"""Raw heads to detections: box_decode, nms, and boxes mapped back to the source image."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from endcap import _core
from endcap._device import cuda_device, cuda_target, refuse_stream, thread_count
from endcap._head import Head, to_batched
from endcap._postprocess_call import CudaCall, checked_rows
from endcap._text import Parameter, to_parameters
from endcap.cuda_detections import CudaClassification, CudaDetections
from endcap.detections import FIELDS, Classification, Detections, detections_of
from endcap.errors import InvalidArgumentError, error_for_status

# Whatever NumPy makes an array of; with device="cuda" also an array on that device.
Array: TypeAlias = Any
_Items: TypeAlias = "list[tuple[int, str, bool]]"


class Postprocessor:
    """A reusable, thread-safe callable: raw heads in, detections out.

    Args:
        head: the family: ``yolov5``, ``yolov8`` (also v9, 11, 12), ``yolov8_seg``,
            ``yolov8_pose``, ``yolov8_obb``, ``end2end`` (v10, 26), ``rtdetr``, ``ssd`` (also
            RetinaNet), ``efficient_nms`` or ``classification``.
        num_classes: classes of the model; must fit the head's shape (80).
        score_threshold: a candidate's score must be greater (0.25).
        iou_threshold: a box is suppressed when its IoU with a kept one is greater (0.7).
        max_candidates: best scores first (30000).
        max_detections: rows K of the result (300).
        multi_label: every class over the threshold is a candidate, not the best only (True for
            rtdetr and ssd, False else). With classification the answer holds only the classes over
            score_threshold, at most top_k; activation must be ``sigmoid`` or ``none``.
        class_agnostic: boxes of different classes suppress each other (False).
        device: ``cpu``, ``cuda`` or ``cuda:N``.
        threads: images worked on at the same time; all CPUs by default. A GPU takes the batch as a
            whole, whatever is given.
        packed_masks: yolov8_seg also gives its masks as bits, max_detections * height * width / 8
            bytes an image; not with mask_resolution="source".
        fields: box_format (``default``, ``xyxy``, ``cxcywh``), box_unit (``default``, ``pixel``,
            ``normalized``), input_size (for normalized boxes), activation (``default``, ``none``,
            ``sigmoid``, ``softmax``), top_k (classification), joined (rtdetr), background (rtdetr,
            ssd), anchors, anchor_grid, anchor_offset and variances (ssd), mask_coefficients,
            prototype_size and mask_resolution (yolov8_seg), num_keypoints and keypoint_values
            (yolov8_pose), rotated_nms (yolov8_obb). ``describe()`` tells their meanings.

    Raises:
        InvalidArgumentError: an unknown name or an impossible value.
        CudaError: a CUDA device was asked for that cannot be used; ``cuda_state()`` says more.
        UnsupportedError: a CUDA device was asked for with a head that only the CPU reads, or packed
            masks that only the CPU makes.
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
        packed_masks: bool = False,
        **fields: object,
    ) -> None:
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
        parameters = to_parameters({**named, **fields})
        count = thread_count(threads)
        self._device_id = cuda_device(device)
        self._core = (
            _core.Postprocessor(parameters, count)
            if self._device_id is None
            else _core.CudaPostprocessor(parameters, self._device_id)
        )
        self._family = head
        self._inputs = self._core.inputs
        self._outputs = self._core.outputs
        names = [name for name, _, _ in self._outputs]
        self._has_masks = "mask_size" in names
        self._has_source_masks = "detection_masks" not in names
        if packed_masks and self._has_source_masks:
            raise InvalidArgumentError(
                f"packed_masks has nothing to pack with head {head}"
                + (": give mask_resolution=prototype or input" if self._has_masks else "")
            )
        self._packed_masks = packed_masks
        self._fields = [FIELDS[name] for name in names]

    @property
    def parameters(self) -> dict[str, str]:
        """Every parameter and its value as text."""
        return {row.name: row.value for row in self.describe()}

    def describe(self) -> list[Parameter]:
        """Return every parameter with its meaning, the values it may have, and its value."""
        return [Parameter(*row) for row in self._core.parameters]

    @property
    def threads(self) -> int:
        """Images worked on at the same time by CPUs; 1 on a GPU."""
        return self._core.threads if isinstance(self._core, _core.Postprocessor) else 1

    @property
    def device(self) -> str:
        """``cpu`` or ``cuda:N``."""
        return "cpu" if self._device_id is None else f"cuda:{self._device_id}"

    def __call__(
        self,
        head: Head,
        geometry: Array | None = None,
        status: Array | None = None,
        *,
        stream: object = None,
    ) -> Detections | Classification | CudaDetections | CudaClassification:
        """Process one image's head or a batch of B; one image gives a batch of 1.

        On a GPU the call waits for ``stream``, to learn of bad heads and of ``truncated``;
        ``enqueue`` does not.

        Args:
            head: as the family says, float32 or float16; read in place. With ``device="cuda"`` it
                may lie on that device; from host memory it is copied there.
            geometry: float32 [8] or [B, 8] from preprocess; without it boxes stay in pixels of the
                model's input. With ``device="cuda"`` it may lie on that device.
            status: int32 [B] from preprocess, in host memory; an image whose status is not 0 has no
                detections.
            stream: a CUDA stream, as for Preprocessor.

        Returns:
            Detections or Classification; with ``device="cuda"`` the same on that device.

        Raises:
            InvalidArgumentError: a shape, dtype or value that does not fit; NaN in the head.
            CudaError: a CUDA call failed, or earlier work on the stream.
            OutOfMemoryError: the host's, or the device's.
        """
        if isinstance(self._core, _core.CudaPostprocessor):
            call = self._cuda_call(head, geometry, status, stream, waits=True)
            [(items, rle)] = self._core.run([call.part], call.stream)
            _raise_first(items)
            return call.result(_truncated(items), rle)
        refuse_stream(stream)
        tensors, _ = to_batched(head, self._inputs)
        count = len(tensors[0])
        rows, truncated, rle = self._core(
            tensors,
            checked_rows(geometry, np.float32, (count, 8), "geometry"),
            checked_rows(status, np.int32, (count,), "status"),
            self._packed_masks,
        )
        fields: dict[str, Any] = dict(zip(self._fields, rows, strict=True))
        if self._family == "classification":
            return Classification(**fields)
        fields["truncated"] = truncated
        if self._has_masks:
            fields["rle"] = rle
        fields["has_source_masks"] = self._has_source_masks
        return detections_of(fields)

    def enqueue(
        self,
        head: Head,
        geometry: Array | None = None,
        status: Array | None = None,
        *,
        stream: object = None,
    ) -> CudaDetections | CudaClassification:
        """Process as a call does, in the order of ``stream`` and without waiting for it.

        Arguments are as for a call. What a bad head comes to is its image's ``status`` in the
        result, and no error; ``truncated`` is None, and masks are there with packed_masks alone.

        The call can be captured into a CUDA graph, after one like it has run outside: with head and
        geometry on the GPU, and the results copied to tensors of yours inside the capture, since
        their own memory is the graph's.

        Raises:
            InvalidArgumentError: a shape or dtype that does not fit, or ``device="cpu"``.
            UnsupportedError: a graph is being captured, and head or geometry is in CPU memory.
            CudaError: a CUDA call failed.
            OutOfMemoryError: the host's, or the device's.
        """
        if not isinstance(self._core, _core.CudaPostprocessor):
            raise InvalidArgumentError("enqueue needs device='cuda': on a CPU a call is the work")
        call = self._cuda_call(head, geometry, status, stream, waits=False)
        self._core.enqueue([call.part], call.stream)
        return call.result(None, None)

    def _cuda_call(
        self,
        head: Head,
        geometry: Array | None,
        status: Array | None,
        stream: object,
        *,
        waits: bool,
    ) -> CudaCall:
        return CudaCall(
            self._inputs,
            self._outputs,
            self._family,
            cuda_target(self._device_id or 0, stream),
            head,
            geometry,
            status,
            with_packed_masks=self._packed_masks,
            with_rle=waits and self._has_masks,
        )


def _truncated(items: _Items) -> npt.NDArray[np.bool_]:
    return np.array([flag for _, _, flag in items], np.bool_)


def _raise_first(items: _Items) -> None:
    for index, (code, message, _) in enumerate(items):
        if code != 0:
            place = f"image index {index} of {len(items)}: " if len(items) > 1 else ""
            raise error_for_status(code, place + message)
