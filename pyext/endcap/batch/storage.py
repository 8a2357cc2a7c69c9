"""File systems by location: local paths, s3://, gs:// and what else pyarrow knows."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

from endcap._files import whole_file
from endcap.batch.errors import import_package
from endcap.errors import InvalidArgumentError

_MAX_BYTES_IN_MEMORY = 64 << 20
_BYTES_AT_A_TIME = 1 << 20


class Storage:
    """The file system of a location, and the path that the location is there.

    Credentials come from where the file systems look for them: the environment and configuration
    files. ``s3://bucket/photos?endpoint_override=HOST:PORT&scheme=http`` names another server.

    Args:
        location: A path or a URL.

    Raises:
        InvalidArgumentError: The kind of location is unknown, or it has a password.
    """

    def __init__(self, location: str) -> None:
        fs = import_package("pyarrow.fs")
        if location != escaped(location):
            raise InvalidArgumentError(f"the location {escaped(location)} is not UTF-8; rename it")
        self.location = location
        self.scheme = location.partition("://")[0] if "://" in location else ""
        if self.scheme and "@" in urlsplit(location).netloc:
            raise InvalidArgumentError(
                f"a {self.scheme}:// location holds a name or a password, which results and "
                "logs would show; give them by the environment, such as AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY, or by a configuration file"
            )
        try:
            if self.scheme:
                self.filesystem, self.path = fs.FileSystem.from_uri(location)
            else:
                self.filesystem = fs.LocalFileSystem()
                self.path = str(Path(location).absolute())
        except (ValueError, OSError) as error:
            raise InvalidArgumentError(f"{location} cannot be used: {error}") from error
        self.is_local = self.filesystem.type_name == "local"

    def url(self, path: str) -> str:
        """Return the location of a path of this file system, without options."""
        return path if self.is_local else f"{self.scheme}://{path}"

    def child(self, *names: str) -> str:
        """Return a path below the location's."""
        return "/".join([self.path.rstrip("/"), *names])

    def is_folder(self, path: str) -> bool:
        """Return whether a path is a folder.

        Raises:
            InvalidArgumentError: It does not exist.
            OSError: The file system cannot be reached.
        """
        fs = import_package("pyarrow.fs")
        kind = self.filesystem.get_file_info(path).type
        if kind == fs.FileType.NotFound:
            raise InvalidArgumentError(f"{self.url(path)} does not exist")
        return bool(kind == fs.FileType.Directory)

    def files(self, folder: str) -> list[str]:
        """Return the paths of all files below a folder, sorted; none if it does not exist.

        Links to files are followed, and links to folders are not: they may lead in a circle. A path
        that is not UTF-8, which pyarrow cannot open, is escaped, and reading it fails.
        """
        fs = import_package("pyarrow.fs")
        if not self.is_local:
            found = self.filesystem.get_file_info(
                fs.FileSelector(folder, allow_not_found=True, recursive=True)
            )
            return sorted(info.path for info in found if info.type == fs.FileType.File)
        walk = os.walk(folder, onerror=_raise) if os.path.lexists(folder) else ()
        paths = [os.path.join(below, name) for below, _, names in walk for name in names]
        return sorted(escaped(path) for path in paths if os.path.isfile(path))

    def make_folder(self, path: str) -> None:
        """Make a folder, and those above it, where there is none."""
        self.filesystem.create_dir(path, recursive=True)

    @contextlib.contextmanager
    def whole_file(self, path: str) -> Iterator[Any]:
        """Yield a stream whose bytes are in a file when the block ends without an exception.

        They are kept here until then: a process that is killed leaves nothing, and closing the
        upload to an object store, which finishes it, comes last.
        """
        with tempfile.SpooledTemporaryFile(_MAX_BYTES_IN_MEMORY) as kept:
            yield kept
            kept.seek(0)
            with self._open_whole(path) as stream:
                shutil.copyfileobj(kept, stream, _BYTES_AT_A_TIME)

    def _open_whole(self, path: str) -> Any:
        """Return a block with a stream whose bytes become a file in place of that before."""
        if self.is_local:
            return whole_file(Path(path), follow_links=False)
        return self.filesystem.open_output_stream(path)


def escaped(text: str) -> str:
    """Return a text as UTF-8 can hold it, with escapes for what it cannot."""
    return text.encode("utf-8", "backslashreplace").decode()


def _raise(error: OSError) -> NoReturn:
    raise error
