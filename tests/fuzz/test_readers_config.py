"""Readers of config.pbtxt, on damaged ones and on texts of its words."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from endcap.cli.files import find_repository
from endcap.evaluation.reference import open_reference
from endcap.repository.validation import validate_repository
from endcap.triton.model_config import read_config, read_lines, read_model_config, set_parameter
from endcap.triton.model_folder import ModelFolder, read_repository
from tests.fuzz.mutations import damaged, fuzzed, only_own_errors

# Python's decoder warns of "\\m", protobuf takes it.
pytestmark = pytest.mark.filterwarnings("ignore:.*invalid escape sequence:DeprecationWarning")

SHIPPED = find_repository()
MODELS = ("detect", "preprocess", "detector", "postprocess")
CONFIGS = {name: (SHIPPED / name / "config.pbtxt").read_bytes() for name in MODELS}
WORDS = (
    b"{", b"}", b"[", b"]", b"<", b">", b":", b";", b",", b'"', b"'", b"#", b"\\", b"-", b"\n",
    b"parameters", b"key", b"value", b"string_value", b"input", b"output", b"dims", b"[ -1 ]",
    b"max_batch_size: 99999999999999999999", b"dims: [ 9223372036854775807, 2 ]", b"name: 'x'",
    b"ensemble_scheduling", b"step", b"input_map", b"model_warmup", b"inputs", b"model_name",
    b"labels", b"head", b"size", b"yolov8", b"1e999", b"-0", b"0x", b"EXECUTION_ENV_PATH",
    b"cc_model_filenames", b"version_policy { specific { versions: [ -1 ] } }",
    b"default_model_filename: '../../x'", b"data_type: TYPE_STRING", b"\xff", b"\x00",
)  # fmt: skip
TEXTS = st.lists(st.sampled_from(WORDS), max_size=40).map(b" ".join)


@contextmanager
def repository(name: str, config: bytes) -> Iterator[Path]:
    """A repository of the shipped detector with another configuration of one model."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "models"
        for model in MODELS:
            (root / model / "1").mkdir(parents=True)
            (root / model / "config.pbtxt").write_bytes(CONFIGS[model])
        network = SHIPPED / "detector" / "1" / "model.onnx"
        if network.is_file():
            shutil.copyfile(network, root / "detector" / "1" / "model.onnx")
        (root / name / "config.pbtxt").write_bytes(config)
        yield root


DAMAGED = st.sampled_from(MODELS).flatmap(
    lambda name: st.tuples(st.just(name), damaged(CONFIGS[name], parts=WORDS) | TEXTS)
)


@fuzzed
@given(DAMAGED)
@example(("detect", b"ensemble_scheduling { step [ { model_name: 'detect' model_version: -1 } ] }"))
@example(("postprocess", b"parameters " * 200 + b"{" * 2000))
def test_validate(case: tuple[str, bytes]) -> None:
    name, config = case
    with repository(name, config) as root:
        before = sorted(root.rglob("*"))
        with only_own_errors():
            report = validate_repository(root)
            assert all(f.problem and f.remedy for f in report.findings)
        assert sorted(root.rglob("*")) == before


@fuzzed
@given(DAMAGED)
@example(("postprocess", CONFIGS["postprocess"].replace(b"TYPE_FP32", b"\x80TYPE_FP32")))
def test_what_the_server_s_start_reads(case: tuple[str, bytes]) -> None:
    name, config = case
    with repository(name, config) as root, only_own_errors():
        for model in read_repository(root):
            assert isinstance(model.backend, str)
            assert isinstance(model.steps, list)
            assert model.max_batch_size >= 0
            assert model.tensor_bytes >= 0
            assert model.runs_dali in (True, False)
            assert model.is_optional in (True, False)
            assert model.uses_shared_python in (True, False)
            with only_own_errors():
                assert_reads_as_protobuf(model, read_model_config(model.path))


def assert_reads_as_protobuf(model: ModelFolder, config: Any) -> None:
    """What the start reads without protobuf is the message's, where there is one."""
    assert (model.backend, model.platform) == (config.backend, config.platform)
    assert model.steps == [step.model_name for step in config.ensemble_scheduling.step]
    assert model.max_batch_size == max(0, config.max_batch_size)
    assert model.is_optional == (config.parameters["optional"].string_value == "true")
    groups = config.instance_group
    assert model.instances == (sum(max(1, group.count) for group in groups) or 1)


@fuzzed
@given(DAMAGED)
@example(("detect", CONFIGS["detect"].replace(b'"images"', b'"\\mages"')))
def test_settings_of_the_reference(case: tuple[str, bytes]) -> None:
    name, config = case
    with repository(name, config) as root, only_own_errors():
        open_reference(root, "detect")


@fuzzed
@given(damaged(CONFIGS["detector"], parts=WORDS) | TEXTS)
def test_a_parameter_is_set_or_refused(config: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "config.pbtxt"
        file.write_bytes(config)
        text = read_config(file)
        with only_own_errors():
            changed = set_parameter(text, "head", "value")
            assert read_lines(changed).parameter("head") == "value"
            assert set_parameter(changed, "head", "value") == changed
