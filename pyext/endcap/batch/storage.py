"""File systems by location: local paths, s3://, gs:// and what else pyarrow knows."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

from endcap._files import whole_file
from endcap._pip_commands import import_extra
from endcap.errors import EndcapError, InvalidArgumentError


class BatchError(EndcapError, RuntimeError):
    """A data set cannot be read, processed or written; the message says what to do.

    A bad image does not raise it: its row has a status and a message.
    """


def import_package(module: str) -> Any:
    """Return a module of the extra `ray`; BatchError where it is missing."""
    return import_extra(module, "ray", "a data set", BatchError)


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
        if location != escape(location):
            raise InvalidArgumentError(f"the location {escape(location)} is not UTF-8; rename it")
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
        return sorted(escape(path) for path in paths if os.path.isfile(path))

    def write(self, path: str, content: Any) -> None:
        """Write the bytes of a file, whole or not at all; closing an upload finishes it."""
        stream: Any
        if self.is_local:
            stream = whole_file(Path(path), follow_links=False)
        else:
            stream = self.filesystem.open_output_stream(path)
        with stream as file:
            file.write(content)


def escape(text: str) -> str:
    """Return a text as UTF-8 can hold it, with escapes for what it cannot."""
    return text.encode("utf-8", "backslashreplace").decode()


def _raise(error: OSError) -> NoReturn:
    raise error
