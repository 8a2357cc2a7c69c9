"""Files of results: a Parquet file for each shard, and COCO JSON made from them.

Ray's `write_parquet` is not used: with it a process that is killed leaves a truncated file. Here a
file of results exists as a whole or not at all.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import endcap
from endcap._coco import FIRST_COCO_ID, coco_annotation, coco_image
from endcap.batch.errors import BatchError, import_package
from endcap.batch.storage import Storage
from endcap.detections import Detection, ImageDetections, ImageResult, Task
from endcap.errors import InvalidArgumentError

PATH = "path"
STATUS = "status"
COCO_NAME = "detections.json"
_PART_NAME = re.compile(r"part-\d{6,}-([0-9a-f]{16})\.parquet")
_MODEL = b"endcap.model"  # metadata of a file of results: the identity of the model
_ROWS_AT_A_TIME = 1024


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
    if result.task is Task.classification:
        return values | {
            "scores": [each.score for each in result.classes],
            "class_ids": [each.class_id for each in result.classes],
            "labels": _known([each.label for each in result.classes]),
        }
    return values | _detection_columns(result.detections)


def _detection_columns(detections: ImageDetections) -> dict[str, Any]:
    columns = detections.to_dict()
    names = ("boxes", "scores", "class_ids", "keypoints", "angles", "masks")
    values = {name: columns.get(name) for name in names}
    return values | {"labels": _known(detections.labels or [])}


def _known(labels: Sequence[str | None]) -> list[str | None] | None:
    """Return the names of classes, None where no class has one."""
    return list(labels) if any(label is not None for label in labels) else None


class Results:
    """The folder of results.

    Args:
        location: Its path or URL.
        model: Digits that identify the model.
    """

    def __init__(self, location: str, model: str) -> None:
        self.storage = Storage(location)
        self._model = model.encode()

    def write_part(
        self, number: int, key: str, batches: Iterable[Sequence[ImageRow]], task: Task
    ) -> Counter[str]:
        """Write the results of a shard; return the number of images by status.

        Args:
            number: The shard's place, for the order of files.
            key: `Shard.key`.
            batches: Its rows.
            task: The model's.
        """
        parquet = import_package("pyarrow.parquet")
        statuses: Counter[str] = Counter()
        schema = to_table([], task).schema.with_metadata({_MODEL: self._model})
        path = self.storage.child(f"part-{number:06}-{key}.parquet")
        with (
            self.storage.whole_file(path) as file,
            parquet.ParquetWriter(file, schema) as writer,
        ):
            waiting: list[ImageRow] = []
            for batch in batches:
                statuses.update(row.result.status for row in batch)
                waiting += batch
                if len(waiting) >= _ROWS_AT_A_TIME:
                    writer.write_table(to_table(waiting, task).cast(schema))
                    waiting = []
            if waiting:
                writer.write_table(to_table(waiting, task).cast(schema))
        return statuses

    def find_parts(self) -> dict[str, str]:
        """Return the paths of finished files by their shards' keys.

        Raises:
            InvalidArgumentError: The folder has other files, or results of another model.
            BatchError: A file cannot be read.
        """
        parquet = import_package("pyarrow.parquet")
        folder, parts = self.storage.url(self.storage.path), {}
        try:
            for path in self.storage.files(self.storage.path):
                name = posixpath.relpath(path, self.storage.path)
                match = _PART_NAME.fullmatch(name)
                if match is None and name != COCO_NAME:
                    raise InvalidArgumentError(
                        f"{folder} has the file {name}, which `endcap batch` has not written; give "
                        "--output a new folder"
                    )
                if match is not None:
                    parts[match[1]] = path
            for path in list(parts.values())[:1]:  # a run adds to results of its model only
                with self.storage.filesystem.open_input_file(path) as file:
                    found = (parquet.read_schema(file).metadata or {}).get(_MODEL)
                if found != self._model:
                    raise InvalidArgumentError(
                        f"{folder} has results of another model; give --output a new folder"
                    )
        except (OSError, ValueError) as error:
            if isinstance(error, InvalidArgumentError):
                raise
            raise BatchError(f"{folder} cannot be used: {error}") from error
        return parts

    def read(self, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield the rows of all files, some columns of them."""
        parquet = import_package("pyarrow.parquet")
        for path in sorted(self.find_parts().values()):
            with parquet.ParquetFile(path, filesystem=self.storage.filesystem) as file:
                for table in file.iter_batches(batch_size=_ROWS_AT_A_TIME, columns=list(columns)):
                    yield from table.to_pylist()

    def write_coco(self, labels: Sequence[str]) -> str:
        """Write all detections in COCO's format; return the file's location.

        The files of results are read in batches, twice: memory holds one batch at a time.
        """
        path = self.storage.child(COCO_NAME)
        names = dict(enumerate(labels))
        with self.storage.whole_file(path) as file:

            def write(text: str) -> None:
                file.write(text.encode())

            info = {"description": "detections by endcap", "version": endcap.__version__}
            write('{\n"info": ' + json.dumps(info) + ',\n"images": ')
            _write_list(write, self._coco_images())
            write(',\n"annotations": ')
            _write_list(write, self._coco_annotations(names))
            write(',\n"categories": ')
            categories = (
                {"id": class_id + FIRST_COCO_ID, "name": name, "supercategory": ""}
                for class_id, name in sorted(names.items())
            )
            _write_list(write, categories)
            write("\n}\n")
        return self.storage.url(path)

    def _coco_images(self) -> Iterator[dict[str, Any]]:
        for number, row in enumerate(self.read([PATH, STATUS, "width", "height"]), FIRST_COCO_ID):
            size = (row["width"] or 0, row["height"] or 0)
            yield coco_image(row[PATH], row[STATUS], size, number)

    def _coco_annotations(self, names: dict[int, str]) -> Iterator[dict[str, Any]]:
        """Yield all annotations; add the classes that occur to `names`."""
        columns = ["width", "height", "boxes", "scores", "class_ids", "labels", "keypoints",
                   "angles", "masks"]  # fmt: skip
        number = FIRST_COCO_ID
        for image, row in enumerate(self.read(columns), FIRST_COCO_ID):
            size = (row["width"] or 0, row["height"] or 0)
            for detection in _detections(row):
                class_id = detection.class_id
                names.setdefault(class_id, detection.label or f"class {class_id}")
                yield coco_annotation(detection, image, number, size)
                number += 1


def _detections(row: dict[str, Any]) -> Iterator[Detection]:
    for place, box in enumerate(row["boxes"] or ()):
        keypoints = None if row["keypoints"] is None else row["keypoints"][place]
        yield Detection(
            (box[0], box[1], box[2], box[3]),
            row["scores"][place],
            row["class_ids"][place],
            None if row["labels"] is None else row["labels"][place],
            place,
            None if keypoints is None else [(x, y, seen) for x, y, seen in keypoints],
            None if row["angles"] is None else row["angles"][place],
            None if row["masks"] is None else row["masks"][place],
        )


def _write_list(write: Any, entries: Iterable[dict[str, Any]]) -> None:
    """Write a JSON list, each element on its line."""
    separator = "[\n"
    for entry in entries:
        write(separator + json.dumps(entry, allow_nan=False))
        separator = ",\n"
    write("[]" if separator == "[\n" else "\n]")
