"""Images of a data set: folders, Parquet files and tar archives, here or in an object store.

A data set is divided into shards: some files of a folder, row groups of a Parquet file, or one tar
archive. A shard is repeated when a process or a machine is lost, and its results are one file.

Ray's own readers are not used. `read_binary_files` ends the run, or drops the file, where one
cannot be read, and reads it whole before its size can be refused; `read_webdataset` trusts the
sizes in a tar's headers, so that one of 2**40 bytes seeks without end; and paths in Parquet cells
have to be checked before anything opens them.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import posixpath
import re
import tarfile
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
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
_MAX_SHARDS = 200
_MIN_IMAGES, _MAX_IMAGES = 16, 2000  # of a shard
_ROWS_AT_A_TIME = 64  # of a Parquet file
_MAX_SKIPPED_BYTES = 1 << 36
_MAX_HEADER_BYTES = 64 << 10  # names have up to 4096 bytes
_MAX_MEMBER_BYTES = 1 << 30  # of an archive, which may be compressed a thousandfold
# Schemes that a cell may name in addition to its file's own; others reach this machine.
_OBJECT_STORES = ("s3", "gs", "gcs")
# Usual names of the column of images, in the order of preference.
_COLUMNS = ("bytes", "image", "jpg", "jpeg", "png", "webp", "encoded", "content", "path", "file",
            "filename", "url")  # fmt: skip


@dataclass(frozen=True)
class EncodedImage:
    """The bytes of an image's file, or why they could not be read.

    Attributes:
        path: Its location; bytes that are not UTF-8 are escaped.
    """

    path: str
    data: bytes | memoryview | None
    error: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", escaped(self.path))


@dataclass(frozen=True)
class Shard:
    """A part of a data set, whose results are one file.

    Attributes:
        kind: ``files``, ``parquet`` or ``tar``.
        location: A location in the file system of the paths.
        paths: Image files, or the one file that holds the images.
        groups: Row groups of a Parquet file.
        column: The column of a Parquet file that holds the images' bytes or paths.
        count: The number of images; 0 if unknown.
    """

    kind: str
    location: str
    paths: tuple[str, ...]
    groups: tuple[int, ...] = ()
    column: str = ""
    count: int = 0

    @property
    def key(self) -> str:
        """Digits that identify the images of this shard, whatever other shards there are."""
        content = "\0".join((self.kind, *self.paths, *map(str, self.groups), self.column))
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def without(self, done: Collection[str]) -> Shard:
        """Return this shard without the image files whose locations are in `done`."""
        storage = Storage(self.location)
        paths = tuple(path for path in self.paths if storage.url(path) not in done)
        return replace(self, paths=paths, count=len(paths))


@dataclass
class Listing:
    """The images of a data set.

    Attributes:
        shards: All of them, in parts.
        skipped: The number of other files in folders, by suffix.
    """

    shards: list[Shard] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)


def list_images(locations: Sequence[str], *, column: str | None = None) -> Listing:
    """Return the images at locations, in shards.

    Args:
        locations: Paths or URLs of folders (with all below), glob patterns, image files, Parquet
            files and tar archives.
        column: The column of Parquet files with bytes or paths of images.

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
            if storage.url(path) in taken:
                continue
            taken.add(storage.url(path))
            suffix = _suffix(path)
            if suffix in IMAGE_SUFFIXES:
                files.append((location, path))
            elif suffix in _PARQUET_SUFFIXES:
                listing.shards += _parquet_shards(storage, path, column)
            else:
                listing.shards.append(Shard("tar", location, (path,)))
    size = min(max(_MIN_IMAGES, len(files) // _MAX_SHARDS), _MAX_IMAGES)
    for location, group in itertools.groupby(files, key=lambda each: each[0]):
        paths = [path for _, path in group]
        for start in range(0, len(paths), size):
            part = tuple(paths[start : start + size])
            listing.shards.append(Shard("files", location, part, count=len(part)))
    if not listing.shards:
        skipped = ", ".join(f"{number} {suffix}" for suffix, number in listing.skipped.items())
        raise InvalidArgumentError(
            f"there are no images in {', '.join(locations)}"
            f"{f' (only {skipped})' if skipped else ''}; image files are known by their suffixes, "
            "and so are .parquet and .tar files"
        )
    return listing


def read_shard(
    shard: Shard, *, max_bytes: int | None = None, allow_any_path: bool = False
) -> Iterator[EncodedImage]:
    """Yield the images of a shard in their order, some files read ahead.

    An image that cannot be read has an error.

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
    known = (*IMAGE_SUFFIXES, *_PARQUET_SUFFIXES, *_TAR_SUFFIXES)
    good = [each for each in files if _suffix(each) in known and not _is_hidden(each)]
    if files == [path] != good:
        raise InvalidArgumentError(
            f"{storage.location} is not an image, .parquet or .tar file, by its suffix"
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


def _is_hidden(path: str) -> bool:
    """Return whether a file is one of those that data sets are accompanied by."""
    return posixpath.basename(path).startswith((".", "_"))


def _suffix(path: str) -> str:
    name = posixpath.basename(path).lower()
    tar = next((suffix for suffix in _TAR_SUFFIXES if name.endswith(suffix)), None)
    return tar or posixpath.splitext(name)[1]


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
        while end < len(rows) and count + rows[end] <= _MAX_IMAGES:
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
            return EncodedImage(name, None, "it is not a file")  # a pipe would be waited for
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
    limit = _MAX_MEMBER_BYTES if max_bytes is None else max_bytes
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
