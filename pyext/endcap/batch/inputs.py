"""Images of a data set: folders and Parquet files, here or in an object store.

A data set is divided into shards: some files of a folder, or row groups of a Parquet file. A shard
is repeated when a process or a machine is lost.

Ray's own readers are not used. `read_binary_files` ends the run, or drops the file, where one
cannot be read, and reads it whole before its size can be refused.
"""

from __future__ import annotations

import itertools
import os
import posixpath
import re
from collections import Counter, deque
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from endcap._images import IMAGE_SUFFIXES
from endcap.batch.storage import BatchError, Storage, escape, import_package
from endcap.errors import InvalidArgumentError

_PARQUET_SUFFIXES = (".parquet", ".pq")
_GLOB = re.compile(r"[*?\[]")
_READERS = 8  # threads that read files of one shard: object stores are slow to respond
_MAX_SHARDS = 200
_MIN_IMAGES, _MAX_IMAGES = 16, 2000  # of a shard
_ROWS_AT_A_TIME = 64  # of a Parquet file
_MAX_BYTES = 256 << 20  # of an image's file
# Usual names of the column of images, in the order of preference.
_COLUMNS = ("bytes", "image", "jpg", "jpeg", "png", "webp", "encoded", "content")


@dataclass(frozen=True)
class EncodedImage:
    """The bytes of an image's file, or why they could not be read.

    Attributes:
        path: Its location; bytes that are not UTF-8 are escaped.
        error: Why there is no `data`.
    """

    path: str
    data: bytes | memoryview | None
    error: str = "there are no bytes"

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", escape(self.path))


@dataclass(frozen=True)
class Shard:
    """A part of a data set.

    Attributes:
        location: A location in the file system of the paths.
        paths: Image files, or the one file that holds the images.
        groups: Row groups of a Parquet file.
        column: The column of a Parquet file that holds the images' bytes; "" for image files.
        count: The number of images.
    """

    location: str
    paths: tuple[str, ...]
    groups: tuple[int, ...] = ()
    column: str = ""
    count: int = 0


@dataclass
class Listing:
    """The images of a data set.

    Attributes:
        shards: All images that are not done, in parts, and files that hold images.
        skipped: The number of other files in folders, by suffix.
        done: The number of image files that are done.
    """

    shards: list[Shard] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    done: int = 0


def list_images(
    locations: Sequence[str], *, column: str | None = None, done: Collection[str] = ()
) -> Listing:
    """Return the images at locations, in shards.

    Args:
        locations: Paths or URLs of folders (with all below), glob patterns, image files and Parquet
            files.
        column: The column of Parquet files with the bytes of images.
        done: Locations of image files to leave out.

    Raises:
        InvalidArgumentError: A location has no images.
        BatchError: A location cannot be reached.
    """
    listing = Listing()
    files: list[tuple[str, str]] = []  # location, path
    taken = set()
    for location in locations:
        storage = Storage(location)
        for path in _expand(storage, listing.skipped):
            url, suffix = storage.url(path), _suffix(path)
            if url in taken:
                continue
            taken.add(url)
            if suffix in _PARQUET_SUFFIXES:
                listing.shards += _parquet_shards(storage, path, column)
            elif url in done:
                listing.done += 1
            else:
                files.append((location, path))
    size = min(max(_MIN_IMAGES, len(files) // _MAX_SHARDS), _MAX_IMAGES)
    for location, group in itertools.groupby(files, key=lambda each: each[0]):
        paths = [path for _, path in group]
        for start in range(0, len(paths), size):
            part = tuple(paths[start : start + size])
            listing.shards.append(Shard(location, part, count=len(part)))
    if not taken:
        only = ", ".join(f"{number} {suffix}" for suffix, number in listing.skipped.items())
        raise InvalidArgumentError(
            f"there are no images in {', '.join(locations)}{f' (only {only})' if only else ''}; "
            "image files are known by their suffixes, and so are .parquet files"
        )
    return listing


def read_shard(shard: Shard) -> Iterator[EncodedImage]:
    """Yield the images of a shard in their order, some files read ahead.

    An image that cannot be read has an error.
    """
    read = _read_parquet if shard.column else _read_files
    return read(Storage(shard.location), shard)


def _expand(storage: Storage, skipped: Counter[str]) -> list[str]:
    """Return the files at a location that can be read here; count the others."""
    path = storage.path
    pattern = _GLOB.search(path)
    try:
        if pattern:
            folder, parts = posixpath.dirname(path[: pattern.start()]), path.split("/")
            files = [each for each in storage.files(folder) if _matches(each.split("/"), parts)]
        elif storage.is_folder(path):
            files = storage.files(path)
        else:
            files = [path]
    except OSError as error:
        raise BatchError(f"{storage.location} cannot be listed: {error}") from error
    known = (*IMAGE_SUFFIXES, *_PARQUET_SUFFIXES)
    hidden = (".", "_")  # such files accompany data sets
    good = [
        each
        for each in files
        if _suffix(each) in known and not posixpath.basename(each).startswith(hidden)
    ]
    if files == [path] != good:
        raise InvalidArgumentError(
            f"{storage.location} is not an image or .parquet file, by its suffix"
        )
    skipped.update(_suffix(each) or "no suffix" for each in set(files).difference(good))
    return good


def _matches(parts: Sequence[str], patterns: Sequence[str]) -> bool:
    """Return whether a path fits a pattern, part by part; ** stands for any number of folders."""
    if not patterns:
        return not parts
    first, rest = patterns[0], patterns[1:]
    if first == "**":
        return any(_matches(parts[start:], rest) for start in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], first) and _matches(parts[1:], rest)


def _suffix(path: str) -> str:
    return posixpath.splitext(path.lower())[1]


def _parquet_shards(storage: Storage, path: str, column: str | None) -> list[Shard]:
    """Return the shards of a Parquet file, of whole row groups."""
    parquet = import_package("pyarrow.parquet")
    try:
        with parquet.ParquetFile(path, filesystem=storage.filesystem) as file:
            names, metadata = file.schema_arrow.names, file.metadata
    except (OSError, ValueError) as error:
        raise BatchError(f"{storage.url(path)} cannot be read: {error}") from error
    chosen = column or next((name for name in _COLUMNS if name in names), None)
    if chosen is None or chosen not in names:
        raise InvalidArgumentError(
            f"{storage.url(path)} has the columns {', '.join(names)}; give the one with the "
            "images' bytes with --column"
        )
    rows = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    shards, start = [], 0
    while start < len(rows):
        end, count = start + 1, rows[start]
        while end < len(rows) and count + rows[end] <= _MAX_IMAGES:
            count += rows[end]
            end += 1
        groups = tuple(range(start, end))
        shards.append(Shard(storage.location, (path,), groups, chosen, count))
        start = end
    return shards


def _read_files(storage: Storage, shard: Shard) -> Iterator[EncodedImage]:
    """Yield files in their order, read by some threads ahead of what takes them."""
    with ThreadPoolExecutor(_READERS) as readers:
        reads = (readers.submit(_read_file, storage, path) for path in shard.paths)
        ahead = deque(itertools.islice(reads, 2 * _READERS))
        while ahead:
            image = ahead.popleft().result()
            ahead.extend(itertools.islice(reads, 1))
            yield image


def _read_file(storage: Storage, path: str) -> EncodedImage:
    name = storage.url(path)
    try:
        if storage.is_local and os.path.exists(path) and not os.path.isfile(path):
            return EncodedImage(name, None, "it is not a file")  # a pipe would be waited for
        with storage.filesystem.open_input_file(path) as file:
            if file.size() > _MAX_BYTES:
                reason = f"the file has {file.size()} bytes; at most {_MAX_BYTES} are read"
                return EncodedImage(name, None, reason)
            return EncodedImage(name, file.read())
    except OSError as error:
        return EncodedImage(name, None, f"the file cannot be read: {error}")


def _read_parquet(storage: Storage, shard: Shard) -> Iterator[EncodedImage]:
    """Yield the images of row groups: bytes, or structs with bytes as `datasets` writes them."""
    parquet = import_package("pyarrow.parquet")
    (path,) = shard.paths
    try:
        with parquet.ParquetFile(path, filesystem=storage.filesystem) as file:
            row = sum(file.metadata.row_group(group).num_rows for group in range(shard.groups[0]))
            for batch in file.iter_batches(
                batch_size=_ROWS_AT_A_TIME, row_groups=list(shard.groups), columns=[shard.column]
            ):
                for cell in batch.column(0).to_pylist():
                    content = cell.get("bytes") if isinstance(cell, dict) else cell
                    data = content if isinstance(content, bytes) else None
                    yield EncodedImage(f"{storage.url(path)}#{row}", data)
                    row += 1
    except (OSError, ValueError) as error:
        yield EncodedImage(storage.url(path), None, f"the file cannot be read further: {error}")
