"""Images of a data set: folders, Parquet files and tar archives, here or in an object store.

A data set is divided into shards, which are read one by one: so many files of a folder, row groups
of a Parquet file, or one tar archive. A shard is what is done again when a process or a machine is
lost, and its results are one output file.
"""

from __future__ import annotations

import itertools
import os
import posixpath
import re
import tarfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from endcap._images import IMAGE_SUFFIXES
from endcap.batch.errors import BatchError, import_package
from endcap.batch.storage import Storage, escaped
from endcap.errors import InvalidArgumentError

BYTES = "bytes"
READ_ERROR = "read_error"
_PARQUET_SUFFIXES = (".parquet", ".pq")
_TAR_SUFFIXES = (".tar", ".tar.gz", ".tgz")
_GLOB = re.compile(r"[*?\[]")
_READERS = 8  # threads that read files of one shard: object stores are slow to respond
_MOST_SHARDS = 200
_FEWEST_IMAGES, _MOST_IMAGES = 16, 2000  # of a shard
_ROWS_AT_A_TIME = 64  # of a Parquet file
_MAX_SKIPPED_BYTES = 1 << 36
_MAX_HEADER_BYTES = 64 << 10  # names have up to 4096 bytes
_MOST_MEMBER_BYTES = 1 << 30  # of an archive, which may be compressed a thousandfold
# Schemes that a cell may name beside its file's own. Others reach this machine or programs on it.
_OBJECT_STORES = ("s3", "gs", "gcs")
# What Parquet files of images call their column, in the order of preference.
_COLUMNS = ("bytes", "image", "jpg", "jpeg", "png", "webp", "encoded", "content", "path", "file",
            "filename", "url")  # fmt: skip


@dataclass(frozen=True)
class EncodedImage:
    """The bytes of an image's file, or why they could not be read.

    Attributes:
        path: Its location; what is no UTF-8 is escaped.
    """

    path: str
    data: bytes | None
    error: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", escaped(self.path))


@dataclass(frozen=True)
class Shard:
    """A part of a data set.

    Attributes:
        kind: ``files``, ``parquet`` or ``tar``.
        location: A location in the file system that has the paths.
        paths: Files of images; else the one file that holds them.
        groups: Row groups of a Parquet file.
        column: Of a Parquet file, that holds the images' bytes or paths.
        count: How many images there are; 0 where that is not known.
    """

    kind: str
    location: str
    paths: tuple[str, ...]
    groups: tuple[int, ...] = ()
    column: str = ""
    count: int = 0


@dataclass
class Listing:
    """The images that the arguments name.

    Attributes:
        shards: All of them, in parts.
        skipped: Files of folders that are no images, by suffix.
    """

    shards: list[Shard] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)

    @property
    def count(self) -> int | None:
        """The number of images, None where archives do not tell it."""
        if any(shard.kind == "tar" for shard in self.shards):
            return None
        return sum(shard.count for shard in self.shards)


def list_images(locations: Sequence[str], *, column: str | None = None) -> Listing:
    """Return the images that locations name, in shards.

    Args:
        locations: Paths or URLs of folders (with all below), glob patterns, image files, Parquet
            files and tar archives.
        column: Of Parquet files, that holds bytes or paths of images.

    Raises:
        InvalidArgumentError: A location that names nothing that is read here.
        BatchError: One that cannot be reached.
    """
    listing = Listing()
    files: list[tuple[str, str]] = []  # location, path
    taken = set()
    for location in locations:
        storage = Storage(location)
        for info in _expand(storage, listing.skipped):
            if storage.url(info.path) in taken:
                continue
            taken.add(storage.url(info.path))
            suffix = _suffix(info.path)
            if suffix in IMAGE_SUFFIXES:
                files.append((location, info.path))
            elif suffix in _PARQUET_SUFFIXES:
                listing.shards += _parquet_shards(storage, info.path, column)
            else:
                listing.shards.append(Shard("tar", location, (info.path,)))
    size = min(max(_FEWEST_IMAGES, len(files) // _MOST_SHARDS), _MOST_IMAGES)
    for location, group in itertools.groupby(files, key=lambda each: each[0]):
        paths = [path for _, path in group]
        for start in range(0, len(paths), size):
            part = tuple(paths[start : start + size])
            listing.shards.append(Shard("files", location, part, count=len(part)))
    if not listing.shards:
        raise InvalidArgumentError(
            f"there are no images in {', '.join(locations)}{_named(listing.skipped)}; image files "
            "are known by their suffixes, and so are .parquet and .tar files"
        )
    return listing


def read_shard(
    shard: Shard, *, max_bytes: int | None = None, allow_any_path: bool = False
) -> Iterator[EncodedImage]:
    """Yield the images of a shard, in their order; some files are read ahead.

    What cannot be read is an image with an error.

    Args:
        shard: Of `list_images`.
        max_bytes: The most bytes of an image's file; a larger one is not read.
        allow_any_path: Whether cells of Parquet files may name files outside the file's folder.
    """
    storage = Storage(shard.location)
    if shard.kind == "files":
        yield from _read_files([(storage, path) for path in shard.paths], max_bytes)
    elif shard.kind == "tar":
        yield from _read_tar(storage, shard.paths[0], max_bytes)
    else:
        yield from _read_parquet(storage, shard, max_bytes, allow_any_path)


def _expand(storage: Storage, skipped: Counter[str]) -> list[Any]:
    """Return the files that a location names, those of no kind that is read counted."""
    path = storage.path
    pattern = _GLOB.search(path)
    try:
        if pattern:
            folder, parts = posixpath.dirname(path[: pattern.start()]), path.split("/")
            files = [
                info for info in storage.files(folder) if _matches(info.path.split("/"), parts)
            ]
        elif storage.is_folder(path):
            files = storage.files(path)
        else:
            files = [storage.info(path)]
    except OSError as error:
        raise BatchError(f"{storage.location} cannot be listed: {error}") from error
    known = (*IMAGE_SUFFIXES, *_PARQUET_SUFFIXES, *_TAR_SUFFIXES)
    good = [info for info in files if _suffix(info.path) in known and not _is_hidden(info.path)]
    if not pattern and len(files) == 1 and not good:
        raise InvalidArgumentError(
            f"{storage.location} is no image, .parquet or .tar file, by its suffix"
        )
    skipped.update(_suffix(info.path) or "no suffix" for info in files if info not in good)
    return good


def _matches(parts: Sequence[str], patterns: Sequence[str]) -> bool:
    """Return whether a path fits a pattern, part by part; ** stands for any number of folders."""
    if not patterns:
        return not parts
    first, rest = patterns[0], patterns[1:]
    if first == "**":
        return any(_matches(parts[start:], rest) for start in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], first) and _matches(parts[1:], rest)


def _is_hidden(path: str) -> bool:
    """Return whether a file is one of those that data sets are accompanied by."""
    return posixpath.basename(path).startswith((".", "_"))


def _suffix(path: str) -> str:
    name = posixpath.basename(path).lower()
    tar = next((suffix for suffix in _TAR_SUFFIXES if name.endswith(suffix)), None)
    return tar or posixpath.splitext(name)[1]


def _named(skipped: Counter[str]) -> str:
    named = ", ".join(f"{number} {suffix}" for suffix, number in skipped.most_common(5))
    return f" ({named} are none)" if named else ""


def _parquet_shards(storage: Storage, path: str, column: str | None) -> list[Shard]:
    """Return the shards of a Parquet file, of whole row groups."""
    parquet = import_package("pyarrow.parquet")
    try:
        with parquet.ParquetFile(path, filesystem=storage.filesystem) as file:
            names = file.schema_arrow.names
            rows = [
                file.metadata.row_group(group).num_rows
                for group in range(file.metadata.num_row_groups)
            ]
    except (OSError, ValueError) as error:
        raise BatchError(f"{storage.url(path)} cannot be read: {error}") from error
    chosen = column or next((name for name in _COLUMNS if name in names), None)
    if chosen is None or chosen not in names:
        raise InvalidArgumentError(
            f"{storage.url(path)} has the columns {', '.join(names)}; name the one with the bytes "
            "or the paths of images by --column"
        )
    shards, start = [], 0
    while start < len(rows):
        end, count = start + 1, rows[start]
        while end < len(rows) and count + rows[end] <= _MOST_IMAGES:
            count += rows[end]
            end += 1
        groups = tuple(range(start, end))
        shards.append(Shard("parquet", storage.location, (path,), groups, chosen, count))
        start = end
    return shards


def _read_files(
    paths: Sequence[tuple[Storage, str]], max_bytes: int | None
) -> Iterator[EncodedImage]:
    """Yield files in their order, read by some threads ahead of what takes them."""
    with ThreadPoolExecutor(_READERS) as readers:
        waiting = iter(paths)
        reads = [
            readers.submit(_read_file, storage, path, max_bytes)
            for storage, path in itertools.islice(waiting, 2 * _READERS)
        ]
        while reads:
            image = reads.pop(0).result()
            for storage, path in itertools.islice(waiting, 1):
                reads.append(readers.submit(_read_file, storage, path, max_bytes))
            yield image


def _read_file(storage: Storage, path: str, max_bytes: int | None) -> EncodedImage:
    name = storage.url(path)
    try:
        if storage.is_local and os.path.exists(path) and not os.path.isfile(path):
            return EncodedImage(name, None, "it is no file")  # a pipe would be waited for
        with storage.filesystem.open_input_file(path) as file:
            if max_bytes is not None and file.size() > max_bytes:
                return EncodedImage(name, None, _too_large(file.size(), max_bytes))
            return EncodedImage(name, file.read())
    except (OSError, ValueError) as error:  # ValueError: a path that no file can have
        return EncodedImage(name, None, f"the file cannot be read: {error}")


class _BoundedHeader(tarfile.TarInfo):
    """A member that ends reading where `tarfile` would fill the memory with its headers."""

    def _proc_member(self, archive: tarfile.TarFile) -> Any:
        if self.type in b"LKxgX" and self.size > _MAX_HEADER_BYTES:  # long names and PAX headers
            raise tarfile.ReadError(f"a header claims {self.size} bytes")
        return super()._proc_member(archive)  # type: ignore[misc]

    def _refuse_map(self, *_: object) -> None:
        raise tarfile.ReadError("it has sparse files, whose maps have no limit")

    _proc_sparse = _proc_gnusparse_10 = _refuse_map


def _read_tar(storage: Storage, path: str, max_bytes: int | None) -> Iterator[EncodedImage]:
    """Yield the images of a tar archive, which is read from its start to its end."""
    archive = storage.url(path)
    limit = _MOST_MEMBER_BYTES if max_bytes is None else max_bytes
    try:
        with (
            storage.filesystem.open_input_stream(path, compression=None) as stream,
            tarfile.open(fileobj=stream, mode="r|*", tarinfo=_BoundedHeader) as tar,
        ):
            for member in tar:
                if not 0 <= member.size <= _MAX_SKIPPED_BYTES:  # `tarfile` would read to its end
                    raise tarfile.ReadError(f"a header claims {member.size} bytes")
                tar.members.clear()  # type: ignore[attr-defined]  # each is needed once only
                if not member.isfile() or _suffix(member.name) not in IMAGE_SUFFIXES:
                    continue
                name = f"{archive}/{member.name}"
                if member.issparse():
                    yield EncodedImage(name, None, "it is stored as a sparse file")
                    continue
                if member.size > limit:
                    yield EncodedImage(name, None, _too_large(member.size, limit))
                    continue
                content = tar.extractfile(member)
                data = b"" if content is None else content.read()
                if len(data) < member.size:
                    raise tarfile.ReadError("it ends within a file")
                yield EncodedImage(name, data)
    except (OSError, EOFError, ValueError, RecursionError, tarfile.TarError, zlib.error) as error:
        yield EncodedImage(archive, None, f"the archive cannot be read further: {error}")


def _read_parquet(
    storage: Storage, shard: Shard, max_bytes: int | None, allow_any_path: bool
) -> Iterator[EncodedImage]:
    """Yield the images of row groups: bytes, structs with bytes and a path, or paths."""
    parquet = import_package("pyarrow.parquet")
    (path,) = shard.paths
    try:
        with parquet.ParquetFile(path, filesystem=storage.filesystem) as file:
            metadata = file.metadata
            row = sum(metadata.row_group(group).num_rows for group in range(shard.groups[0]))
            for batch in file.iter_batches(
                batch_size=_ROWS_AT_A_TIME, row_groups=list(shard.groups), columns=[shard.column]
            ):
                cells = batch.column(0).to_pylist()
                images = [
                    _of_cell(storage, path, number, cell, allow_any_path)
                    for number, cell in enumerate(cells, row)
                ]
                yield from _read_cells(images, max_bytes)
                row += len(cells)
    except (OSError, ValueError) as error:
        yield EncodedImage(storage.url(path), None, f"the file cannot be read further: {error}")


def _read_cells(
    images: Sequence[EncodedImage | tuple[Storage, str]], max_bytes: int | None
) -> Iterator[EncodedImage]:
    """Yield the images of a column's cells; those that are paths are read as files."""
    files = _read_files([each for each in images if isinstance(each, tuple)], max_bytes)
    for image in images:
        if isinstance(image, tuple):
            yield next(files)
        elif image.data is not None and max_bytes is not None and len(image.data) > max_bytes:
            yield EncodedImage(image.path, None, _too_large(len(image.data), max_bytes))
        else:
            yield image


def _of_cell(
    storage: Storage, path: str, row: int, cell: Any, allow_any_path: bool
) -> EncodedImage | tuple[Storage, str]:
    """Return the image of a cell, or where its file is."""
    name = f"{storage.url(path)}#{row}"
    if isinstance(cell, dict):  # as the library `datasets` has images
        cell = cell.get("bytes") or cell.get("path")
    if isinstance(cell, bytes):
        return EncodedImage(name, cell)
    if not isinstance(cell, str):
        return EncodedImage(name, None, "there are no bytes")
    place = _location_of_cell(storage, path, cell, allow_any_path)
    if isinstance(place, tuple) and not allow_any_path and not _is_below(*place, path):
        return _outside(place[0].url(place[1]), cell, storage.url(path))
    return place


def _outside(name: str, cell: str, file: str) -> EncodedImage:
    return EncodedImage(
        name,
        None,
        f"{cell} leads out of the folder of {file}; move the file there, or give --allow-any-path "
        "(allow_any_path=True) and a new output",
    )


def _location_of_cell(
    storage: Storage, path: str, cell: str, allow_any_path: bool
) -> EncodedImage | tuple[Storage, str]:
    """Return where the file of a cell with a path or a location is, or why it is not allowed."""
    scheme, separator, rest = cell.partition("://")
    if not separator:
        return storage, posixpath.join(posixpath.dirname(path), cell)
    if scheme == storage.scheme:
        return storage, rest
    # The data set may be anybody's, and requests are signed with this user's credentials.
    is_allowed = scheme in _OBJECT_STORES or (scheme == "file" and storage.is_local)
    if not is_allowed or "?" in rest:
        return EncodedImage(
            cell,
            None,
            f"{cell} cannot be used: a cell may name a path of its file's own storage, or a "
            "location of s3:// or gs:// without options",
        )
    if scheme != "file" and not allow_any_path:  # Storage would ask for the bucket's region
        return _outside(cell, cell, storage.url(path))
    try:
        other = Storage(cell)
    except InvalidArgumentError as error:
        return EncodedImage(cell, None, str(error))
    return other, other.path


def _is_below(storage: Storage, path: str, neighbour: str) -> bool:
    """Return whether a path leads to a place below the folder of `neighbour`, links followed."""
    resolve = os.path.realpath if storage.is_local else posixpath.normpath
    try:
        folder = resolve(posixpath.dirname(neighbour)).rstrip("/")
        return resolve(path).startswith(f"{folder}/")
    except ValueError:  # no path of a file: it cannot be read
        return True


def _too_large(size: int, max_bytes: int) -> str:
    return f"the file has {size} bytes; max_bytes is {max_bytes}"
