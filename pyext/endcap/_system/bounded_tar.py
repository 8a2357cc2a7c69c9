"""Members of tar archives from anybody, whose headers are bounded."""

from __future__ import annotations

import tarfile

# Of a header that holds a long name or further fields; names have up to 4096 bytes.
_MOST_BYTES = 64 << 10
_HEADERS = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)


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
