"""Damage to inputs that readers accept, and what a reader may do with it.

ENDCAP_FUZZ_EXAMPLES is the number of examples of each test; then they are other ones at each run.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from endcap.errors import EndcapError

_WANTED = os.environ.get("ENDCAP_FUZZ_EXAMPLES")
fuzzed = settings(
    deadline=None,
    derandomize=_WANTED is None,  # by default the same examples on every machine
    database=None,
    max_examples=int(_WANTED or 30),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@st.composite
def damaged(draw: st.DrawFn, whole: bytes, *, parts: Sequence[bytes] = ()) -> bytes:
    """Returns bytes in which some places are overwritten, cut out, repeated or put in.

    parts: what a format's grammar has, to be put in beside arbitrary bytes.
    """
    data = bytearray(whole)
    put_in = st.binary(min_size=1, max_size=8)
    if parts:
        put_in |= st.sampled_from(list(parts))
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(("overwrite", "cut", "repeat", "insert", "truncate")))
        start = draw(st.integers(0, len(data)))
        length = draw(st.integers(1, 64))
        if kind == "overwrite":
            new = draw(put_in)
            data[start : start + len(new)] = new
        elif kind == "cut":
            del data[start : start + length]
        elif kind == "repeat":
            data[start:start] = data[start : start + length] * draw(st.sampled_from((1, 2, 50)))
        elif kind == "insert":
            data[start:start] = draw(put_in)
        else:
            del data[start:]
    return bytes(data)


@contextlib.contextmanager
def only_own_errors() -> Iterator[None]:
    """Lets endcap's own errors pass that say something; any other fails the test."""
    try:
        yield
    except EndcapError as error:
        if len(str(error).split()) < 3:
            raise AssertionError(f"{error!r} has no message") from error
