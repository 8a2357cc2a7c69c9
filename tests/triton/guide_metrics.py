"""Metrics of endcap's backends: those that docs/backends.md names, and those of a server."""

from __future__ import annotations

import re

from tests.support.doc_pages import ROOT
from tests.triton.running_server import RunningServer, get

_PAGE = ROOT / "docs" / "backends.md"


def names_in_the_guide() -> set[str]:
    """The counters of all backends."""
    return set(re.findall(r"`(endcap_\w+_total)`", _PAGE.read_text(encoding="utf-8")))


def names_of(server: RunningServer) -> set[str]:
    """The metrics of the backends that a server has loaded."""
    text = get(f"http://127.0.0.1:{server.ports.metrics}/metrics").decode()
    return set(re.findall(r"^# TYPE (endcap_\w+)", text, re.MULTILINE))


def with_prefix(names: set[str], prefix: str) -> set[str]:
    """Those of one backend."""
    return {name for name in names if name.startswith(prefix)}
