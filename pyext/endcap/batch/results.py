"""Files of results, in Parquet.

Ray's `write_parquet` is not used: with it a process that is killed leaves a truncated file. Here a
file of results exists as a whole or not at all.
"""

from __future__ import annotations

import posixpath
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from endcap.batch.storage import BatchError, Storage, import_package
from endcap.client.results import ImageResult, Task
from endcap.errors import InvalidArgumentError

PATH = "path"
STATUS = "status"
_PART_NAME = re.compile(r"part-\d{20}\.parquet")
_MODEL = b"endcap.model"  # metadata of a file of results: the identity of the model
_ROWS_AT_A_TIME = 1024
_OF_DETECTIONS = ("boxes", "scores", "class_ids", "keypoints", "angles", "masks")


@dataclass(frozen=True)
class ImageRow:
    """The result of one image.

    Attributes:
        result: Its detections or classes, or why there are none.
        width: Of the image after its EXIF orientation; 0 if unknown.
        height: Likewise.
    """

    result: ImageResult
    width: int = 0
    height: int = 0


def to_table(rows: Sequence[ImageRow], task: Task) -> Any:
    """Return rows as a pyarrow.Table. The results of an image that failed are null."""
    pa = import_package("pyarrow")
    columns = [
        pa.field(PATH, pa.string(), nullable=False),
        pa.field(STATUS, pa.string(), nullable=False),
        pa.field("error", pa.string()),
        pa.field("width", pa.int32()),
        pa.field("height", pa.int32()),
        pa.field("scores", pa.list_(pa.float32())),
        pa.field("class_ids", pa.list_(pa.int32())),
        pa.field("labels", pa.list_(pa.string())),
    ]
    if task is Task.detection:
        mask = pa.struct([("size", pa.list_(pa.int32())), ("counts", pa.string())])
        columns.insert(5, pa.field("boxes", pa.list_(pa.list_(pa.float32(), 4))))
        columns += [
            pa.field("keypoints", pa.list_(pa.list_(pa.list_(pa.float32(), 3)))),
            pa.field("angles", pa.list_(pa.float32())),
            pa.field("masks", pa.list_(mask)),
        ]
    return pa.Table.from_pylist([_to_dict(row) for row in rows], schema=pa.schema(columns))


def _to_dict(row: ImageRow) -> dict[str, Any]:
    result = row.result
    values: dict[str, Any] = {
        PATH: result.image,
        STATUS: result.status,
        "error": result.error,
        "width": row.width or None,
        "height": row.height or None,
    }
    if not result.ok:
        return values
    labels: Sequence[str | None]
    if result.task is Task.classification:
        values["scores"] = [each.score for each in result.classes]
        values["class_ids"] = [each.class_id for each in result.classes]
        labels = [each.label for each in result.classes]
    else:
        columns = result.detections.to_dict()
        values |= {name: columns.get(name) for name in _OF_DETECTIONS}
        labels = result.detections.labels or []
    has_names = any(label is not None for label in labels)
    return values | {"labels": list(labels) if has_names else None}


class Results:
    """The folder of results.

    Args:
        location: Its path or URL.
        model: Digits that identify the model.
    """

    def __init__(self, location: str, model: str) -> None:
        self.storage = Storage(location)
        self._model = model.encode()

    def write_part(self, table: Any) -> None:
        """Write rows to a new file."""
        pa, parquet = import_package("pyarrow"), import_package("pyarrow.parquet")
        content = pa.BufferOutputStream()
        parquet.write_table(table.replace_schema_metadata({_MODEL: self._model}), content)
        path = posixpath.join(self.storage.path, f"part-{time.time_ns():020}.parquet")
        self.storage.write(path, content.getvalue())

    def read(self, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
        """Yield the rows of all files, some columns of them.

        Raises:
            InvalidArgumentError: The folder has other files, or results of another model.
            BatchError: A file cannot be read.
        """
        parquet = import_package("pyarrow.parquet")
        folder = self.storage.url(self.storage.path)
        try:
            for path in self.storage.files(self.storage.path):
                name = posixpath.relpath(path, self.storage.path)
                if not _PART_NAME.fullmatch(name):
                    raise InvalidArgumentError(
                        f"{folder} has the file {name}, which `endcap batch` has not written; give "
                        "--output a new folder"
                    )
                with parquet.ParquetFile(path, filesystem=self.storage.filesystem) as file:
                    if (file.schema_arrow.metadata or {}).get(_MODEL) != self._model:
                        raise InvalidArgumentError(
                            f"{folder} has results of another model; give --output a new folder"
                        )
                    for rows in file.iter_batches(batch_size=_ROWS_AT_A_TIME, columns=columns):
                        yield from rows.to_pylist()
        except InvalidArgumentError:
            raise
        except (OSError, ValueError) as error:
            raise BatchError(f"{folder} cannot be used: {error}") from error
