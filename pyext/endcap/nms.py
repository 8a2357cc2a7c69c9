"""Non-maximum suppression of one image's boxes."""

from __future__ import annotations

from typing import Any

from endcap import _core
from endcap._device import cuda_target, refuse_stream
from endcap._nms_arguments import Array, CudaBoxes, HostBoxes, device_to_use, require_threshold
from endcap.cuda_array import CudaArray


def nms(
    boxes: Array,
    scores: Array,
    iou_threshold: float,
    *,
    device: str | None = None,
    stream: object = None,
) -> Any:
    """Keep the best boxes and drop those that overlap a kept one.

    Exact greedy suppression: a box goes when its IoU with a kept box is greater than the
    threshold. Equal scores go to the lower index.

    Args:
        boxes: [N, 4] float32, x1, y1, x2, y2, any unit.
        scores: [N] float32.
        iou_threshold: 0 to 1.
        device: ``cpu``, ``cuda`` or ``cuda:N``; by default where ``boxes`` lies. From host memory
            the arrays are copied to a GPU, not the other way.
        stream: a CUDA stream, as for Preprocessor; the call waits for it, to learn M.

    Returns:
        int64 [M], the indices of the kept boxes, best score first: a NumPy array, or on a GPU a
        CudaArray.

    Raises:
        InvalidArgumentError: shapes that do not fit, a threshold outside 0 to 1, a NaN score.
        CudaError: the device cannot be used, or a CUDA call failed.
        OutOfMemoryError: the host's, or the device's.
    """
    return _run(boxes, scores, None, iou_threshold, device, stream)


def batched_nms(
    boxes: Array,
    scores: Array,
    class_ids: Array,
    iou_threshold: float,
    *,
    device: str | None = None,
    stream: object = None,
) -> Any:
    """As nms, but boxes of different classes never suppress each other.

    Args:
        boxes: [N, 4] float32, x1, y1, x2, y2, any unit.
        scores: [N] float32.
        class_ids: [N] integers. On a GPU int32 is read in place; others go by the host.
        iou_threshold: 0 to 1.
        device: as for nms.
        stream: as for nms.

    Returns:
        int64 [M], the indices of the kept boxes over all classes, best score first, as nms.

    Raises:
        InvalidArgumentError, CudaError, OutOfMemoryError: as nms.
    """
    return _run(boxes, scores, class_ids, iou_threshold, device, stream)


def _run(
    boxes: Array,
    scores: Array,
    class_ids: Array | None,
    iou_threshold: float,
    device: str | None,
    stream: object,
) -> Any:
    threshold = require_threshold(iou_threshold)
    device_id = device_to_use(boxes, device)
    if device_id is None:
        refuse_stream(stream)
        host = HostBoxes.take(boxes, scores, class_ids, 4)
        return _core.nms(host.boxes, host.scores, host.class_ids, threshold)
    target = cuda_target(device_id, stream)
    gpu = CudaBoxes.take(boxes, scores, class_ids, 4, target)
    return CudaArray(
        _core.nms_cuda(
            gpu.boxes,
            gpu.scores,
            gpu.class_ids,
            threshold,
            target.device_id,
            target.stream,
            target.stream_owner,
        )
    )
