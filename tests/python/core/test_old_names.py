"""Modules that were moved: their old names work for this release, and say so."""

from __future__ import annotations

import importlib
import sys

import pytest

MOVED = {
    ("endcap.python_backend.settings", "Settings"): "endcap.triton.stage_settings",
    ("endcap.python_backend.settings", "preprocess_settings"): "endcap.triton.stage_settings",
    ("endcap.python_backend.tensor_settling", "settle"): "endcap.triton.tensor_completion",
    ("endcap.python_backend.cascade_settings", "read_cascade_settings"): (
        "endcap.triton.cascade_settings"
    ),
    ("endcap.draw", "draw_result"): "endcap.drawing",
    ("endcap.stub", "install"): "endcap.environment.stub",
    ("endcap.web", "run"): "endcap.tools.web",
}


@pytest.mark.parametrize(("old", "name"), MOVED)
def test_an_old_name_is_the_new_one_and_warns(old: str, name: str) -> None:
    sys.modules.pop(old, None)
    new = MOVED[old, name]
    with pytest.warns(DeprecationWarning, match=f"{old} is now {new}: import it from there"):
        module = importlib.import_module(old)
    assert getattr(module, name).__module__.startswith(new)


def test_an_answer_is_a_response() -> None:
    client = importlib.import_module("endcap.client")
    with pytest.warns(DeprecationWarning, match=r"endcap\.client\.Answer is now .*Response"):
        assert client.Answer is client.Response
    with pytest.raises(AttributeError, match="no attribute 'Answers'"):
        client.Answers  # noqa: B018
