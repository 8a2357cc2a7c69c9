"""What became of images, as a client sees it.

`status` is one of

- the labels of endcap.Status: "ok", "corrupt_image", "image_limit",
  "unsupported", "invalid_argument", "cuda", "out_of_memory", "internal";
- what only a client can meet: "unreadable" (the file cannot be read here), "unavailable" (the
  server is gone, or does not serve the model now), "timeout", "cancelled".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from endcap.detections import ImageDetections
from endcap.errors import InvalidArgumentError, Status
from endcap.results.arrays import as_classifications, as_image_detections, with_labels
from endcap.results.detection import ROW_COLUMNS, Box, ClassScore, Detection, Keypoint, Mask, Point
from endcap.results.task import Task

__all__ = [
    "Box",
    "ClassScore",
    "Detection",
    "ImageResult",
    "Keypoint",
    "Mask",
    "Point",
    "Results",
    "status_name",
]


@dataclass(frozen=True)
class ImageResult:
    """What became of one image, best score first; `error` says why when `status` is not "ok".

    A model of the task detection fills `detections`, one of the task classification `classes`.

    Attributes:
        image: Its path, or "image N" with its position where it was given as bytes or an array.
        latency_ms: From sending the request to its answer; None if not sent. Images of one request
            have the same.
        request_id: Of the request that was answered last; the server's log has it. Empty if not
            sent.
        upright: Whether boxes, keypoints and masks are of the image as its EXIF orientation shows
            it; else, of a model that ignores the orientation, of the image as it is stored.
        final: Whether no other result of this image follows; only of `detect_stream` it may be
            False.
    """

    image: str
    status: str
    detections: list[Detection] = field(default_factory=list)
    error: str | None = None
    latency_ms: float | None = None
    classes: list[ClassScore] = field(default_factory=list)
    task: Task = Task.detection
    request_id: str = ""
    final: bool = True
    upright: bool = True

    @property
    def ok(self) -> bool:
        """Whether the image was processed; it may still have no detections."""
        return self.status == "ok"

    @property
    def found(self) -> list[Detection] | list[ClassScore]:
        """What the model of either task answered."""
        return self.classes if self.task is Task.classification else self.detections

    def to_json(self) -> dict[str, Any]:
        """Return the object that `endcap infer --json` prints for this image."""
        key = "classes" if self.task is Task.classification else "detections"
        row: dict[str, Any] = {
            "image": self.image,
            "status": self.status,
            key: [each.to_json() for each in self.found],
        }
        if self.error is not None:
            row["error"] = self.error
        return row

    def to_dict(self) -> dict[str, Any]:
        """Return the same as `to_json`."""
        return self.to_json()

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a flat row for each detection or class, for `pandas.DataFrame` and the like.

        Columns are image, status, class_id, label, score, x1, y1, x2, y2; angle of a turned box;
        classification_id, classification_label, classification_score of a cascade; error of an
        image that failed. One without detections has one row, None from class_id on, and a class
        has no box. Keypoints and masks are in `to_json` only.
        """
        head = {"image": self.image, "status": self.status}
        end = {} if self.error is None else {"error": self.error}
        return [{**head, **each.to_row(), **end} for each in self.found] or [
            {**head, **dict.fromkeys(ROW_COLUMNS), **end}
        ]

    def to_detections(self) -> ImageDetections:
        """Return the detections as arrays. Masks count as those of the source image.

        Raises:
            InvalidArgumentError: For an image that failed or holds classes.
        """
        if self.task is not Task.detection:
            raise InvalidArgumentError(f"{self.image} was classified: it has no detections")
        self._refuse_failed()
        return as_image_detections(self.detections)

    def to_supervision(self) -> Any:
        """Return a `supervision.Detections`, or of a classifier a `supervision.Classifications`.

        As `endcap.ImageDetections.to_supervision` gives it; class names are in
        ``data["class_name"]``, where supervision's annotators look for them.
        Raises UnsupportedError where supervision is not installed and InvalidArgumentError for an
        image that failed.
        """
        self._refuse_failed()
        if self.task is Task.classification:
            return as_classifications(self.classes)
        return with_labels(self.to_detections().to_supervision(), self.detections)

    def _refuse_failed(self) -> None:
        if not self.ok:
            raise InvalidArgumentError(
                f"{self.image} failed ({self.status}: {self.error}); look at `ok` first"
            )


class Results(list[ImageResult]):
    """What became of several images, in their order: a list with ways into other forms."""

    def to_json(self) -> list[dict[str, Any]]:
        """Return the list that `endcap infer --json` prints."""
        return [result.to_json() for result in self]

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the rows of all images, see `ImageResult.to_rows`."""
        return [row for result in self for row in result.to_rows()]


def status_name(code: int) -> str:
    """Return the name of a `status` tensor's value, "internal" for one that does not exist."""
    try:
        return Status(code).label
    except ValueError:
        return Status.INTERNAL.label
