"""Archives of environments: whatever they hold, nothing is written outside of the folder."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import tempfile
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st
from mutations import damaged, fuzzed, only_own_errors

from endcap.environment.archive import unpack

PARTS = ("bin", "lib", "python3", "activate", "..", ".", "", "outside", "x", "a b")
NAMES = st.lists(st.sampled_from(PARTS), min_size=1, max_size=4).map("/".join)
KINDS = (
    tarfile.REGTYPE, tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.SYMTYPE,
    tarfile.LNKTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.CONTTYPE, b"Z",
)  # fmt: skip
MEMBERS = st.lists(
    st.tuples(NAMES, st.sampled_from(KINDS), NAMES, st.sampled_from((0o644, 0o7777, 0o0))),
    min_size=1,
    max_size=6,
)
FORMATS = st.sampled_from((tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT))


def tar(members: list[tuple[str, bytes, str, int]], form: int) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form) as archive:
        for name, kind, target, mode in members:
            member = tarfile.TarInfo(name)
            member.type, member.mode, member.linkname = kind, mode, target
            content = b"harm" if kind in (tarfile.REGTYPE, tarfile.CONTTYPE) else b""
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def check(archive: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        outside, target = root / "outside", root / "target"
        outside.write_text("mine")
        outside.chmod(0o600)
        target.mkdir()
        (root / "env.tar.gz").write_bytes(archive)
        with only_own_errors():
            unpack(root / "env.tar.gz", target)
        assert (outside.read_text(), outside.stat().st_mode & 0o7777) == ("mine", 0o600)
        assert outside.stat().st_nlink == 1
        assert {path.name for path in root.iterdir()} == {"outside", "target", "env.tar.gz"}
        for path in target.rglob("*"):
            if path.is_symlink():
                with_links_followed = os.path.realpath(path)
                assert with_links_followed.startswith(os.path.realpath(target))
            else:
                assert path.stat().st_mode & 0o7000 == 0


@fuzzed
@given(MEMBERS, FORMATS)
@example(
    [("lib", tarfile.SYMTYPE, "..", 0o777), ("lib/outside", tarfile.REGTYPE, "", 0o644)],
    tarfile.GNU_FORMAT,
)
@example(
    [("x", tarfile.LNKTYPE, "../outside", 0o777), ("x", tarfile.REGTYPE, "", 0o644)],
    tarfile.GNU_FORMAT,
)
def test_members_of_every_kind(members: list[tuple[str, bytes, str, int]], form: int) -> None:
    check(gzip.compress(tar(members, form), 1))


WHOLE = tar(
    [
        ("bin/activate", tarfile.REGTYPE, "", 0o644),
        ("bin/python3", tarfile.SYMTYPE, "python3.11", 0o777),
        ("lib/" + "n" * 150, tarfile.REGTYPE, "", 0o644),
        ("lib/copy", tarfile.LNKTYPE, "bin/activate", 0o644),
    ],
    tarfile.PAX_FORMAT,
)[:8192]


@fuzzed
@given(damaged(WHOLE, parts=(b"\x80", b"0000777", b"-1", b"\xff" * 8, b"size=", b"\x00" * 12)))
def test_damaged_headers(content: bytes) -> None:
    check(gzip.compress(content, 1))


@fuzzed
@given(st.sampled_from([gzip.compress(WHOLE)]).flatmap(damaged) | st.binary(max_size=100))
def test_damaged_compression(content: bytes) -> None:
    check(content)


FIELDS = st.dictionaries(
    st.sampled_from(("path", "linkpath", "size", "mtime", "uid", "mode", "GNU.sparse.map",
                     "GNU.sparse.size", "GNU.sparse.major", "GNU.sparse.minor", "hdrcharset",
                     "GNU.sparse.name", "GNU.sparse.numblocks", "charset")),
    st.sampled_from(("", "0", "1", "-1", "nan", "inf", "1e400", "9" * 5000, "../outside", "a\0b",
                     "BINARY", "/abs", "0,4")) | st.text(max_size=8),
    max_size=4,
)  # fmt: skip


@fuzzed
@given(FIELDS, st.sampled_from(KINDS))
def test_fields_of_pax_headers(fields: dict[str, str], kind: bytes) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        member = tarfile.TarInfo("bin/activate")
        member.type, member.pax_headers = kind, fields
        member.size = 4 if kind == tarfile.REGTYPE else 0
        archive.addfile(member, io.BytesIO(b"harm" if member.size else b""))
    check(gzip.compress(stream.getvalue(), 1))
