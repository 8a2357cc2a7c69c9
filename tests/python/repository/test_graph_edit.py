"""Edits of graphs for `endcap init`, run by ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from endcap.repository.graph_edit import edit_network
from endcap.repository.network_tensors import NetworkInput, NetworkOutput, OutputEdit
from endcap.repository.onnx_file import read_onnx
from tests.support.onnx_heads import network

IMAGE = np.random.default_rng(0).random((3, 4, 5), np.float32)


def write(path: Path, opset: int, *, inner: bool = False) -> Path:
    """y [4, 5], the sum of an image's channels; inner: z, which a graph inside makes of y."""
    rows = "red = Gather<axis=0>(x, i0) green = Gather<axis=0>(x, i1) blue = Gather<axis=0>(x, i2)"
    nodes, outputs = f"{rows} y = Sum(red, green, blue)", "float[4,5] y"
    constants = {f"i{number}": np.array(number) for number in range(3)}
    if inner:
        branches = ", ".join(
            f"{kind}_branch = {kind} () => (float[4,5] {kind}) {{ {kind} = {operator}(y) }}"
            for kind, operator in (("then", "Neg"), ("else", "Abs"))
        )
        nodes += f" z = If<{branches}>(yes)"
        outputs += ", float[4,5] z"
        constants["yes"] = np.array(True)
    model = network(f"(float[3,4,5] x) => ({outputs})", nodes, **constants)
    model.opset_import[0].version, model.ir_version = opset, 7
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, str(path))
    return path


def edited(folder: Path, edit: OutputEdit, opset: int = 17, **options: Any) -> Any:
    """A session of the edited network, and y as the plan has it."""
    source = read_onnx(write(folder / "model.onnx", opset, **options))
    image = NetworkInput("x", "FP32", "nchw", 3, (4, 5), 1, "", has_batch=False)
    values = IMAGE.sum(axis=0).astype(np.float64)
    plain = NetworkOutput("y", "FP32", False, (False, False), values)
    output = plain.edited(edit)
    made = edit_network(source, image, [output], folder)
    onnx.checker.check_model(str(made.file), full_check=True)
    assert [str(spec) for spec in made.inputs] == ["x FP32 [1, 3, 4, 5]"]
    return onnxruntime.InferenceSession(made.file), output


@pytest.mark.parametrize("opset", [11, 13, 17])
@pytest.mark.parametrize(
    "edit",
    [
        OutputEdit(adds_batch=True),
        OutputEdit(adds_batch=True, transposes=True),
        OutputEdit(adds_batch=True, columns=(3, 0, 3)),
        OutputEdit(adds_batch=True, shape=(20,)),
        OutputEdit(adds_batch=True, transposes=True, columns=(2, 1), data_type="INT64"),
    ],
    ids=str,
)
def test_an_edit_is_what_the_plan_says(edit: OutputEdit, opset: int, tmp_path: Path) -> None:
    session, output = edited(tmp_path, edit, opset)
    (given,) = session.run(["y"], {"x": IMAGE[None]})
    (declared,) = session.get_outputs()
    assert list(given.shape) == declared.shape == list(output.shape)
    expected = output.values.astype(given.dtype)
    np.testing.assert_allclose(given[0], expected, rtol=1e-6)


def test_graphs_inside_read_what_they_read_before(tmp_path: Path) -> None:
    edit = OutputEdit(adds_batch=True, transposes=True)
    session, _ = edited(tmp_path, edit, inner=True)
    y, z = session.run(["y", "z"], {"x": IMAGE[None]})
    np.testing.assert_array_equal(z, -y[0].T)


def test_names_of_an_edit_are_new(tmp_path: Path) -> None:
    path = write(tmp_path / "model.onnx", 17)
    model = onnx.load(path)
    for node in model.graph.node:
        for names in (node.input, node.output):
            names[:] = ["endcap_y_1" if name == "red" else name for name in names]
    onnx.save(model, str(path))
    source = read_onnx(path)
    image = NetworkInput("x", "FP32", "nchw", 3, (4, 5), 1, "", has_batch=False)
    plain = NetworkOutput("y", "FP32", False, (False, False), np.zeros((4, 5)))
    output = plain.with_batch()
    session = onnxruntime.InferenceSession(edit_network(source, image, [output], tmp_path).file)
    (given,) = session.run(["y"], {"x": IMAGE[None]})
    np.testing.assert_allclose(given[0], IMAGE.sum(axis=0), rtol=1e-6)


def test_a_network_that_needs_no_edit_keeps_its_file(tmp_path: Path) -> None:
    source = read_onnx(write(tmp_path / "model.onnx", 17))
    image = NetworkInput("x", "FP32", "nchw", 3, (4, 5), 1, "")
    plain = NetworkOutput("y", "FP32", True, (False, False), np.zeros((4, 5)))
    assert edit_network(source, image, [plain], tmp_path) is source


def test_an_edited_copy_is_readable_for_no_more_users(tmp_path: Path) -> None:
    path = write(tmp_path / "model.onnx", 17)
    path.chmod(0o600)
    image = NetworkInput("x", "FP32", "nchw", 3, (4, 5), 1, "", has_batch=False)
    made = edit_network(read_onnx(path), image, [], tmp_path)
    assert made.file != path
    assert made.file.stat().st_mode & 0o777 == 0o600
