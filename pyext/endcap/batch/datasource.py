"""A source of Ray Data: encoded images as bytes, not decoded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ray.data.block import BlockMetadata
from ray.data.datasource import Datasource, ReadTask

from endcap.batch.errors import import_package
from endcap.batch.inputs import (
    BYTES,
    READ_ERROR,
    EncodedImage,
    Shard,
    list_images,
    read_shard,
)
from endcap.batch.rows import PATH

if TYPE_CHECKING:
    from ray.data import DataContext

_BLOCK_BYTES = 16 << 20
_GUESSED_BYTES = 200_000  # of an image's file


class EncodedImages(Datasource):
    """Encoded images as rows: ``path``, ``bytes``, and ``read_error`` of those without bytes.

    Args:
        locations: As for `endcap.batch.read_encoded`.
        column: Likewise.
        allow_any_path: Likewise.
    """

    def __init__(
        self, locations: Sequence[str], *, column: str | None = None, allow_any_path: bool = False
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._shards = list_images(locations, column=column).shards
        self._allow_any_path = allow_any_path

    def estimate_inmemory_data_size(self) -> int | None:
        """Return how many bytes all images may have."""
        return sum(shard.count for shard in self._shards) * _GUESSED_BYTES or None

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: DataContext | None = None,
    ) -> list[ReadTask]:
        """Return a task for each shard; they are small enough to be many."""
        return [
            ReadTask(
                _Read(shard, self._allow_any_path),
                BlockMetadata(
                    num_rows=shard.count or None,
                    size_bytes=shard.count * _GUESSED_BYTES or None,
                    input_files=shard.paths,
                    exec_stats=None,
                ),
                per_task_row_limit=per_task_row_limit,
            )
            for shard in self._shards
        ]


class _Read:
    """What a task does."""

    def __init__(self, shard: Shard, allow_any_path: bool) -> None:
        self._shard = shard
        self._allow_any_path = allow_any_path

    def __call__(self) -> Iterable[Any]:
        """Yield tables of a few megabytes."""
        return _tables(read_shard(self._shard, allow_any_path=self._allow_any_path))


def _tables(images: Iterable[EncodedImage]) -> Iterator[Any]:
    pa = import_package("pyarrow")
    schema = pa.schema(
        [(PATH, pa.string()), (BYTES, pa.binary()), (READ_ERROR, pa.string())],
    )
    rows: list[dict[str, Any]] = []
    size = 0
    for image in images:
        rows.append({PATH: image.path, BYTES: image.data, READ_ERROR: image.error})
        size += len(image.data or b"")
        if size >= _BLOCK_BYTES:
            yield pa.Table.from_pylist(rows, schema=schema)
            rows, size = [], 0
    if rows:
        yield pa.Table.from_pylist(rows, schema=schema)
