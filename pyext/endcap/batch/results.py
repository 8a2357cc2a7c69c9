"""Files of results: a Parquet file for each shard, and COCO JSON made of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import endcap
from endcap._coco import FIRST_COCO_ID, coco_annotation, coco_image
from endcap.batch.errors import import_package
from endcap.batch.rows import ImageRow, to_table
from endcap.batch.storage import Storage
from endcap.detections import Detection, Task

COCO_NAME = "detections.json"
_ROWS_AT_A_TIME = 1024


def part_name(shard: int) -> str:
    """Return the name of the file with the results of a shard."""
    return f"part-{shard:06}.parquet"


def write_part(
    output: Storage, shard: int, batches: Iterable[Sequence[ImageRow]], task: Task
) -> Counter[str]:
    """Write the results of a shard, whole or not at all; return how many images had each status."""
    parquet = import_package("pyarrow.parquet")
    statuses: Counter[str] = Counter()
    with output.whole_file(output.child(part_name(shard))) as file:
        writer = None
        waiting: list[ImageRow] = []
        for batch in batches:
            statuses.update(row.result.status for row in batch)
            waiting += batch
            if len(waiting) >= _ROWS_AT_A_TIME:
                table = to_table(waiting, task)
                writer = writer or parquet.ParquetWriter(file, table.schema)
                writer.write_table(table)
                waiting = []
        if waiting or writer is None:
            table = to_table(waiting, task)
            writer = writer or parquet.ParquetWriter(file, table.schema)
            writer.write_table(table)
        writer.close()
    return statuses


def finished_parts(output: Storage) -> set[int]:
    """Return the shards whose files of results are there."""
    names = (info.base_name for info in output.files(output.path))
    digits = (
        name.removeprefix("part-").removesuffix(".parquet")
        for name in names
        if name.startswith("part-") and name.endswith(".parquet")
    )
    return {int(each) for each in digits if each.isdecimal()}


def count_statuses(output: Storage, shards: Iterable[int]) -> Counter[str]:
    """Return how many images had each status, by the files of results."""
    statuses: Counter[str] = Counter()
    for shard in shards:
        for table in _tables(output, shard, ["status"]):
            statuses.update(table.column(0).to_pylist())
    return statuses


def write_coco(output: Storage, shards: Sequence[int], labels: Sequence[str]) -> str:
    """Write the detections of all shards in COCO's format; return the file's location.

    The files of results are read one by one, twice: what is in memory at a time is one of them.
    """
    path = output.child(COCO_NAME)
    names = dict(enumerate(labels))
    with output.whole_file(path) as file:

        def write(text: str) -> None:
            file.write(text.encode())

        info = {"description": "detections by endcap", "version": endcap.__version__}
        write('{\n"info": ' + json.dumps(info) + ',\n"images": ')
        columns = ["path", "status", "width", "height"]
        rows = enumerate(_rows(output, shards, columns), FIRST_COCO_ID)
        _write_list(write, (_image(row, number) for number, row in rows))
        write(',\n"annotations": ')
        _write_list(write, _annotations(output, shards, names))
        write(',\n"categories": ')
        categories = (
            {"id": class_id + FIRST_COCO_ID, "name": name, "supercategory": ""}
            for class_id, name in sorted(names.items())
        )
        _write_list(write, categories)
        write("\n}\n")
    return output.url(path)


def _image(row: dict[str, Any], number: int) -> dict[str, Any]:
    return coco_image(row["path"], row["status"], (row["width"] or 0, row["height"] or 0), number)


def _annotations(
    output: Storage, shards: Sequence[int], names: dict[int, str]
) -> Iterator[dict[str, Any]]:
    """Yield all annotations; add the classes that occur to `names`."""
    columns = ["width", "height", "boxes", "scores", "class_ids", "labels", "keypoints", "angles",
               "masks"]  # fmt: skip
    number = FIRST_COCO_ID
    for image, row in enumerate(_rows(output, shards, columns), FIRST_COCO_ID):
        for detection in _detections(row):
            class_id = detection.class_id
            names.setdefault(class_id, detection.label or f"class {class_id}")
            size = (row["width"] or 0, row["height"] or 0)
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


def _rows(
    output: Storage, shards: Sequence[int], columns: Sequence[str]
) -> Iterator[dict[str, Any]]:
    for shard in shards:
        for table in _tables(output, shard, columns):
            yield from table.to_pylist()


def _tables(output: Storage, shard: int, columns: Sequence[str]) -> Iterator[Any]:
    parquet = import_package("pyarrow.parquet")
    path = output.child(part_name(shard))
    with parquet.ParquetFile(path, filesystem=output.filesystem) as file:
        yield from file.iter_batches(batch_size=_ROWS_AT_A_TIME, columns=list(columns))


def _write_list(write: Any, entries: Iterable[dict[str, Any]]) -> None:
    """Write a JSON list, each element on its line."""
    separator = "[\n"
    for entry in entries:
        write(separator + json.dumps(entry, allow_nan=False))
        separator = ",\n"
    write("[]" if separator == "[\n" else "\n]")
