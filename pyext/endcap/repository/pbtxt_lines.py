"""Where things stand in a text in protobuf's text format: every field with its line.

Protobuf reads the values and says what is wrong, but keeps no line of what was right. Its language:
https://protobuf.dev/reference/protobuf/textformat-spec
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_TOKEN = re.compile(
    r"""(?P<space>\s+|\#[^\n]*)
      | (?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
      | (?P<mark>[{}<>\[\]:,;])
      | (?P<word>[^\s\#"'{}<>\[\]:,;]+)""",
    re.DOTALL | re.VERBOSE,
)
_CLOSING = {"{": "}", "<": ">"}


@dataclass(frozen=True)
class Block:
    """A message: its fields in their order, and the line where it begins."""

    line: int
    fields: tuple[Field, ...]

    def nth(self, name: str, index: int) -> Block:
        """Returns the message in the field's element of that index, this block if there is none."""
        blocks = [f.value for f in self.fields if f.name == name and isinstance(f.value, Block)]
        return blocks[index] if index < len(blocks) else self

    def entry(self, name: str, key: str) -> Block:
        """Returns the entry of a map, the last that has the key, this block if there is none."""
        return self.entries(name).get(key, [self])[-1]

    def entries(self, name: str) -> dict[str, list[Block]]:
        """Returns the entries of a map by their keys; of several with one key the last counts."""
        found: dict[str, list[Block]] = {}
        for field in self.fields:
            if field.name == name and isinstance(field.value, Block):
                keys = [f.value for f in field.value.fields if f.name == "key"]
                key = keys[-1] if keys and isinstance(keys[-1], str) else ""
                found.setdefault(key, []).append(field.value)
        return found

    def line_of(self, *names: str) -> int:
        """Returns the line of the first field of the first name that is there, else the block's."""
        for name in names:
            for field in self.fields:
                if field.name == name:
                    return field.line
        return self.line


@dataclass(frozen=True)
class Field:
    """One value of a field: a message, a string's content, or any other scalar as it is written.

    line: that of the field's name; of the value where it is an element of a list.
    """

    name: str
    line: int
    value: Block | str


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    line: int


def read_lines(text: str) -> Block:
    """Returns the tree of a text that protobuf has accepted.

    A repeated field gives the same tree whether it is written as a list or one by one. Raises
    ValueError for a text whose brackets or strings do not close.
    """
    return _Reader(text).block(line=1, closing="")


class _Reader:
    def __init__(self, text: str) -> None:
        self._tokens = [*_tokens(text)]
        self._next = 0

    def block(self, *, line: int, closing: str) -> Block:
        fields: list[Field] = []
        while not self._skip(closing):
            name = self._take()
            self._skip(":")
            if self._skip("["):
                fields.extend(self._elements(name.text))
            else:
                fields.append(Field(name.text, name.line, self._value(name.line)))
            self._skip(",") or self._skip(";")
        return Block(line, tuple(fields))

    def _elements(self, name: str) -> Iterator[Field]:
        while not self._skip("]"):
            line = self._peek().line
            yield Field(name, line, self._value(line))
            self._skip(",")

    def _value(self, line: int) -> Block | str:
        token = self._take()
        if token.kind == "mark":
            if token.text not in _CLOSING:
                raise ValueError(f"line {token.line} has {token.text} in the place of a value")
            return self.block(line=line, closing=_CLOSING[token.text])
        if token.kind == "word":
            return token.text + (self._take().text if token.text == "-" else "")
        content = _unescaped(token.text[1:-1])
        while self._peek().kind == "string":  # neighbours are one
            content += _unescaped(self._take().text[1:-1])
        return content.decode("utf-8", "replace")

    def _skip(self, mark: str) -> bool:
        """Takes the mark, "" for the end of the text, if it is next; returns whether it was."""
        token = self._peek()
        is_next = token.kind in ("mark", "end") and token.text == mark
        self._next += is_next
        return is_next

    def _take(self) -> _Token:
        token = self._peek()
        if token.kind == "end":
            raise ValueError(f"the text ends in line {token.line}, within a field")
        self._next += 1
        return token

    def _peek(self) -> _Token:
        return self._tokens[min(self._next, len(self._tokens) - 1)]


def _tokens(text: str) -> Iterator[_Token]:
    position, line = 0, 1
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"line {line} has a string that does not end")
        kind = str(match.lastgroup)
        if kind != "space":
            yield _Token(kind, match.group(), line)
        line += match.group().count("\n")
        position = match.end()
    yield _Token("end", "", line)


def _unescaped(written: str) -> bytes:
    encoding: Any = importlib.import_module("google.protobuf.text_encoding")
    return bytes(encoding.CUnescape(written))
