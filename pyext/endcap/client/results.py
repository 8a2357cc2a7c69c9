"""Detections of one image, as a client sees them.

`status` is one of

- the labels of endcap.Status: "ok", "corrupt_image", "image_limit",
  "unsupported", "invalid_argument", "cuda", "out_of_memory", "internal";
- what only a client can meet: "unreadable" (the file cannot be read here), "unavailable" (the
  server is gone, or does not serve the model now), "timeout", "cancelled".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap.client.errors import RequestError
from endcap.errors import Status

Box = tuple[float, float, float, float]

OUTPUTS = (
    "num_detections",
    "detection_boxes",
    "detection_scores",
    "detection_classes",
    "detection_indices",
    "status",
)


@dataclass(frozen=True)
class Detection:
    """One object: box is x1, y1, x2, y2 in pixels of the source image, turned upright by EXIF."""

    box: Box
    score: float
    class_id: int
    label: str | None  # None where the class has no name
    index: int  # which anchor of the model's head it is


@dataclass(frozen=True)
class ImageResult:
    """What became of one image, best score first; `error` says why when `status` is not "ok"."""

    image: str
    status: str
    detections: list[Detection] = field(default_factory=list)
    error: str | None = None
    latency_ms: float | None = None  # from sending the request to its answer; None if not sent

    @property
    def ok(self) -> bool:
        """Whether the image was processed; it may still have no detections."""
        return self.status == "ok"

    def to_json(self) -> dict[str, Any]:
        """Returns the object that `endcap infer --json` prints for this image."""
        row: dict[str, Any] = {
            "image": self.image,
            "status": self.status,
            "detections": [
                {"box": list(d.box), "score": d.score, "class_id": d.class_id, "label": d.label}
                for d in self.detections
            ],
        }
        if self.error is not None:
            row["error"] = self.error
        return row


def status_name(code: int) -> str:
    """Returns the name of a `status` tensor's value, "internal" for one that does not exist."""
    try:
        return Status(code).label
    except ValueError:
        return Status.INTERNAL.label


def read_rows(
    outputs: Mapping[str, NDArray[Any] | None], labels: Sequence[str] | None
) -> list[Detection]:
    """Returns the detections of one answer of the ensemble.

    outputs: the tensors of OUTPUTS with a batch of one: num_detections int32 [1,1],
    detection_boxes float32 [1,K,4], detection_scores float32 [1,K], detection_classes and
    detection_indices int32 [1,K], status int32 [1,1]. `status` may be absent.
    Raises RequestError when the image's status is not 0, or the tensors do not fit together.
    """
    tensors = {name: outputs.get(name) for name in OUTPUTS}
    status = tensors.pop("status")
    if status is not None and int(status.flat[0]) != Status.OK:
        name = status_name(int(status.flat[0]))
        raise RequestError(name, f"the server answered status {int(status.flat[0])} ({name})")
    count, boxes, scores, class_ids, indices = (
        _require(name, tensor) for name, tensor in tensors.items()
    )
    rows = boxes.shape[1] if boxes.shape[::2] == (1, 4) and boxes.ndim == 3 else -1
    kept = int(count.flat[0])
    shapes = {tensor.shape for tensor in (scores, class_ids, indices)}
    if shapes != {(1, rows)} or not 0 <= kept <= rows:
        raise RequestError(
            "internal",
            f"the server's outputs do not fit together: num_detections {kept}, detection_boxes "
            f"{boxes.shape}, the others {sorted(shapes)}; [1,K,4] and [1,K] are expected",
        )
    if not (np.isfinite(boxes[0, :kept]).all() and np.isfinite(scores[0, :kept]).all()):
        raise RequestError(
            "internal", "the server answered a box or a score that is no finite number"
        )
    return [
        Detection(
            box=_box(boxes[0, row]),
            score=float(scores[0, row]),
            class_id=int(class_ids[0, row]),
            label=_label(int(class_ids[0, row]), labels),
            index=int(indices[0, row]),
        )
        for row in range(kept)
    ]


def _require(name: str, tensor: NDArray[Any] | None) -> NDArray[Any]:
    if tensor is None or tensor.size == 0:
        raise RequestError(
            "internal",
            f"the server's answer has no {name}; the model must have the outputs "
            f"{', '.join(OUTPUTS)}",
        )
    return tensor


def _box(values: NDArray[np.float32]) -> Box:
    x1, y1, x2, y2 = (float(value) for value in values)
    return (x1, y1, x2, y2)


def _label(class_id: int, labels: Sequence[str] | None) -> str | None:
    return labels[class_id] if labels is not None and 0 <= class_id < len(labels) else None
