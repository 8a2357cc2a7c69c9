"""endcap validate on a model with an ONNX file: the configuration against the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from endcap.repository.validation import Finding, validate_repository
from tests.support import family_networks as families
from tests.support import odd_networks as odd
from tests.support.damage import copy_model
from tests.support.onnx_heads import write_heads, write_network

HEAD = np.zeros((10, 8400), np.float32)


def write_repository(
    tmp_path: Path, config: str, *, image: list[Any], backend: str = "onnxruntime"
) -> Path:
    """A repository of one network images -> head0 [1, 10, 8400]; gives its configuration."""
    folder = tmp_path / "network"
    (folder / "1").mkdir(parents=True)
    write_network(folder / "1" / "model.onnx", HEAD, image=image)
    (folder / "1" / "model.py").touch()
    file = folder / "config.pbtxt"
    file.write_text(f'backend: "{backend}"\n{config}')
    return file


def only_finding(file: Path) -> Finding:
    (finding,) = validate_repository(file.parents[1]).findings
    return finding


FREE: list[Any] = ["N", 3, 64, 96]
FIXED = [1, 3, 64, 96]
WHOLE = """\
input { name: "images" data_type: TYPE_FP32 dims: [ 1, 3, 64, 96 ] }
output { name: "head0" data_type: TYPE_FP32 dims: [ 1, 10, 8400 ] }
"""
PER_IMAGE = """\
max_batch_size: 1
input { name: "images" data_type: TYPE_FP32 dims: [ 3, 64, 96 ] }
output { name: "head0" data_type: TYPE_FP32 dims: [ 10, 8400 ] }
"""


@pytest.mark.parametrize("backend", ["onnxruntime", "openvino", "python"])
def test_whole_shapes_without_batching(tmp_path: Path, backend: str) -> None:
    file = write_repository(tmp_path, WHOLE, image=FIXED, backend=backend)
    if backend == "openvino":
        file.write_text(file.read_text() + 'default_model_filename: "model.onnx"\n')
    assert validate_repository(tmp_path).findings == []


def test_a_configuration_without_tensors_takes_the_files(tmp_path: Path) -> None:
    write_repository(tmp_path, "", image=FREE)
    assert validate_repository(tmp_path).findings == []


def test_code_may_add_the_batch_dimension(tmp_path: Path) -> None:
    per_request = PER_IMAGE.replace("max_batch_size: 1", "max_batch_size: 0")
    file = write_repository(tmp_path, per_request, image=FIXED, backend="python")
    assert validate_repository(tmp_path).findings == []
    file.write_text(file.read_text().replace("python", "onnxruntime"))
    of_input, of_output = validate_repository(tmp_path).findings
    assert of_input.problem.endswith("and the network's is FP32 [1, 3, 64, 96]")
    assert of_output.problem.endswith("and the network's is FP32 [1, 10, 8400]")


def test_a_fixed_batch_of_1_under_python(tmp_path: Path) -> None:
    file = write_repository(tmp_path, PER_IMAGE, image=FIXED, backend="python")
    assert validate_repository(tmp_path).findings == []
    file.write_text(file.read_text().replace("max_batch_size: 1", "max_batch_size: 4"))
    finding = only_finding(file)
    assert (finding.severity, finding.line) == ("error", 2)
    assert "max_batch_size is 4, and " in finding.problem
    assert "takes batches of 1 alone (its input is images FP32 [1, 3, 64, 96])" in finding.problem
    assert "max_batch_size: 1 here and in the ensemble" in finding.remedy


@pytest.mark.parametrize("backend", ["endcap_onnx", "onnxruntime"])
@pytest.mark.parametrize("batch", [1, 4])
def test_a_batch_that_the_outputs_do_not_follow(tmp_path: Path, backend: str, batch: int) -> None:
    config = PER_IMAGE.replace("max_batch_size: 1", f"max_batch_size: {batch}")
    finding = only_finding(write_repository(tmp_path, config, image=FREE, backend=backend))
    assert (finding.severity, finding.line) == ("error", 2)
    assert "has the fixed batch 1 (its output is head0 FP32 [1, 10, 8400])" in finding.problem
    assert "max_batch_size: 0" in finding.remedy


def test_a_batch_that_the_nodes_do_not_follow(tmp_path: Path) -> None:
    """The file declares outputs of any batch, and a reshape inside has 1."""
    (tmp_path / "network" / "1").mkdir(parents=True)
    odd.for_one(families.yolov8()).write(tmp_path / "network" / "1" / "model.onnx")
    file = tmp_path / "network" / "config.pbtxt"
    file.write_text('backend: "endcap_onnx"\nmax_batch_size: 1\n')
    assert "its output is output0 FP32 [1, 7, 84]" in only_finding(file).problem


def test_onnx_runtimes_backend_takes_no_fixed_batch_at_all(tmp_path: Path) -> None:
    finding = only_finding(write_repository(tmp_path, PER_IMAGE, image=FIXED))
    assert (finding.severity, finding.line) == ("error", 2)
    assert "has the fixed batch 1" in finding.problem
    assert "max_batch_size: 0" in finding.remedy


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ('"images"', '"image"', 2, "the network has no input image; its inputs are images FP32"),
        ('"head0"', '"head"', 3, "the network has no output head; its outputs are head0 FP32"),
        ("8400", "8401", 3, "output head0 is declared as FP32 [1, 10, 8401], and the network's"),
        ("96", "-1", 2, "input images is declared as FP32 [1, 3, 64, *], and the network's"),
        ("TYPE_FP32 dims: [ 1, 3", "TYPE_FP16 dims: [ 1, 3", 2, "input images is declared as FP16"),
    ],
)
def test_what_onnx_runtimes_backend_refuses(
    tmp_path: Path, old: str, new: str, line: int, says: str
) -> None:
    assert WHOLE.count(old) == 1
    finding = only_finding(write_repository(tmp_path, WHOLE.replace(old, new), image=FIXED))
    assert (finding.severity, finding.line) == ("error", line)
    assert finding.problem.startswith(says)


def test_file_without_a_network_is_refused(tmp_path: Path) -> None:
    file = write_repository(tmp_path, WHOLE, image=FIXED)
    network = file.parent / "1" / "model.onnx"
    network.write_bytes(b"version https://git-lfs.github.com/spec/v1")
    finding = only_finding(file)
    assert (finding.file, finding.line, finding.severity) == (network, None, "error")
    assert finding.problem.startswith("is not an ONNX model")


def test_the_files_shapes_reach_the_ensemble(tmp_path: Path) -> None:
    """The shipped ensemble around a network whose configuration lists no tensors."""
    for model in ("preprocess", "postprocess", "detect"):
        copy_model(model, tmp_path)
    network = tmp_path / "detector" / "1" / "model.onnx"
    network.parent.mkdir(parents=True)
    write_heads(network, {"head0": HEAD}, image=[3, 320, 320])
    (tmp_path / "detector" / "config.pbtxt").write_text(
        'backend: "onnxruntime"\nmax_batch_size: 16\n'
    )
    text = (tmp_path / "detect" / "config.pbtxt").read_text()
    (tmp_path / "detect" / "config.pbtxt").write_text(
        text.replace('output_map { key: "head"', 'output_map { key: "head0"')
    )
    finding = only_finding(tmp_path / "detect" / "config.pbtxt")
    assert finding.problem == (
        "step detector takes images as FP32 [3, 320, 320], and preprocess gives images "
        "FP32 [3, 640, 640]"
    )
