"""config.pbtxt: Triton's message, every field with its line, and one value set in place.

Protobuf reads the values and says what is wrong, by the definition that tritonclient brings, but it
keeps neither the lines of what was right nor comments and layout. Its language:
https://protobuf.dev/reference/protobuf/textformat-spec
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from endcap._system.pip_commands import install_command
from endcap._system.written_file import whole_file
from endcap.errors import InvalidArgumentError
from endcap.triton.errors import ServerError

CONFIG_NAME = "config.pbtxt"

_TOKEN = re.compile(
    r"""(?P<space>\s+|\#[^\n]*)
      | (?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
      | (?P<mark>[{}<>\[\]:,;])
      | (?P<word>[^\s\#"'{}<>\[\]:,;]+)""",
    re.DOTALL | re.VERBOSE,
)
_PARAMETER = '\nparameters {{\n  key: "{key}"\n  value {{ string_value: "{value}" }}\n}}\n'
_CLOSING = {"{": "}", "<": ">"}


def read_model_config(model: Path) -> Any:
    """Return the inference.ModelConfig message that a model folder's config.pbtxt holds.

    Raises:
        ServerError: There is none, or it does not fit Triton's definition.
    """
    text_format, model_config = protobuf_modules()
    path = model / CONFIG_NAME
    try:
        # Comments may be in any encoding; in a text, such an escape does not fit the definition.
        text = path.read_bytes().decode("utf-8", "surrogateescape")
        return text_format.Parse(text, model_config.ModelConfig())
    except OSError as error:
        raise ServerError(f"{path} cannot be read: {error.strerror}") from error
    except (UnicodeError, text_format.ParseError) as error:
        reason = str(error).strip().rstrip(".")
        raise ServerError(
            f"{path} is no model configuration that Triton knows: {reason}"
        ) from error


def protobuf_modules() -> tuple[Any, ModuleType]:
    """Return google.protobuf.text_format, and the module that has Triton's ModelConfig.

    Raises:
        ServerError: Triton's gRPC client is not installed.
    """
    try:
        return (
            importlib.import_module("google.protobuf.text_format"),
            importlib.import_module("tritonclient.grpc.model_config_pb2"),
        )
    except (ImportError, RuntimeError) as error:  # tritonclient wraps a missing part of it
        raise ServerError(
            f"reading a model's configuration takes Triton's gRPC client, which is not installed "
            f"({error}); run `{install_command('client')}`"
        ) from error


@dataclass(frozen=True)
class Block:
    """A message: its fields in their order, and the line where it begins."""

    line: int
    fields: tuple[Field, ...]

    def nth(self, name: str, index: int) -> Block:
        """Return the message in the field's element of that index, this block if there is none."""
        blocks = [f.value for f in self.fields if f.name == name and isinstance(f.value, Block)]
        return blocks[index] if index < len(blocks) else self

    def entry(self, name: str, key: str) -> Block:
        """Return the entry of a map, the last that has the key, this block if there is none."""
        return self.entries(name).get(key, [self])[-1]

    def entries(self, name: str) -> dict[str, list[Block]]:
        """Return the entries of a map by their keys; of several with one key the last counts."""
        found: dict[str, list[Block]] = {}
        for field in self.fields:
            if field.name == name and isinstance(field.value, Block):
                keys = [f.value for f in field.value.fields if f.name == "key"]
                key = keys[-1] if keys and isinstance(keys[-1], str) else ""
                found.setdefault(key, []).append(field.value)
        return found

    def line_of(self, *names: str) -> int:
        """Return the line of the first field of the first name that is there, else the block's."""
        for name in names:
            for field in self.fields:
                if field.name == name:
                    return field.line
        return self.line


@dataclass(frozen=True)
class Field:
    """One value of a field: a message, a string's content, or any other scalar as it is written.

    Attributes:
        line: That of the field's name; of the value where it is an element of a list.
    """

    name: str
    line: int
    value: Block | str


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    line: int
    start: int
    end: int


def read_lines(text: str) -> Block:
    """Return the tree of a text that protobuf has accepted.

    A repeated field gives the same tree whether it is written as a list or one by one. Raises
    ValueError for a text whose brackets or strings do not close.
    """
    return _Reader(text).block(line=1, closing="")


def read_config(file: Path) -> str:
    """Return the text of a config.pbtxt from which `write_config` makes the same bytes."""
    return file.read_bytes().decode("utf-8", "surrogateescape")


def write_config(file: Path, text: str) -> None:
    """Replace a config.pbtxt, which keeps its mode, or the one that it is a link to."""
    with whole_file(file, replace_read_only=True) as stream:
        stream.write(text.encode("utf-8", "surrogateescape"))


def get_parameter(text: str, key: str) -> str | None:
    """Return the value of a parameter, None where it has none; a wrong escape as it is written.

    Raises InvalidArgumentError as `set_parameter`, ServerError as `protobuf_modules`.
    """
    written = _find(list(_tokens(text)), key)
    return _content(written) if written else None


def set_parameter(text: str, key: str, value: str) -> str:
    """Return the text of a config.pbtxt in which a parameter has a value, a plain string.

    Where it has one already that one is replaced, else an entry stands at the end, in lines that
    end as the others; done twice is done once. Raises InvalidArgumentError for a text whose
    brackets or strings do not close.
    """
    written = _find(list(_tokens(text)), key)
    if written:
        return f'{text[: written[0].start]}"{value}"{text[written[-1].end :]}'
    entry = _PARAMETER.format(key=key, value=value)
    if text and not text.endswith("\n"):
        entry = f"\n{entry}"
    return text + (entry.replace("\n", "\r\n") if "\r\n" in text else entry)


def set_field(text: str, path: Sequence[str], value: str) -> str:
    """Return the text of a config.pbtxt in which a field has a value; all other text is kept.

    Args:
        text: The text.
        path: The field's name behind those of the messages that it lies in. A message that is not
            there is made; of one that is repeated the first is taken.
        value: As it is written: a number, or a list in brackets, which replaces every value of a
            repeated field.

    Raises:
        InvalidArgumentError: Brackets or strings do not close.
    """
    tokens = list(_tokens(text))
    try:
        begin, end = 0, len(tokens)
        for depth, name in enumerate(path):
            found = [each for each in _fields(tokens, begin, end) if tokens[each[0]].text == name]
            if not found:
                closing = tokens[end] if depth else None
                written = f"{path[-1]}: {value}"
                for message in reversed(path[depth:-1]):
                    written = f"{message} {{ {written} }}"
                return _insert(text, written, closing)
            if depth == len(path) - 1:
                return _replace(text, tokens, found, value)
            begin, end = _inside(tokens, *found[0][1:])
    except IndexError:
        raise InvalidArgumentError(
            "the brackets of the config.pbtxt do not close; close them"
        ) from None
    raise ValueError("the path of a field is empty")


def _fields(tokens: list[_Token], begin: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield the fields of a message: indices of name, first token of the value, and its end."""
    index = begin
    while index < end:
        name, index = index, index + 1
        index += tokens[index].text == ":"
        first, depth = index, 0
        while True:
            token = tokens[index]
            depth += (token.kind == "mark" and token.text in "{<[") - (
                token.kind == "mark" and token.text in "}>]"
            )
            index += 1
            is_sign = token.kind == "word" and token.text == "-"
            is_split = token.kind == "string" and index < end and tokens[index].kind == "string"
            if depth == 0 and not is_sign and not is_split:
                break
        yield name, first, index
        index += index < end and tokens[index].text in (",", ";")


def _inside(tokens: list[_Token], first: int, end: int) -> tuple[int, int]:
    """Return the range of tokens in a message, or in the first of a list of them."""
    if tokens[first].text != "[":
        return first + 1, end - 1
    opened, depth = first + 1, 0
    for index in range(opened, end):
        depth += (tokens[index].text in ("{", "<")) - (tokens[index].text in ("}", ">"))
        if depth == 0:
            return opened + 1, index
    raise IndexError


def _replace(text: str, tokens: list[_Token], found: list[tuple[int, int, int]], value: str) -> str:
    for name, _, end in reversed(found[1:]):
        has_separator = end < len(tokens) and tokens[end].text in (",", ";")
        last = tokens[end if has_separator else end - 1]
        text = text[: tokens[name].start] + text[last.end :]
    _, first, end = found[0]
    return text[: tokens[first].start] + value + text[tokens[end - 1].end :]


def _insert(text: str, field: str, closing: _Token | None) -> str:
    """Put a field before the end of a message, in a line of its own where the message has lines."""
    newline = "\r\n" if "\r\n" in text else "\n"
    if closing is None:
        before = "" if not text or text.endswith("\n") else newline
        return f"{text}{before}{newline}{field}{newline}"
    line = text.rfind("\n", 0, closing.start) + 1
    indent = text[line : closing.start]
    if line and not indent.strip():
        return f"{text[:line]}{indent}  {field}{newline}{text[line:]}"
    return f"{text[: closing.start].rstrip()} {field} {text[closing.start :]}"


def _find(tokens: list[_Token], key: str) -> list[_Token]:
    """Return the strings that are the value of a parameter, none where it is not there."""
    for entry in _entries(tokens):
        strings = _strings_of(entry)
        if _content(strings.get("key", [])) == key:
            if not strings.get("string_value"):
                raise InvalidArgumentError(
                    f"the parameter {key} has no string_value; take it out of the config.pbtxt"
                )
            return strings["string_value"]
    return []


class _Reader:
    def __init__(self, text: str) -> None:
        end = _Token("end", "", text.count("\n") + 1, len(text), len(text))
        self._tokens = [*_tokens(text), end]
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
        """Take the mark, "" for the end of the text, if it is next; return whether it was."""
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
            raise InvalidArgumentError(
                f"line {line} of the config.pbtxt has a string that does not end; close it"
            )
        kind = str(match.lastgroup)
        if kind != "space":
            yield _Token(kind, match.group(), line, *match.span())
        line += match.group().count("\n")
        position = match.end()


def _unescaped(written: str) -> bytes:
    encoding: Any = importlib.import_module("google.protobuf.text_encoding")
    return bytes(encoding.CUnescape(written))


def _content(strings: list[_Token]) -> str:
    """Return what neighbouring strings say, which are one; a wrong escape as it is written."""
    written = [each.text[1:-1] for each in strings]
    if "\\" not in "".join(written):
        return "".join(written)
    protobuf_modules()
    try:
        return b"".join(map(_unescaped, written)).decode("utf-8", "surrogateescape")
    except ValueError:
        return "".join(written)


def _entries(tokens: list[_Token]) -> Iterator[list[_Token]]:
    """Yield the tokens of each entry of `parameters`, first the last one, which is in force.

    An entry is a message behind the field's name, or one in a list there.
    """
    found: list[list[_Token]] = []
    depth, field, begin = 0, "", 0
    for index, token in enumerate(tokens):
        if token.kind == "mark" and token.text in "{<[":
            depth += 1
            if token.text != "[" and field == "parameters" and not begin:
                begin, outside = index, depth
        elif token.kind == "mark" and token.text in "}>]":
            if begin and depth == outside:
                found.append(tokens[begin : index + 1])
                begin = 0
            depth -= 1
        elif token.kind == "word" and depth == 0:
            field = token.text
        if depth < 0:
            break
    if depth != 0:
        raise InvalidArgumentError("the brackets of the config.pbtxt do not close; close them")
    yield from reversed(found)


def _strings_of(entry: list[_Token]) -> dict[str, list[_Token]]:
    """Return the strings of each field in an entry; neighbours are one value."""
    found: dict[str, list[_Token]] = {}
    field = ""
    for token in entry:
        if token.kind == "word":
            field = token.text
            found[field] = []
        elif token.kind == "string" and field:
            found[field].append(token)
    return found
