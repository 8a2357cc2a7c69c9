"""The largest batch of ultralytics' exports with suppression inside, with and without metadata."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from endcap.repository.options import InitOptions
from endcap.repository.plan import make_plan
from tests.peers.exporting import SIDE, export


@pytest.mark.parametrize("yaml", ["yolov8n.yaml", "yolov8n-seg.yaml", "yolov8n-obb.yaml"])
@pytest.mark.parametrize("images", [1, 3])
def test_the_largest_batch(
    images: int, yaml: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the exporter writes where it stands
    path, network = export(tmp_path, yaml, nms=True, dynamic=True, batch=images)
    assert make_plan(path, InitOptions(), tmp_path).network_batch == images
    model = onnx.load(path)
    del model.metadata_props[:]
    onnx.save(model, path)
    task = "" if "-" not in yaml else yaml.removesuffix(".yaml").partition("-")[2]
    options = InitOptions(
        head="_".join(filter(None, ("end2end", task))),
        size=(SIDE, SIDE),
        preset="ultralytics",
        num_classes=len(network.model.names),
    )
    plan = make_plan(path, options, tmp_path)
    assert plan.network_batch == 1 or task == "obb"  # which has no operator NonMaxSuppression


def test_no_limit_without_suppression(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path, _ = export(tmp_path, "yolov8n.yaml", dynamic=True)
    plan = make_plan(path, InitOptions(max_batch=5), tmp_path)
    assert (plan.network_batch, plan.batch_reason) == (5, "")
