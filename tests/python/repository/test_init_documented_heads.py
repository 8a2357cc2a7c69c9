"""`endcap init` on heads as exporters document them, with the options of docs/exports.md."""

from __future__ import annotations

from pathlib import Path

import pytest
from documented_heads import HEADS, DocumentedHead
from init_runs import init

from endcap.triton.model_config import read_model_config


@pytest.mark.parametrize("head", HEADS, ids=lambda head: f"{head.network}, {head.exporter}")
def test_a_documented_head_is_recognised(head: DocumentedHead, tmp_path: Path) -> None:
    done = init(head.write(tmp_path / "model.onnx"), *head.options)
    assert done.exit_code == 0, done.stderr
    config = read_model_config(tmp_path / "models" / "postprocess")
    assert config.parameters["head"].string_value == head.family


@pytest.mark.parametrize(
    "head", [head for head in HEADS if head.options], ids=lambda head: head.exporter
)
def test_all_that_is_missing_is_asked_for_at_once(head: DocumentedHead, tmp_path: Path) -> None:
    """Save for --set, which changes a preset."""
    done = init(head.write(tmp_path / "model.onnx"))
    assert done.exit_code == 2
    for option, value in zip(head.options[::2], head.options[1::2], strict=True):
        if option != "--set":
            assert option in done.stderr
        if option == "--preset":
            assert value in done.stderr.split("--preset")[1]
