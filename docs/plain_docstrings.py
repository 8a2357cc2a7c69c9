"""Sphinx extension: argument lists in plain docstrings become fields.

The clients' and the server's docstrings name arguments in lines of their own,

    url: HOST:PORT, with grpc:// or http:// before it.
    timeout_s: for each request.

which reStructuredText would join into one paragraph. Lines that begin with the name of a parameter
(or of a dataclass's field) become `:param name:`; sections in Google's style are napoleon's.
Schemes such as grpc:// are set as code. Between a field's name and its meaning stands a dash, which
Sphinx writes as two hyphens.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

_NAMED = re.compile(r"^(?P<names>\w+(?:, \w+)*): (?P<meaning>.*)$")
# In a property's first line napoleon takes what stands before a colon for a type.
_SCHEME = re.compile(r"(?<![`\w])\w+://(?!\S*`)")


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the extension; before napoleon, which sees sections only."""
    app.connect("autodoc-process-docstring", _mark_arguments, priority=100)
    app.connect("doctree-resolved", _set_dashes)
    return {"parallel_read_safe": True}


def _mark_arguments(
    app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]
) -> None:
    known = _parameters(thing)
    marked: list[str] = []
    inside = False
    for line in lines:
        match = _NAMED.match(line)
        if match and set(match["names"].split(", ")) <= known:
            if not inside and marked and marked[-1]:
                marked.append("")
            for each in match["names"].split(", "):
                marked.append(f":param {each}: {match['meaning']}")
            inside = True
        elif inside and line.startswith("Raises "):  # the message behind the last argument
            marked += ["", line]
            inside = False
        else:
            inside = inside and line.startswith(" ")
            marked.append(line)
    lines[:] = [_SCHEME.sub(r"``\g<0>``", line) for line in marked]


def _set_dashes(app: Sphinx, document: nodes.document, name: str) -> None:
    for text in list(document.findall(nodes.Text)):
        if text == " -- ":
            text.parent.replace(text, nodes.Text(" \N{EN DASH} "))


def _parameters(thing: Any) -> set[str]:
    if dataclasses.is_dataclass(thing):
        return {field.name for field in dataclasses.fields(thing)}
    try:
        return set(inspect.signature(thing).parameters)
    except (TypeError, ValueError):  # a property, a constant
        return set()
