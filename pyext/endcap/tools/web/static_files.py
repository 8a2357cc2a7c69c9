"""The files of the page, read once from the installed package."""

from __future__ import annotations

import importlib.resources
from typing import NamedTuple

_CONTENT_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


class StaticFile(NamedTuple):
    """One file as the browser gets it."""

    content: bytes
    content_type: str


def read_static_files() -> dict[str, StaticFile]:
    """Return the files of the page by name; index.html is among them."""
    folder = importlib.resources.files("endcap.tools.web") / "static"
    files: dict[str, StaticFile] = {}
    for file in folder.iterdir():
        suffix = "." + file.name.rpartition(".")[2]
        if suffix in _CONTENT_TYPES:
            files[file.name] = StaticFile(file.read_bytes(), _CONTENT_TYPES[suffix])
    return files
