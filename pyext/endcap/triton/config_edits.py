"""config.pbtxt: one value set in place, and everything around it kept as it is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from endcap._files import whole_file
from endcap.errors import InvalidArgumentError
from endcap.triton.model_config import Token, content_of, tokens_of

_PARAMETER = '\nparameters {{\n  key: "{key}"\n  value {{ string_value: "{value}" }}\n}}\n'


def write_config(file: Path, text: str) -> None:
    """Replace a config.pbtxt, which keeps its mode, or the one that it is a link to."""
    with whole_file(file, replace_read_only=True) as stream:
        stream.write(text.encode("utf-8", "surrogateescape"))


def get_parameter(text: str, key: str) -> str | None:
    """Return the value of a parameter, None where it has none; a wrong escape as it is written.

    Raises InvalidArgumentError as `set_parameter`, ServerError as `protobuf_modules`.
    """
    written = _find(list(tokens_of(text)), key)
    return content_of(written) if written else None


def set_parameter(text: str, key: str, value: str) -> str:
    """Return the text of a config.pbtxt in which a parameter has a value, a plain string.

    Where it has one already that one is replaced, else an entry stands at the end, in lines that
    end as the others; done twice is done once. Raises InvalidArgumentError for a text whose
    brackets or strings do not close.
    """
    written = _find(list(tokens_of(text)), key)
    if written:
        return f'{text[: written[0].start]}"{value}"{text[written[-1].end :]}'
    entry = _PARAMETER.format(key=key, value=value)
    if text and not text.endswith("\n"):
        entry = f"\n{entry}"
    return text + (entry.replace("\n", "\r\n") if "\r\n" in text else entry)


@contextlib.contextmanager
def _closed_brackets() -> Iterator[None]:
    """Make an InvalidArgumentError of the IndexError of a text that ends within brackets."""
    try:
        yield
    except IndexError:
        raise InvalidArgumentError(
            "the brackets of the config.pbtxt do not close; close them"
        ) from None


def _fields(tokens: list[Token], begin: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield the fields of a message: indices of name, first token of the value, and its end."""
    index = begin
    while index < end:
        name, index = index, index + 1
        if tokens[name].kind != "word":
            raise IndexError("a bracket that nothing has opened")
        index += tokens[index].text == ":"
        first, depth = index, 0
        while True:
            if index >= end:
                raise IndexError("a field without the end of its value")
            token = tokens[index]
            depth += _step(token)
            index += 1
            is_sign = token.kind == "word" and token.text == "-"
            is_split = token.kind == "string" and index < end and tokens[index].kind == "string"
            if depth == 0 and not is_sign and not is_split:
                break
        yield name, first, index
        index += index < end and tokens[index].text in (",", ";")


def _messages(tokens: list[Token], first: int, end: int) -> list[tuple[int, int]]:
    """Return the ranges of tokens in a value that is a message, or a list of them."""
    is_list = tokens[first].text == "["
    found: list[tuple[int, int]] = []
    depth = 0
    for index in range(first + is_list, end - is_list):
        if depth == 0 and _step(tokens[index]) > 0:
            opened = index + 1
        depth += _step(tokens[index])
        if depth == 0 and _step(tokens[index]) < 0:
            found.append((opened, index))
    return found


def _step(token: Token) -> int:
    """Return 1 for an opening bracket, -1 for a closing one, else 0."""
    return 0 if token.kind != "mark" else (token.text in "{<[") - (token.text in "}>]")


def _find(tokens: list[Token], key: str) -> list[Token]:
    """Return the strings that are the value of a parameter, none where it is not there.

    Of several entries with the key the last one is in force.
    """
    with _closed_brackets():
        for entry in reversed(_messages_of(tokens, (0, len(tokens)), "parameters")):
            if content_of(_strings_of(tokens, entry, "key")) != key:
                continue
            values = _messages_of(tokens, entry, "value")
            written = _strings_of(tokens, values[-1], "string_value") if values else []
            if not written:
                raise InvalidArgumentError(
                    f"the parameter {key} has no string_value; take it out of the config.pbtxt"
                )
            return written
    return []


def _messages_of(tokens: list[Token], within: tuple[int, int], name: str) -> list[tuple[int, int]]:
    """Return the messages of a field of a message, by their ranges of tokens."""
    values = [each[1:] for each in _fields(tokens, *within) if tokens[each[0]].text == name]
    return [message for value in values for message in _messages(tokens, *value)]


def _strings_of(tokens: list[Token], within: tuple[int, int], name: str) -> list[Token]:
    """Return the neighbouring strings of a field of a message, of the last one with the name."""
    found: list[Token] = []
    for field, first, end in _fields(tokens, *within):
        if tokens[field].text == name:
            found = [token for token in tokens[first:end] if token.kind == "string"]
    return found
