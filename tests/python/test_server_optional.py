"""Which models a server leaves out where DALI cannot be used."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from damage import SHIPPED
from echo_model import write_model

from endcap.server import locate_server, optional_models
from endcap.server.optional_models import LeftOut, leave_out, why_no_private_dali
from endcap.server.private_server import EXECUTABLE, private_server_folder
from endcap.server.repository import read_model_folder, read_repository

REASON = "DALI is not installed; install it"


def names_left(monkeypatch: pytest.MonkeyPatch, reason: str | None) -> tuple[set[str], object]:
    monkeypatch.setattr(optional_models, "why_no_dali", lambda server: reason)
    models = read_repository(SHIPPED)
    kept, left_out = leave_out(models, locate_server())
    return {m.path.name for m in models} - {m.path.name for m in kept}, left_out


def test_optional_models_and_their_callers_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    absent, left_out = names_left(monkeypatch, REASON)
    assert absent == {"preprocess_dali", "detect_dali"}
    assert str(left_out) == f"detect_dali, preprocess_dali are left out: {REASON}"
    assert str(LeftOut(("one",), REASON)) == f"one is left out: {REASON}"


def test_with_dali_all_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    assert names_left(monkeypatch, None) == (set(), None)


def test_dali_is_not_looked_for_without_an_optional_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(optional_models, "why_no_dali", lambda server: pytest.fail("it was"))
    models = read_repository(write_model(tmp_path, "plain", 'backend: "python"'))
    assert leave_out(models, locate_server()) == (models, None)


def test_endcaps_own_server_has_dali_where_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    own = replace(locate_server(), executable=private_server_folder() / EXECUTABLE)
    monkeypatch.delenv("ENDCAP_SERVER_PACKAGES", raising=False)
    assert "`export ENDCAP_SERVER_PACKAGES=nvidia-dali-cuda130`" in str(why_no_private_dali(own))
    monkeypatch.setenv("ENDCAP_SERVER_PACKAGES", "nvidia-dali-cuda130")
    assert why_no_private_dali(own) is None
    monkeypatch.delenv("ENDCAP_SERVER_PACKAGES")
    assert why_no_private_dali(locate_server()) is None  # in its Python there may be one


def test_a_custom_configuration_is_taken_where_there_is_one() -> None:
    models = {model.path.name: model for model in read_repository(SHIPPED, "dali")}
    assert models["preprocess_dali"].backend == "dali"
    assert not models["preprocess_dali"].is_optional
    assert models["detect_dali"].steps == ["preprocess_dali", "detector", "postprocess"]
    assert models["preprocess"].backend == "endcap_preprocess"


@pytest.mark.parametrize(
    ("text", "optional"),
    [
        ('parameters { key: "optional" value { string_value: "true" } }', True),
        ('parameters [ { key: "optional", value: { string_value: "true" } } ]', True),
        ('parameters { key: "optional" value { string_value: "false" } }', False),
        ('# parameters { key: "optional" value { string_value: "true" } }', False),
        ("", False),
    ],
)
def test_what_a_config_says(tmp_path: Path, text: str, optional: bool) -> None:
    write_model(tmp_path, "model", text)
    assert read_model_folder(tmp_path / "model").is_optional is optional
