"""Parameters of config.pbtxt as arguments of DALI operators, which have types."""

from __future__ import annotations

import pytest

import endcap
from endcap.triton.stage_settings import dali_arguments


@pytest.mark.parametrize(
    ("name", "text", "argument"),
    [
        ("size", "640", [640, 640]),
        ("size", "96, 128", [96, 128]),
        ("preset", "torchvision", "torchvision"),
        ("fit", "stretch", "stretch"),
        ("upscale", "false", False),
        ("antialias", "true", True),
        ("pad_value", "114", 114),
        ("max_bytes", "4294967296", 2**32),
        ("scale", "0.1", 0.1),
        ("scale", "1", 1),
        ("mean", "0.1,0.2,0.3", [0.1, 0.2, 0.3]),
        ("dtype", "float32", "FLOAT"),
        ("dtype", "uint8", "UINT8"),
    ],
)
def test_texts_get_the_types_of_what_they_say(name: str, text: str, argument: object) -> None:
    (made,) = dali_arguments({name: text}).values()
    assert made == argument
    assert type(made) is type(argument)


def test_what_is_not_given_is_not_made() -> None:
    assert dali_arguments({}) == {}
    assert [*dali_arguments({"preset": "vgg", "size": "224"})] == ["preset", "size"]


def test_an_impossible_value_is_the_cores_error() -> None:
    with pytest.raises(endcap.InvalidArgumentError, match=r"^pad_value is "):
        dali_arguments({"pad_value": "300"})
