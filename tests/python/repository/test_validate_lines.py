"""Where the fields of a text in protobuf's text format stand."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import model_config_pb2

from endcap.triton.model_config import Block, read_lines

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
MAPS = st.dictionaries(TEXTS, TEXTS, max_size=3)
DIMS = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3)
FORMS = st.fixed_dictionaries(
    {
        "as_one_line": st.booleans(),
        "as_utf8": st.booleans(),
        "pointy_brackets": st.booleans(),
        "use_short_repeated_primitives": st.booleans(),
    }
)


@st.composite
def configs(draw: st.DrawFn) -> Any:
    config = model_config_pb2.ModelConfig(name=draw(TEXTS), max_batch_size=draw(st.integers(0, 9)))
    for name, dims in draw(st.lists(st.tuples(TEXTS, DIMS), max_size=3)):
        config.input.add(name=name, dims=dims, data_type=draw(st.integers(0, 14)))
    for key, value in draw(MAPS).items():
        config.parameters[key].string_value = value
    for maps in draw(st.lists(MAPS, max_size=2)):
        config.ensemble_scheduling.step.add(model_name=draw(TEXTS), input_map=maps)
    return config


def as_text(block: Block, message: Any) -> str:
    """The tree in the plainest form: one field after another, strings in escapes."""
    parts = []
    for field in block.fields:
        known = message.DESCRIPTOR.fields_by_name[field.name]
        if isinstance(field.value, Block):
            inner = known.message_type._concrete_class()
            parts.append(f"{field.name} {{ {as_text(field.value, inner)} }}")
        elif known.type == known.TYPE_STRING:
            octets = "".join(f"\\{octet:03o}" for octet in field.value.encode())
            parts.append(f'{field.name}: "{octets}"')
        else:
            parts.append(f"{field.name}: {field.value}")
    return " ".join(parts)


@given(configs(), FORMS)
def test_the_tree_is_what_protobuf_reads(config: Any, form: dict[str, bool]) -> None:
    text = text_format.MessageToString(config, **form)
    again = text_format.Parse(as_text(read_lines(text), config), model_config_pb2.ModelConfig())
    assert again == config


def starts(block: Block) -> list[tuple[int, str]]:
    fields = []
    for field in block.fields:
        fields.append((field.line, field.name))
        if isinstance(field.value, Block):
            assert field.value.line == field.line
            fields += starts(field.value)
    return fields


@given(configs())
def test_every_field_stands_in_its_line(config: Any) -> None:
    text = text_format.MessageToString(config)
    lines = text.split("\n")
    fields = starts(read_lines(text))
    assert [lines[line - 1].split()[0].rstrip(":") for line, _ in fields] == [n for _, n in fields]
    assert len(fields) == sum(1 for line in lines if line.strip() not in ("", "}"))


LISTED = """\
# two tensors { [ "
input [
  { name: "a" 'b' dims: [ 1, - 2 ] }, # "}"
  <
    name: "\\303\\251\\"";
    dims: [3],
  >
]
"""
ONE_BY_ONE = """\
input: { name: "ab" dims: 1 dims: -2 }
input { name: "é\\x22" dims: 3 }
"""


def values(block: Block) -> list[Any]:
    return [
        (field.name, values(field.value) if isinstance(field.value, Block) else field.value)
        for field in block.fields
    ]


def test_a_list_is_its_elements_one_by_one() -> None:
    assert values(read_lines(LISTED)) == values(read_lines(ONE_BY_ONE))
    assert starts(read_lines(LISTED)) == [
        (3, "input"), (3, "name"), (3, "dims"), (3, "dims"), (4, "input"), (5, "name"), (6, "dims"),
    ]  # fmt: skip


def test_what_is_not_there_has_the_line_of_what_is_around_it() -> None:
    tree = read_lines('\n\nparameters {\n key: "a"\n value {\n }\n}\n')
    (value,) = tree.entry("parameters", "a").blocks("value")
    assert value.find_line("string_value") == 5
    assert tree.entry("parameters", "b").line == 1
    assert tree.find_line("name", "parameters") == 3


@pytest.mark.parametrize("text", ["input {", "input [ {", 'name: "a', "name:", "input }", "a: ]"])
def test_a_text_that_does_not_close(text: str) -> None:
    with pytest.raises(text_format.ParseError):
        text_format.Parse(text, model_config_pb2.ModelConfig())
    with pytest.raises(ValueError, match="line 1"):
        read_lines(text)
