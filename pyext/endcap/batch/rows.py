"""A row for each image: what Parquet files of results hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from endcap.batch.errors import import_package
from endcap.detections import ImageDetections, ImageResult, Task

PATH = "path"
STATUS = "status"


@dataclass(frozen=True)
class ImageRow:
    """The result of one image.

    Attributes:
        result: Its detections or classes, or why there are none.
        width: Of the image after its EXIF orientation; 0 where it is not known.
        height: Likewise.
        seconds: What each stage took, of a batch the image's share.
    """

    result: ImageResult
    width: int = 0
    height: int = 0
    seconds: Mapping[str, float] | None = None


def result_schema(task: Task) -> Any:
    """Return the pyarrow.Schema of the rows of a task."""
    pa = import_package("pyarrow")
    image = [
        pa.field(PATH, pa.string(), nullable=False),
        pa.field(STATUS, pa.string(), nullable=False),
        pa.field("error", pa.string()),
        pa.field("width", pa.int32()),
        pa.field("height", pa.int32()),
    ]
    results = [
        pa.field("scores", pa.list_(pa.float32())),
        pa.field("class_ids", pa.list_(pa.int32())),
        pa.field("labels", pa.list_(pa.string())),
    ]
    if task is Task.detection:
        mask = pa.struct([("size", pa.list_(pa.int32())), ("counts", pa.string())])
        results = [
            pa.field("boxes", pa.list_(pa.list_(pa.float32(), 4))),
            *results,
            pa.field("keypoints", pa.list_(pa.list_(pa.list_(pa.float32(), 3)))),
            pa.field("angles", pa.list_(pa.float32())),
            pa.field("masks", pa.list_(mask)),
        ]
    seconds = [(name, pa.float32()) for name in ("read", "preprocess", "network", "postprocess")]
    return pa.schema([*image, *results, pa.field("seconds", pa.struct(seconds))])


def to_table(rows: Sequence[ImageRow], task: Task) -> Any:
    """Return rows as a pyarrow.Table. An image that failed has null in place of results."""
    pa = import_package("pyarrow")
    return pa.Table.from_pylist([_to_dict(row) for row in rows], schema=result_schema(task))


def _to_dict(row: ImageRow) -> dict[str, Any]:
    result = row.result
    values: dict[str, Any] = {
        PATH: result.image,
        STATUS: result.status,
        "error": result.error,
        "width": row.width or None,
        "height": row.height or None,
        "seconds": None if row.seconds is None else dict(row.seconds),
    }
    if not result.ok:
        return values
    if result.task is Task.classification:
        return values | {
            "scores": [each.score for each in result.classes],
            "class_ids": [each.class_id for each in result.classes],
            "labels": _known([each.label for each in result.classes]),
        }
    return values | _detections(result.detections)


def _detections(detections: ImageDetections) -> dict[str, Any]:
    columns = detections.to_dict()
    names = ("boxes", "scores", "class_ids", "keypoints", "angles", "masks")
    values = {name: columns.get(name) for name in names}
    return values | {"labels": _known(detections.labels or [])}


def _known(labels: Sequence[str | None]) -> list[str | None] | None:
    """Return the names of classes, None where no class has one."""
    return list(labels) if any(label is not None for label in labels) else None
