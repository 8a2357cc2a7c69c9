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
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from endcap._pip_commands import install_command
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
_CLOSING = {"{": "}", "<": ">"}
_PLACE = re.compile(r"^\d+:\d+ : ")  # how protobuf begins a message
_SURROGATE = re.compile("[\ud800-\udfff]")  # a byte that is not UTF-8, see read_config
_MOST_NESTED = 100  # as in protobuf
_LONGEST_MESSAGE = 300
_MAX_BYTES = 1 << 20  # tokens take a microsecond or more for each byte


class ModelConfigError(ServerError):
    """The text of a config.pbtxt does not fit Triton's definition.

    Attributes:
        line: Where, None where that is not known.
        reason: What does not fit, without the line.
    """

    def __init__(self, path: Path, message: str, line: int | None) -> None:
        message = message.strip().rstrip(".")
        if len(message) > _LONGEST_MESSAGE:  # protobuf quotes a token whole
            message = f"{message[:_LONGEST_MESSAGE]}..."
        super().__init__(f"{path} is no model configuration that Triton knows: {message}")
        self.line = line
        self.reason = _PLACE.sub("", message)


def read_model_config(model: Path, *, any_encoding: bool = False) -> Any:
    """Return the inference.ModelConfig message that a model folder's config.pbtxt holds.

    Args:
        model: The folder.
        any_encoding: Read strings that are not UTF-8 as Latin-1, by `as_unicode`.

    Raises:
        ServerError: There is none, or it cannot be read.
        ModelConfigError: It does not fit Triton's definition.
    """
    path = model / CONFIG_NAME
    try:
        text = read_config(path)
    except OSError as error:
        raise ServerError(f"{path} cannot be read: {error.strerror}") from error
    return parse_config(as_unicode(text) if any_encoding else text, path)


def parse_config(text: str, path: Path) -> Any:
    """Return the inference.ModelConfig message of a text; `path` is for messages.

    Raises:
        ServerError: Triton's gRPC client is not installed.
        ModelConfigError: The text does not fit Triton's definition, or is not UTF-8 outside of its
            comments.
    """
    text_format, model_config = protobuf_modules()
    if _SURROGATE.search(text):
        for token in _leading_tokens(text):
            if _SURROGATE.search(token.text):
                raise ModelConfigError(path, f"line {token.line} is not UTF-8", token.line)
    try:
        return text_format.Parse(text, model_config.ModelConfig())
    except text_format.ParseError as error:
        raise ModelConfigError(path, str(error), error.GetLine()) from error
    except UnicodeError as error:  # of escapes in a string
        raise ModelConfigError(path, str(error), None) from error


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

    def values(self, name: str) -> list[str]:
        """Return the values of a field that is no message."""
        return [f.value for f in self.fields if f.name == name and isinstance(f.value, str)]

    def value(self, name: str) -> str:
        """Return the value of a field that is no message, the last one, "" without one."""
        return next(reversed(self.values(name)), "")

    def blocks(self, name: str) -> list[Block]:
        """Return the messages of a field."""
        return [f.value for f in self.fields if f.name == name and isinstance(f.value, Block)]

    def nth(self, name: str, index: int) -> Block:
        """Return the message in the field's element of that index, this block if there is none."""
        blocks = self.blocks(name)
        return blocks[index] if index < len(blocks) else self

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
class Token:
    """A part of a text that is no space: its kind, which is a group of _TOKEN, and its place."""

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
    return Block(1, tuple(_Reader(tokens_of(text), text).fields()))


def read_leading_lines(text: str) -> Block:
    """Return the tree of any text: the fields before the first one that is no whole field."""
    fields: list[Field] = []
    with contextlib.suppress(ValueError):
        fields.extend(_Reader(_leading_tokens(text), text).fields())
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


def as_unicode(text: str) -> str:
    """Return a text as `read_config` gives it without surrogates: what is not UTF-8 is Latin-1.

    Triton takes any bytes in comments and strings.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogateescape").decode("latin-1")
    return text


class _Reader:
    def __init__(self, tokens: Iterable[Token], text: str) -> None:
        end = Token("end", "", text.count("\n") + 1, len(text), len(text))
        self._tokens = [*tokens, end]
        self._next = 0
        self._depth = 0

    def fields(self, closing: str = "") -> Iterator[Field]:
        """Yield the fields up to a mark, "" for the end of the text."""
        while not self._skip(closing):
            name = self._take()
            self._skip(":")
            if self._skip("["):
                yield from self._elements(name.text)
            else:
                yield Field(name.text, name.line, self._value(name.line))
            self._skip(",") or self._skip(";")

    def _elements(self, name: str) -> Iterator[Field]:
        while not self._skip("]"):
            line = self._peek().line
            yield Field(name, line, self._value(line))
            self._skip(",")

    def _value(self, line: int) -> Block | str:
        token = self._take()
        if token.kind == "mark":
            return self._block(line, token)
        if token.kind == "word":
            return token.text + (self._take().text if token.text == "-" else "")
        strings = [token]
        while self._peek().kind == "string":
            strings.append(self._take())
        return content_of(strings)

    def _block(self, line: int, opening: Token) -> Block:
        if opening.text not in _CLOSING or self._depth == _MOST_NESTED:
            raise ValueError(f"line {opening.line} has {opening.text} in the place of a value")
        self._depth += 1
        block = Block(line, tuple(self.fields(_CLOSING[opening.text])))
        self._depth -= 1
        return block

    def _skip(self, mark: str) -> bool:
        """Take the mark, "" for the end of the text, if it is next; return whether it was."""
        token = self._peek()
        is_next = token.kind in ("mark", "end") and token.text == mark
        self._next += is_next
        return is_next

    def _take(self) -> Token:
        token = self._peek()
        if token.kind == "end":
            raise ValueError(f"the text ends in line {token.line}, within a field")
        self._next += 1
        return token

    def _peek(self) -> Token:
        return self._tokens[min(self._next, len(self._tokens) - 1)]


def _leading_tokens(text: str) -> Iterator[Token]:
    with contextlib.suppress(InvalidArgumentError):
        yield from tokens_of(text)


def tokens_of(text: str) -> Iterator[Token]:
    """Yield the tokens of a text; raise InvalidArgumentError for a string that does not end."""
    position, line = 0, 1
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise InvalidArgumentError(
                f"line {line} of the config.pbtxt has a string that does not end; close it"
            )
        kind = str(match.lastgroup)
        if kind != "space":
            yield Token(kind, match.group(), line, *match.span())
        line += match.group().count("\n")
        position = match.end()


def _unescaped(written: str) -> bytes:
    encoding: Any = importlib.import_module("google.protobuf.text_encoding")
    return bytes(encoding.CUnescape(written))


def content_of(strings: list[Token]) -> str:
    """Return what neighbouring strings say, which are one; a wrong escape as it is written."""
    written = [each.text[1:-1] for each in strings]
    if "\\" not in "".join(written):
        return "".join(written)
    protobuf_modules()
    try:
        return b"".join(map(_unescaped, written)).decode("utf-8", "surrogateescape")
    except ValueError:
        return "".join(written)
