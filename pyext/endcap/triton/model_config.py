"""config.pbtxt: Triton's message, and every field with its line.

Protobuf reads the values and says what is wrong, by the definition that tritonclient brings, but it
keeps neither the lines of what was right nor comments and layout. Its language:
https://protobuf.dev/reference/protobuf/textformat-spec
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from endcap._pip_commands import import_extra
from endcap.errors import InvalidArgumentError, ServerError

CONFIG_NAME = "config.pbtxt"

_TOKEN = re.compile(
    r"""(?P<space>\s+|\#[^\n]*)
      | (?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
      | (?P<mark>[{}<>\[\]:,;])
      | (?P<word>[^\s\#"'{}<>\[\]:,;]+)""",
    re.DOTALL | re.VERBOSE,
)
_CLOSING = {"{": "}", "<": ">"}
_PLACE = re.compile(r"^\d+:\d+ : ")  # how protobuf begins a message
_PARAMETER = '\nparameters {{\n  key: "{key}"\n  value {{ string_value: "{value}" }}\n}}\n'
_MAX_NESTED = 100  # as in protobuf
_MAX_MESSAGE = 300
_MAX_BYTES = 1 << 20  # tokens take a microsecond or more for each byte


class ModelConfigError(ServerError):
    """The text of a config.pbtxt does not fit Triton's definition.

    Attributes:
        line: Where, None where that is not known.
        reason: What does not fit, without the line.
    """

    def __init__(self, path: Path, message: str, line: int | None) -> None:
        message = message.strip().rstrip(".")
        if len(message) > _MAX_MESSAGE:  # protobuf quotes a token whole
            message = f"{message[:_MAX_MESSAGE]}..."
        super().__init__(f"{path} is not a model configuration that Triton knows: {message}")
        self.line = line
        self.reason = _PLACE.sub("", message)


def read_model_config(model: Path) -> Any:
    """Return the inference.ModelConfig message that a model folder's config.pbtxt holds.

    Raises:
        ServerError: There is none, or it cannot be read.
        ModelConfigError: It does not fit Triton's definition.
    """
    path = model / CONFIG_NAME
    try:
        return parse_config(read_config(path), path)
    except OSError as error:
        raise ServerError(f"{path} cannot be read: {error.strerror}") from error


def parse_config(text: str, path: Path) -> Any:
    """Return the inference.ModelConfig message of a text; `path` is for messages.

    Triton takes any bytes in comments and strings: a text that is not UTF-8 is read as Latin-1.

    Raises:
        ServerError: Triton's gRPC client is not installed.
        ModelConfigError: The text does not fit Triton's definition.
    """
    text_format, model_config = _protobuf_modules()
    try:
        text.encode()
    except UnicodeEncodeError:  # surrogates, see read_config
        text = text.encode("utf-8", "surrogateescape").decode("latin-1")
    try:
        return text_format.Parse(text, model_config.ModelConfig())
    except text_format.ParseError as error:
        raise ModelConfigError(path, str(error), error.GetLine()) from error
    except UnicodeError as error:  # of escapes in a string
        raise ModelConfigError(path, str(error), None) from error


def _protobuf_modules() -> tuple[Any, ModuleType]:
    """Return google.protobuf.text_format, and the module that has Triton's ModelConfig.

    Raises:
        ServerError: Triton's gRPC client is not installed.
    """
    what = "reading a model's configuration"
    config = import_extra("tritonclient.grpc.model_config_pb2", "client", what, ServerError)
    return importlib.import_module("google.protobuf.text_format"), config


@dataclass(frozen=True)
class Block:
    """A message: its fields in their order, and the line where it begins."""

    line: int
    fields: tuple[Field, ...]

    def values(self, name: str) -> list[str]:
        """Return the values of a field that is not a message."""
        return [f.value for f in self.fields if f.name == name and isinstance(f.value, str)]

    def value(self, name: str) -> str:
        """Return the value of a field that is not a message, the last one, "" without one."""
        return next(reversed(self.values(name)), "")

    def blocks(self, name: str) -> list[Block]:
        """Return the messages of a field."""
        return [f.value for f in self.fields if f.name == name and isinstance(f.value, Block)]

    def parameter(self, key: str) -> str | None:
        """Return the string of a model's parameter, None without one."""
        entries = self.entries("parameters").get(key)
        if entries is None:
            return None
        return next((b.value("string_value") for b in reversed(entries[-1].blocks("value"))), "")

    def entry(self, name: str, key: str) -> Block:
        """Return the entry of a map, the last that has the key, this block if there is none."""
        return self.entries(name).get(key, [self])[-1]

    def entries(self, name: str) -> dict[str, list[Block]]:
        """Return the entries of a map by their keys; of several with one key the last counts."""
        found: dict[str, list[Block]] = {}
        for entry in self.blocks(name):
            found.setdefault(entry.value("key"), []).append(entry)
        return found

    def find_line(self, *names: str) -> int:
        """Return the line of the first field of the first name that is there, else the block's."""
        for name in names:
            for field in self.fields:
                if field.name == name:
                    return field.line
        return self.line


@dataclass(frozen=True)
class Field:
    """One value of a field: a message, a string's content, or any other scalar as written.

    Attributes:
        name, value: Of the field.
        line: That of the field's name; of the value where it is an element of a list.
        span: Where the value begins and ends in the text.
    """

    name: str
    line: int
    value: Block | str
    span: tuple[int, int]


@dataclass(frozen=True)
class _Token:
    """A part of a text that is not space: its kind, which is a group of _TOKEN, and its place."""

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
    return Block(1, tuple(_Reader(text).fields()))


def read_leading_lines(text: str) -> Block:
    """Return the tree of any text: the fields before the first one that is not a whole field."""
    fields: list[Field] = []
    with contextlib.suppress(ValueError):
        fields.extend(_Reader(text).fields())
    return Block(1, tuple(fields))


def read_config(file: Path) -> str:
    """Return the text of a config.pbtxt; bytes that are not UTF-8 are surrogates in it.

    Raises:
        ModelConfigError: It has more than 1 MiB.
        OSError: It cannot be read, or is a pipe, a device or a folder.
    """
    if file.exists() and not file.is_file():  # opening a pipe would wait for a writer
        raise OSError(errno.EINVAL, "not a regular file", str(file))
    with file.open("rb") as stream:
        content = stream.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise ModelConfigError(file, f"the file has more than {_MAX_BYTES} bytes", None)
    return content.decode("utf-8", "surrogateescape")


def write_config(file: Path, text: str) -> None:
    """Replace a config.pbtxt, which keeps its mode, or the one that it is a link to."""
    from endcap._files import whole_file  # needs platformdirs, which Python models do without

    with whole_file(file, replace_read_only=True) as stream:
        stream.write(text.encode("utf-8", "surrogateescape"))


def set_parameter(text: str, key: str, value: str) -> str:
    """Return the text of a config.pbtxt in which a parameter has a value, a plain string.

    Where it has one already that one is replaced (of several entries the last, which is in force),
    else an entry stands at the end, in lines that end as the others. The rest is unchanged.

    Raises:
        InvalidArgumentError: The text's brackets or strings do not close, or the parameter has
            another value than a string.
    """
    try:
        entries = read_lines(text).entries("parameters").get(key)
    except ValueError as error:
        raise InvalidArgumentError(f"the config.pbtxt is broken: {error}; correct it") from error
    if entries is None:
        entry = _PARAMETER.format(key=key, value=value)
        if text and not text.endswith("\n"):
            entry = f"\n{entry}"
        return text + (entry.replace("\n", "\r\n") if "\r\n" in text else entry)
    values = [each for block in entries[-1].blocks("value")[-1:] for each in block.fields]
    spans = [each.span for each in values if each.name == "string_value"]
    if not spans:
        raise InvalidArgumentError(
            f"the parameter {key} has no string_value; take it out of the config.pbtxt"
        )
    begin, end = spans[-1]
    return f'{text[:begin]}"{value}"{text[end:]}'


class _Reader:
    def __init__(self, text: str) -> None:
        self._tokens = _tokenize(text)
        self._ahead: _Token | None = None
        self._depth = 0
        self._end = 0  # of the last token

    def fields(self, closing: str = "") -> Iterator[Field]:
        """Yield the fields up to a mark, "" for the end of the text."""
        while not self._skip(closing):
            name = self._take()
            self._skip(":")
            if self._skip("["):
                while not self._skip("]"):
                    yield self._field(name.text, self._peek().line)
                    self._skip(",")
            else:
                yield self._field(name.text, name.line)
            self._skip(",") or self._skip(";")

    def _field(self, name: str, line: int) -> Field:
        first = self._take()
        value: Block | str
        if first.kind == "mark":
            value = self._block(line, first)
        elif first.kind == "word":
            value = first.text + (self._take().text if first.text == "-" else "")
        else:
            strings = [first.text[1:-1]]
            while self._peek().kind == "string":
                strings.append(self._take().text[1:-1])
            value = _unescape(strings)
        return Field(name, line, value, (first.start, self._end))

    def _block(self, line: int, opening: _Token) -> Block:
        if opening.text not in _CLOSING or self._depth == _MAX_NESTED:
            raise ValueError(f"line {opening.line} has {opening.text} instead of a value")
        self._depth += 1
        block = Block(line, tuple(self.fields(_CLOSING[opening.text])))
        self._depth -= 1
        return block

    def _skip(self, mark: str) -> bool:
        """Take the mark, "" for the end of the text, if it is next; return whether it was."""
        token = self._peek()
        is_next = token.kind in ("mark", "end") and token.text == mark
        if is_next and token.kind == "mark":
            self._take()
        return is_next

    def _take(self) -> _Token:
        token = self._peek()
        if token.kind == "end":
            raise ValueError(f"the text ends in line {token.line}, within a field")
        self._ahead, self._end = None, token.end
        return token

    def _peek(self) -> _Token:
        if self._ahead is None:
            self._ahead = next(self._tokens)
        return self._ahead


def _tokenize(text: str) -> Iterator[_Token]:
    """Yield the tokens of a text, "end" last; raise ValueError for a string that does not end."""
    position, line = 0, 1
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"line {line} has a string that does not end")
        kind = str(match.lastgroup)
        if kind != "space":
            yield _Token(kind, match.group(), line, *match.span())
        line += match.group().count("\n")
        position = match.end()
    yield _Token("end", "", line, position, position)


def _unescape(written: list[str]) -> str:
    """Return what neighbouring strings say, which are one; a wrong escape as written."""
    if "\\" not in "".join(written):
        return "".join(written)
    _protobuf_modules()
    encoding: Any = importlib.import_module("google.protobuf.text_encoding")
    try:
        contents = [bytes(encoding.CUnescape(each)) for each in written]
        return b"".join(contents).decode("utf-8", "surrogateescape")
    except ValueError:
        return "".join(written)
