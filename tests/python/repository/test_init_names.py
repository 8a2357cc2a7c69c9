"""endcap init with wrong names of parameters, heads and presets."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import family_networks as families
import pytest
from cli_runs import assert_error_message, endcap

from endcap.cli.files import find_repository

NETWORK = find_repository() / "detector" / "1" / "model.onnx"


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        (
            "--set",
            "conf=0.3",
            "--set conf: neither preprocess nor postprocess has such",
        ),
        ("--set", "conf=0.3", "; did you mean 'score_threshold'? They have size, "),
        ("--set", "imgsz=640", "; did you mean --size? They have size, "),
        ("--set", "nothing=1", "has such a parameter. They have size, "),
        ("--set", "size", "give NAME=VALUE"),
        ("--head", "yolo11", "this version reads; did you mean 'yolov8'? Give one of yolov5, "),
        ("--head", "nothing", "this version reads. Give one of yolov5, "),
        ("--preset", "imagenet", "give one of ultralytics, torchvision, "),
        ("--preset", "imagenet", "; did you mean 'torchvision'?"),
    ],
)
def test_a_wrong_name_comes_with_the_right_one(
    tmp_path: Path, option: str, value: str, message: str
) -> None:
    result = endcap("init", NETWORK, "--output", tmp_path / "models", option, value)
    assert_error_message(result, message)
    assert not (tmp_path / "models").exists()


def test_names_of_a_network_are_no_links_in_the_readme(tmp_path: Path) -> None:
    network = families.yolov8()
    (output,) = network.outputs.values()
    name = "![x](http://evil/x.png) [y](javascript:z)"
    replace(network, outputs={name: output}).write(tmp_path / "model.onnx")
    options = ["--num-classes", "3"]
    result = endcap("init", tmp_path / "model.onnx", "--output", tmp_path / "models", *options)
    assert result.exit_code == 0, result.output
    text = (tmp_path / "models" / "README.md").read_text()
    cells = [line for line in text.splitlines() if "evil" in line and line.startswith("|")]
    assert cells
    for line in cells:
        outside_of_code = re.sub(r"(`+).*?\1", "", line)
        assert not re.search(r"(?<!\\)\[[^\]]*\]\(", outside_of_code), line
