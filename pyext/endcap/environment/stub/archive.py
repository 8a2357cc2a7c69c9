"""Packed environments: whether the archive is whole, and the part of it that a stub looks at."""

from __future__ import annotations

import re
from pathlib import Path

from endcap.environment.errors import ExecutionEnvironmentError
from endcap.environment.stub.errors import StubError
from endcap.environment.unpacking import (
    DAMAGE,
    checked_members,
    extract_member,
    open_archive,
    opened_archive,
)

# Programs and libraries that a stub starts with, and the files that tell packages' versions.
_LOOKED_AT = re.compile(
    r"(\./)?(bin/(activate|python[0-9.]*)"
    r"|pyvenv\.cfg"
    r"|lib/lib(python|stdc\+\+|gcc_s)[^/]*"
    r"|lib/python3\.\d+/(os\.py|site-packages/("
    r"[^/]*\.pth|(numpy|endcap)/(__init__|version)\.py|(numpy|endcap)-[^/]*-info/[^/]*)))"
)


def unpack_looked_at(archive: Path, target: Path) -> None:
    """Read a gzip-compressed tar to its end, and unpack what a stub's checks look at.

    Raises:
        StubError: For an archive that Triton could not unpack, in its middle or at all, or that has
            members outside of its folder.
    """
    count = 0
    try:
        with open_archive(archive) as file, opened_archive(file) as content:
            for member in checked_members(archive, content):
                count += 1
                if _LOOKED_AT.fullmatch(member.name) and (member.isfile() or member.issym()):
                    extract_member(content, member, target)
    except ExecutionEnvironmentError as error:
        raise StubError(str(error)) from error
    except FileNotFoundError as error:
        raise StubError(
            f"{archive} is not there; pack the environment with `endcap env pack`, or correct "
            "EXECUTION_ENV_PATH in the model's config.pbtxt"
        ) from error
    except (EOFError, OSError, *DAMAGE) as error:
        read = f"broken off after {count} files" if count else "no gzip-compressed tar"
        raise StubError(
            f"{archive} is {read} ({error}), so that Triton cannot unpack it; copy it again, or "
            "pack the environment anew with `endcap env pack`"
        ) from error
