"""A repository with other parameters: what is edited, what is linked, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from endcap.server import ServerError
from endcap.server.models import repository_with
from endcap.triton.model_config import read_model_config

POST = """
backend: "endcap_postprocess" # a comment
max_batch_size: 16
dynamic_batching { max_queue_delay_microseconds: 500 }
parameters { key: "head" value { string_value: "yolov8" } }
parameters: { key: "score_threshold", value: { string_value: "0.4" } }
"""


def write(repository: Path, name: str, config: str) -> Path:
    (repository / name / "1").mkdir(parents=True)
    (repository / name / "1" / "weights").write_text(name)
    (repository / name / "config.pbtxt").write_text(config, encoding="utf-8")
    return repository


def parameters(model: Path) -> dict[str, str]:
    return {key: each.string_value for key, each in read_model_config(model).parameters.items()}


def test_parameters_are_set_where_they_are_and_where_they_are_not(tmp_path: Path) -> None:
    write(tmp_path, "a", POST)
    write(tmp_path, "b", 'backend: "endcap_postprocess"')
    write(tmp_path, "c", 'backend: "python"')
    wanted = {"score_threshold": "0.001"}
    with repository_with(tmp_path, backend="endcap_postprocess", parameters=wanted) as copy:
        assert parameters(copy / "a") == {"head": "yolov8", "score_threshold": "0.001"}
        assert parameters(copy / "b") == {"score_threshold": "0.001"}
        edited = read_model_config(copy / "a")
        assert edited.max_batch_size == 16
        assert edited.dynamic_batching.max_queue_delay_microseconds == 500
        assert [(copy / name / "1" / "weights").read_text() for name in "abc"] == ["a", "b", "c"]
        assert (copy / "c").resolve() == (tmp_path / "c").resolve()
    assert not copy.exists()
    assert (tmp_path / "a" / "config.pbtxt").read_text() == POST


def test_a_relative_repository_is_linked_by_its_full_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "models", "a", POST)
    monkeypatch.chdir(tmp_path)
    with repository_with(Path("models"), backend="endcap_postprocess", parameters={}) as copy:
        assert (copy / "a" / "1" / "weights").read_text() == "a"


def test_a_comment_may_be_in_any_encoding(tmp_path: Path) -> None:
    write(tmp_path, "a", "")
    config = tmp_path / "a" / "config.pbtxt"
    config.write_bytes(POST.replace("a comment", "größer").encode("latin-1"))
    with repository_with(tmp_path, backend="endcap_postprocess", parameters={"x": "1"}) as copy:
        assert parameters(copy / "a")["x"] == "1"
    config.write_bytes('backend: "endcap_postprocess" name: "größer"'.encode("latin-1"))
    assert read_model_config(tmp_path / "a").name == "größer"


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (POST + "colour: 3", r"a/config\.pbtxt is not a model configuration .*\"colour\""),
        (POST + "max_batch_size: {", "is not a model configuration"),
        ('backend: "python"', r"no model of .* backend endcap_postprocess.* a \(python\)"),
    ],
)
def test_what_cannot_be_edited_is_one_error_message(tmp_path: Path, config: str, said: str) -> None:
    write(tmp_path, "a", config)
    with (
        pytest.raises(ServerError, match=said) as caught,
        repository_with(tmp_path, backend="endcap_postprocess", parameters={"x": "1"}),
    ):
        pass
    assert "\n" not in str(caught.value)


def test_no_repository_is_one_error_message(tmp_path: Path) -> None:
    with (
        pytest.raises(ServerError, match="is not a folder"),
        repository_with(tmp_path / "no", backend="python", parameters={}),
    ):
        pass
    with pytest.raises(ServerError, match="cannot be read: No such file"):
        read_model_config(tmp_path)
