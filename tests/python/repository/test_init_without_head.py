"""`endcap init --head none`: preprocess, and a network whose outputs are returned unread."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.support.cli_runs import assert_error_message
from tests.support.family_networks import Network, Output
from tests.support.init_runs import files, init, written

MAP = Output(np.zeros((3, 16, 16), np.float32), 1.0)
NETWORK = Network({"heat": MAP, "geometry": Output(np.zeros(4, np.float32))})
GIVEN = ("--head", "none", "--preset", "ultralytics")


def test_has_no_postprocess(tmp_path: Path) -> None:
    folder = written(tmp_path, NETWORK, *GIVEN)
    models = {path.split("/")[0] for path in files(folder)}
    assert models == {"README.md", "preprocess", "network", "predict"}
    config = (folder / "predict" / "config.pbtxt").read_text()
    outputs = config[config.index("output [") : config.index("ensemble_scheduling")]
    assert re.findall('name: "(.*)"', outputs) == ["heat", "network_geometry", "geometry", "status"]


@pytest.mark.parametrize(
    ("network", "options", "message"),
    [
        (NETWORK, ["--num-classes", 3], "--num-classes and --postprocess are for postprocess"),
        (
            NETWORK,
            ["--set", "score_threshold=0.5"],
            "--set score_threshold: there is no postprocess with",
        ),
        (
            NETWORK,
            ["--postprocess", "python"],
            "--num-classes and --postprocess are for postprocess",
        ),
        (Network({"value": Output(np.float32(0))}), [], "such as [N, 1]; export it like that"),
    ],
)
def test_what_does_not_go_without_a_head(
    network: Network, options: list[object], message: str, tmp_path: Path
) -> None:
    done = init(network.write(tmp_path / "model.onnx"), *GIVEN, *options)
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.split())


def test_unknown_outputs_lead_there(tmp_path: Path) -> None:
    maps = replace(NETWORK, outputs={"heat": MAP, "offsets": MAP})
    done = init(maps.write(tmp_path / "model.onnx"))
    assert_error_message(done, "--head none returns them unmodified")


def test_the_preset_is_asked_for(tmp_path: Path) -> None:
    done = init(NETWORK.write(tmp_path / "model.onnx"), "--head", "none")
    assert_error_message(done, "--preset (likely: ultralytics (pixels from 0 to 1)")
