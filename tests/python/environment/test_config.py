"""EXECUTION_ENV_PATH in a config.pbtxt: set, read, and nothing else touched."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from endcap.environment.placing import check_model, place
from endcap.errors import EndcapError, InvalidArgumentError
from endcap.triton.model_config import read_lines, set_parameter, write_config
from endcap.triton.parameters import EXECUTION_ENVIRONMENT
from tests.support.cli_runs import assert_error_message, endcap
from tests.support.conda_channel import VERSION as RUNNING

VALUE = "$$TRITON_MODEL_DIRECTORY/environment.tar.gz"
SHIPPED = sorted((Path(__file__).parents[3] / "model_repository").glob("*/config.pbtxt"))
ENTRY = 'parameters {{ key: "EXECUTION_ENV_PATH" value {{ string_value: "{}" }} }}'

WRITTEN = {
    "block": ENTRY.format("old.tar.gz"),
    "colons": 'parameters: {key: "EXECUTION_ENV_PATH", value: {string_value: "old.tar.gz"}}',
    "quotes": "parameters { key: 'EXECUTION_ENV_PATH' value { string_value: 'old.tar.gz' } }",
    "angles": 'parameters < key: "EXECUTION_ENV_PATH" value < string_value: "old.tar.gz" > >',
    "neighbours": 'parameters { key: "EXECUTION_" "ENV_PATH"\n'
    '  value { string_value: "old" ".tar.gz" } }',
    "escapes": ENTRY.format("old.tar.gz").replace("_ENV", r"\137\x45NV"),
    "value first": 'parameters { value { string_value: "old.tar.gz" } key: "EXECUTION_ENV_PATH" }',
    "list": 'parameters [ { key: "a" value { string_value: "EXECUTION_ENV_PATH" } },\n'
    '  { key: "EXECUTION_ENV_PATH" value { string_value: "old.tar.gz" } } ]',
    "twice": ENTRY.format("older.tar.gz") + "\n" + ENTRY.format("old.tar.gz"),
    "beside a comment": f"# {ENTRY.format('never.tar.gz')}\n{ENTRY.format('old.tar.gz')} # mine",
}


def parameters(text: str) -> dict[str, str]:
    """What protobuf reads, Triton's own parser."""
    config = text_format.Parse(text, model_config_pb2.ModelConfig())
    return {key: value.string_value for key, value in config.parameters.items()}


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.parent.name)
def test_rest_of_a_shipped_config_is_unchanged(path: Path) -> None:
    text = path.read_text()
    changed = set_parameter(text, EXECUTION_ENVIRONMENT, VALUE)
    assert changed.startswith(text)
    assert parameters(changed) == {**parameters(text), EXECUTION_ENVIRONMENT: VALUE}
    assert set_parameter(changed, EXECUTION_ENVIRONMENT, VALUE) == changed


@pytest.mark.parametrize("text", WRITTEN.values(), ids=WRITTEN.keys())
def test_a_value_that_is_there_is_replaced_in_its_place(text: str) -> None:
    text = f'backend: "python" # {{ not a bracket\n{text}'
    assert (
        parameters(text)[EXECUTION_ENVIRONMENT]
        == read_lines(text).parameter(EXECUTION_ENVIRONMENT)
        == "old.tar.gz"
    )
    changed = set_parameter(text, EXECUTION_ENVIRONMENT, VALUE)
    assert parameters(changed) == {**parameters(text), EXECUTION_ENVIRONMENT: VALUE}
    assert changed.count("\n") == text.count("\n")
    before, after = text.split("old")[0].rstrip("\"'"), text.split(".tar.gz")[-1][1:]
    assert changed.startswith(before)
    assert changed.endswith(after)
    assert set_parameter(changed, EXECUTION_ENVIRONMENT, VALUE) == changed


def test_a_value_is_what_triton_reads() -> None:
    for value in (r"a\x2fb.tar.gz", r"\303\xbc", 'a" "b', r"\'\t"):
        text = ENTRY.format(value)
        assert (
            read_lines(text).parameter(EXECUTION_ENVIRONMENT)
            == parameters(text)[EXECUTION_ENVIRONMENT]
        )
    assert read_lines(ENTRY.format(r"a\xzz")).parameter(EXECUTION_ENVIRONMENT) == r"a\xzz"


@pytest.mark.parametrize("text", ["", 'backend: "python"', "# EXECUTION_ENV_PATH\n"])
def test_new_parameter_is_appended(text: str) -> None:
    assert read_lines(text).parameter(EXECUTION_ENVIRONMENT) is None
    changed = set_parameter(text, EXECUTION_ENVIRONMENT, VALUE)
    assert changed.startswith(text)
    assert parameters(changed) == {EXECUTION_ENVIRONMENT: VALUE}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('backend: "python\n', "line 1 .* string that does not end"),
        ("parameters { key: 'a'\n", "broken"),
        ("input [ { } ] }", "broken"),
        ("parameters { key: ] }", "broken"),
        ('parameters { key: "EXECUTION_ENV_PATH" }', "no string_value"),
    ],
)
def test_a_broken_config_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        set_parameter(text, EXECUTION_ENVIRONMENT, VALUE)


def test_models_that_can_have_no_environment_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"has no config\.pbtxt"):
        check_model(tmp_path)
    (tmp_path / "config.pbtxt").write_text('backend: "onnxruntime"\n')
    with pytest.raises(InvalidArgumentError, match="backend 'onnxruntime'"):
        check_model(tmp_path)


def test_placing_twice_is_placing_once(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    config = model / "config.pbtxt"
    config.write_text('backend: "python" # mine\n')
    config.chmod(0o640)
    (tmp_path / "a").write_bytes(b"first")
    (tmp_path / "b").write_bytes(b"second")
    place(tmp_path / "a", model, "env.tar.gz", python=RUNNING)
    text = config.read_text()
    place(tmp_path / "b", model, "env.tar.gz", python=RUNNING)
    assert config.read_text() == text
    assert text.startswith('backend: "python" # mine\n')
    assert config.stat().st_mode & 0o777 == 0o640
    assert (model / "env.tar.gz").read_bytes() == b"second"
    assert list(model.glob(".*")) == []


@pytest.mark.parametrize(("name", "python"), [("folder", RUNNING), ("env.tar.gz", "3.99")])
def test_what_cannot_be_placed_changes_nothing(tmp_path: Path, name: str, python: str) -> None:
    model = tmp_path / "model"
    (model / "folder").mkdir(parents=True)
    (model / "config.pbtxt").write_text('backend: "python"\n')
    before = contents(model)
    (tmp_path / "a").write_bytes(b"archive")
    with pytest.raises((OSError, EndcapError)):
        place(tmp_path / "a", model, name, python=python)
    assert contents(model) == before


def contents(folder: Path) -> dict[str, bytes | None]:
    """Paths in a folder -> the bytes of files, None for folders."""
    return {path.name: path.read_bytes() if path.is_file() else None for path in folder.iterdir()}


def test_other_bytes_of_a_config_are_unchanged(tmp_path: Path) -> None:
    (tmp_path / "shared.pbtxt").write_bytes(b'backend: "python" # f\xfcr\r\nmax_batch_size: 0\r\n')
    before = (tmp_path / "shared.pbtxt").read_bytes()
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.pbtxt").symlink_to("../shared.pbtxt")
    (tmp_path / "a").write_bytes(b"archive")
    place(tmp_path / "a", model, "env.tar.gz", python=RUNNING)
    assert (model / "config.pbtxt").is_symlink()
    after = (tmp_path / "shared.pbtxt").read_bytes()
    assert after.startswith(before)
    assert after.count(b"\n") == after.count(b"\r\n")
    assert b"$$TRITON_MODEL_DIRECTORY/env.tar.gz" in after


@pytest.mark.parametrize(
    "name", ['a"b.tar.gz', "a\\b.tar.gz", "a b.tar.gz", "ä.tar.gz", "model.py"]
)
def test_an_archive_name_that_a_config_cannot_hold_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "config.pbtxt").write_text('backend: "python"\n')
    output = tmp_path / name
    assert_error_message(endcap("env", "pack", "-o", output, "--into", tmp_path), "--output")
    assert contents(tmp_path) == {"config.pbtxt": b'backend: "python"\n'}


def test_a_read_only_config_is_replaced() -> None:
    """As version control leaves files; the folder decides whether they can be replaced."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # that another user can reach
        config = Path(folder) / "config.pbtxt"
        config.write_text("before")
        config.chmod(0o444)
        user = os.getuid() or 65534  # root may write to any file
        for path in (config, folder):
            os.chown(path, user, -1)
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                os.setuid(user)
                write_config(config, "after")
            os._exit(0)
        os.waitpid(child, 0)
        assert config.read_text() == "after"
        assert config.stat().st_mode & 0o777 == 0o444
