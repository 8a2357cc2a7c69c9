"""Sets one parameter in the text of a config.pbtxt and leaves every other byte as it is.

The language: https://protobuf.dev/reference/protobuf/textformat-spec
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from endcap.environment.replaced_file import replaced_file
from endcap.errors import InvalidArgumentError

_TOKEN = re.compile(
    r"""(?P<space>\s+|\#[^\n]*)
      | (?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
      | (?P<mark>[{}<>\[\]:,;])
      | (?P<word>[^\s\#"'{}<>\[\]:,;]+)""",
    re.VERBOSE,
)
_PARAMETER = '\nparameters {{\n  key: "{key}"\n  value {{ string_value: "{value}" }}\n}}\n'


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int


def read_config(file: Path) -> str:
    """Returns the text of a config.pbtxt from which `write_config` makes the same bytes."""
    return file.read_bytes().decode("utf-8", "surrogateescape")


def write_config(file: Path, text: str) -> None:
    """Replaces a config.pbtxt, which keeps its mode, or the one that it is a link to."""
    file = file.resolve()
    with replaced_file(file) as edited:
        edited.write_bytes(text.encode("utf-8", "surrogateescape"))
        shutil.copymode(file, edited)


def get_parameter(text: str, key: str) -> str | None:
    """Returns the value of a parameter as it is written, None where it has none.

    Raises InvalidArgumentError as `set_parameter`.
    """
    written = _find(list(_tokens(text)), key)
    return "".join(each.text[1:-1] for each in written) if written else None


def set_parameter(text: str, key: str, value: str) -> str:
    """Returns the text of a config.pbtxt in which a parameter has a value, a plain string.

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


def _find(tokens: list[_Token], key: str) -> list[_Token]:
    """Returns the strings that are the value of a parameter, none where it is not there."""
    for entry in _entries(tokens):
        strings = _strings_of(entry)
        if "".join(each.text[1:-1] for each in strings.get("key", [])) == key:
            if not strings.get("string_value"):
                raise InvalidArgumentError(
                    f"the parameter {key} has no string_value; take it out of the config.pbtxt"
                )
            return strings["string_value"]
    return []


def _tokens(text: str) -> Iterator[_Token]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            line = text.count("\n", 0, position) + 1
            raise InvalidArgumentError(
                f"line {line} of the config.pbtxt has a string that does not end; close it"
            )
        if match.lastgroup != "space":
            yield _Token(str(match.lastgroup), match.group(), match.start(), match.end())
        position = match.end()


def _entries(tokens: list[_Token]) -> Iterator[list[_Token]]:
    """Yields the tokens of each entry of `parameters`, first the last one, which is in force.

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
    """The strings behind each field's name in an entry; neighbours are one value."""
    found: dict[str, list[_Token]] = {}
    field = ""
    for token in entry:
        if token.kind == "word":
            field = token.text
            found[field] = []
        elif token.kind == "string" and field:
            found[field].append(token)
    return found
