"""Unpacks archives of environments, which may come from anybody, into a folder and nowhere else.

Python's filter `data` (PEP 706) is the second line: Debian 12's Python has none, and before 3.13.4,
3.12.11, 3.11.13 and 3.10.18 it lets links leave the folder.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import re
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from endcap._system.bounded_tar import BoundedHeader, EndingStream
from endcap.environment.errors import ExecutionEnvironmentError, StubError

_GZIP = b"\x1f\x8b"  # RFC 1952
_CHUNK_BYTES = 1 << 20
_AGAIN = "copy it again, or make it again by `endcap env pack`"
_NOT_OURS = "make it by `endcap env pack` or conda-pack"
# Environments with CUDA and several frameworks have about 20 GB and 200,000 files.
_MOST_BYTES = 64 << 30
_MOST_MEMBERS = 1_000_000
_MOST_LINKS_FOLLOWED = 40  # as Linux
# In bytes. With the folder's own name in front, a path may have 4096.
_LONGEST_PART = 255
_LONGEST_NAME = 3072
_MOST_PARTS = 128  # of a name; deeper trees exhaust the stack of recursive programs
_SHOWN = 60  # characters of a name that is too long
# What `gzip` and `tarfile` raise for damaged archives, beside EOFError and OSError.
_DAMAGE = (
    tarfile.TarError,
    zlib.error,
    gzip.BadGzipFile,
    ValueError,
    OverflowError,
    RecursionError,
)
# Programs and libraries that a stub loads, and the files with the versions of packages.
_READ_BY_STUB = re.compile(
    r"(\./)?(bin/(activate|python[0-9.]*)"
    r"|pyvenv\.cfg"
    r"|lib/lib(python|stdc\+\+|gcc_s)[^/]*"
    r"|lib/python3\.\d+/(os\.py|site-packages/("
    r"[^/]*\.pth|(numpy|endcap)/(__init__|version)\.py|(numpy|endcap)-[^/]*-info/[^/]*)))"
)


def unpack(archive: Path, folder: Path) -> None:
    """Extract a tar.gz into `folder`, which is empty, and verify its checksum.

    The whole archive is checked before anything is written. Set-user-ID bits and owners are not
    restored.

    Raises:
        ExecutionEnvironmentError: The archive is truncated, damaged, no tar.gz, too large, or has
            members that would leave the folder.
        OSError: The archive cannot be read, or the folder cannot be written.
    """
    with _open_file(archive) as file:
        if file.read(len(_GZIP)) != _GZIP:
            raise ExecutionEnvironmentError(
                f"{archive} is no tar.gz, the only archive that Triton unpacks; "
                "pack it by `endcap env pack`, or by `conda-pack --format tar.gz`"
            )
        try:
            size = 0
            with _open_tar(file) as content:
                for member in _checked_members(archive, content):
                    size += member.size
                    _check_space(archive, folder, size)
            with _open_tar(file) as content:
                for member in _checked_members(archive, content):
                    _extract(content, member, folder)
        except EOFError as error:
            raise ExecutionEnvironmentError(
                f"{archive} is broken off after {archive.stat().st_size} bytes; {_AGAIN}"
            ) from error
        except _DAMAGE as error:
            raise ExecutionEnvironmentError(f"{archive} is damaged ({error}); {_AGAIN}") from error


def _open_file(archive: Path) -> IO[bytes]:
    if archive.exists() and not archive.is_file() and not archive.is_dir():
        raise ExecutionEnvironmentError(
            f"{archive} is a pipe or a device, which may never end; give a file"
        )
    return archive.open("rb")


@contextlib.contextmanager
def _open_tar(file: IO[bytes]) -> Iterator[tarfile.TarFile]:
    """Yield the content of a tar.gz from its beginning; its checksum is verified at the end."""
    file.seek(0)
    with (
        gzip.open(file) as stream,
        tarfile.open(
            fileobj=EndingStream(stream),  # type: ignore[call-overload]
            mode="r|",
            tarinfo=_Header,
        ) as content,
    ):
        yield content
        count = 0
        while chunk := stream.read(_CHUNK_BYTES):
            count += len(chunk)
            if count > _MOST_BYTES:
                raise tarfile.ReadError("no end after the last file")


def _checked_members(archive: Path, content: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Yield the members, each checked against those before it; at the end links are followed.

    A member can be extracted into a folder that holds nothing but earlier members.

    Raises:
        ExecutionEnvironmentError: A member would leave that folder, is neither file, folder nor
            link, or exceeds the limits.
    """
    tree = _Tree()
    size = 0
    for count, member in enumerate(content, 1):
        content.members.clear()  # type: ignore[attr-defined]  # each is needed once only
        size += member.size
        if count > _MOST_MEMBERS or size > _MOST_BYTES:
            raise ExecutionEnvironmentError(
                f"{archive} has more than {_MOST_MEMBERS} files or {_MOST_BYTES >> 30} GiB, which "
                f"no environment has; {_NOT_OURS}"
            )
        flaw = tree.add(member)
        if flaw is not None:
            raise ExecutionEnvironmentError(f"{archive} has {flaw}; {_NOT_OURS}")
        yield member
    flaw = tree.find_escaping_link()
    if flaw is not None:
        raise ExecutionEnvironmentError(f"{archive} has {flaw}; {_NOT_OURS}")


def _extract(content: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    """Extract a member that `_checked_members` has just yielded."""
    if hasattr(tarfile, "data_filter"):
        content.extract(member, folder, filter="data")
        return
    # The same as the filter does: no owner and no set-user-ID bit.
    member.uid, member.gid = os.geteuid(), os.getegid()
    member.uname = member.gname = ""
    if member.isdir():
        member.mode = 0o755
    elif member.isfile():
        executable = 0o755 if member.mode & 0o100 else 0o644
        member.mode = (member.mode & executable) | 0o600
    content.extract(member, folder)


class _Header(BoundedHeader):
    """A member of which sparse files and headers for all files are refused, too."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type in (tarfile.GNUTYPE_SPARSE, tarfile.XGLTYPE):
            self._refuse()
        return super()._proc_member(archive)

    def _refuse(self, *arguments: object) -> None:
        raise tarfile.ReadError("it has sparse files or headers for several files")

    _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10 = _refuse


class _Tree:
    """The names of an archive's members and their kinds."""

    def __init__(self) -> None:
        self._kinds = {"": "folder"}
        self._links: dict[str, str] = {}

    def add(self, member: tarfile.TarInfo) -> str | None:
        """Add a member, and remove "." and "//" from its name.

        Returns:
            The reason why it must not be extracted, None where it may be.
        """
        parts = _parts(member.name)
        if parts is None:
            return f"the member {member.name!r}, which is outside of its folder"
        name = "/".join(parts)
        if max(map(_encoded_size, parts), default=0) > _LONGEST_PART or (
            _encoded_size(name) > _LONGEST_NAME
        ):
            return f"the member {name[:_SHOWN]!r}..., whose name is longer than file systems take"
        if len(parts) > _MOST_PARTS:
            return f"the member {name[:_SHOWN]!r}..., which lies in more than {_MOST_PARTS} folders"
        kind = _kind(member)
        if kind is None:
            return f"the member {member.name!r}, which is a device or a pipe"
        for depth in range(len(parts)):
            above = "/".join(parts[:depth])
            if self._kinds.setdefault(above, "folder") != "folder":
                return f"the member {member.name!r}, and {above!r} before it, which is no folder"
        if self._kinds.get(name, kind) != kind or name in self._links:
            return f"the member {member.name!r} twice, as different things"
        self._kinds[name] = kind
        flaw = self._link(name, member) if kind == "link" or member.islnk() else None
        member.name = name or "."
        return flaw

    def _link(self, name: str, member: tarfile.TarInfo) -> str | None:
        target = member.linkname
        shown = f"the link {member.name!r} to {target!r}"
        if member.islnk():
            parts = _parts(target)
            if parts is None or self._kinds.get("/".join(parts)) != "file":
                return f"{shown}, which is no file of the archive before it"
            member.linkname = "/".join(parts)
            return None
        if not target or _encoded_size(target) > _LONGEST_NAME:
            return f"the link {member.name!r} to nothing or to {target[:_SHOWN]!r}..."
        self._links[name] = target
        if target.startswith("/") or "\0" in target or self._leaves(name, {}):
            return f"{shown}, which is outside of its folder"
        return None

    def find_escaping_link(self) -> str | None:
        """Return the first link that leaves the folder through others, None without one.

        A link that leads back to itself is one, too: Python's `realpath` has it lead anywhere.
        """
        for name, target in self._links.items():
            if self._leaves(name, self._links):
                return f"the link {name!r} to {target!r}, which is outside of its folder or endless"
        return None

    def _leaves(self, name: str, links: dict[str, str]) -> bool:
        """Whether a link leaves the folder or has no end; `links` are those to follow."""
        place = name.split("/")[:-1]
        waiting = self._links[name].split("/")[::-1]
        followed = 0
        while waiting:
            part = waiting.pop()
            if part in ("", "."):
                continue
            if part == "..":
                if not place:
                    return True
                place.pop()
                continue
            target = links.get("/".join([*place, part]))
            if target is None:
                place.append(part)
                continue
            followed += 1
            if followed > _MOST_LINKS_FOLLOWED:
                return True
            waiting += target.split("/")[::-1]
        return False


def _parts(name: str) -> list[str] | None:
    """Return the parts of a member's path; None for one that leaves the archive's folder."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    return None if name.startswith("/") or ".." in parts or "\0" in name else parts


def _encoded_size(name: str) -> int:
    return len(name.encode("utf-8", "surrogateescape"))


def _kind(member: tarfile.TarInfo) -> str | None:
    if member.isdir():
        return "folder"
    if member.isfile() or member.islnk():
        return "file"
    return "link" if member.issym() else None


def _check_space(archive: Path, folder: Path, size: int) -> None:
    free = shutil.disk_usage(folder).free
    if size > free:
        raise ExecutionEnvironmentError(
            f"{archive} takes more than {size} bytes when it is unpacked, and {folder} has {free} "
            "free; set TMPDIR to a folder on a larger disk"
        )


def unpack_for_stub(archive: Path, target: Path) -> None:
    """Read a tar.gz to its end, and extract the files that the checks of a stub read.

    Raises:
        StubError: Triton could not unpack the archive, or it has members outside of its folder.
    """
    count = 0
    try:
        with _open_file(archive) as file, _open_tar(file) as content:
            for member in _checked_members(archive, content):
                count += 1
                if _READ_BY_STUB.fullmatch(member.name) and (member.isfile() or member.issym()):
                    _extract(content, member, target)
    except ExecutionEnvironmentError as error:
        raise StubError(str(error)) from error
    except FileNotFoundError as error:
        raise StubError(
            f"{archive} does not exist; pack the environment with `endcap env pack`, or correct "
            "EXECUTION_ENV_PATH in the model's config.pbtxt"
        ) from error
    except (EOFError, OSError, *_DAMAGE) as error:
        read = f"broken off after {count} files" if count else "no gzip-compressed tar"
        raise StubError(
            f"{archive} is {read} ({error}), so that Triton cannot unpack it; copy it again, or "
            "pack the environment anew with `endcap env pack`"
        ) from error
