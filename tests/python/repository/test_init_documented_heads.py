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
def test_what_is_missing_is_asked_for_step_by_step(head: DocumentedHead, tmp_path: Path) -> None:
    """Each message names an option; given, it leads to the next message or to a repository."""
    model, given = head.write(tmp_path / "model.onnx"), []
    options = dict(zip(head.options[::2], head.options[1::2], strict=True))
    for _ in range(len(options) + 1):
        done = init(model, *given)
        if done.exit_code == 0:
            return
        asked = next(name for name in options if name in done.stderr and name not in given)
        given += [asked, options[asked]]
    pytest.fail(done.stderr)
