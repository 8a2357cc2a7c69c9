"""Readers for tar archives from untrusted sources: bounded headers, and reads that end."""

from __future__ import annotations

import tarfile
from typing import Protocol

# Of a header that holds a long name or further fields; names have up to 4096 bytes.
_MOST_BYTES = 64 << 10
_HEADERS = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class EndingStream:
    """A stream for `tarfile.open(fileobj=, mode="r|")` that raises ReadError past its end.

    `tarfile` itself skips a member by as many reads as its size claims, 2^55 bytes included. The
    first read at the end returns nothing, which is how an archive ends.
    """

    def __init__(self, stream: _Readable) -> None:
        self._stream = stream
        self._has_ended = False

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes.

        Raises:
            tarfile.ReadError: An earlier call has reached the end.
        """
        if self._has_ended:
            raise tarfile.ReadError("a header claims more bytes than the archive has")
        data = self._stream.read(size)
        self._has_ended = not data
        return data


class BoundedHeader(tarfile.TarInfo):
    """A member for `tarfile.open(tarinfo=)`, which reads headers into memory as they claim.

    A header of more than 64 KiB, or of a size below 0, is a ReadError. Many headers of one member
    can still be a RecursionError.
    """

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if self.size < 0 or (self.type in _HEADERS and self.size > _MOST_BYTES):
            raise tarfile.ReadError(f"a header claims {self.size} bytes")
        member = super()._proc_member(archive)  # type: ignore[misc]
        if member.size < 0:
            raise tarfile.ReadError(f"a header claims {member.size} bytes")
        assert isinstance(member, tarfile.TarInfo)
        return member
