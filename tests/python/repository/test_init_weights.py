"""endcap init, networks whose weights lie in files of their own: which are taken, and as what."""

from __future__ import annotations

import math
import os
import stat
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.external_data_helper import uses_external_data

from tests.support import family_networks as families
from tests.support.init_runs import files, init


def write_split(path: Path, *locations: str) -> Path:
    """Write a network whose weights, but not shapes, lie in `locations`, in turn."""
    model = onnx.load(str(families.yolov8().write(path)))
    for number in range(len(locations)):
        numbers = np.arange(100, dtype=np.float32) + number
        model.graph.initializer.append(onnx.numpy_helper.from_array(numbers, f"unused_{number}"))
    large = [tensor for tensor in model.graph.initializer if math.prod(tensor.dims) >= 100]
    for number, tensor in enumerate(large):
        location = locations[number % len(locations)]
        file = path.parent / location
        file.parent.mkdir(parents=True, exist_ok=True)
        raw = onnx.numpy_helper.to_array(tensor).tobytes()
        with file.open("ab") as stream:
            offset = stream.tell()
            stream.write(raw)
        for field in ("raw_data", "float_data", "int64_data"):
            tensor.ClearField(field)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", location), ("offset", offset), ("length", len(raw))):
            tensor.external_data.add(key=key, value=str(value))
    path.write_bytes(model.SerializeToString())
    return path


def locations(model: onnx.ModelProto) -> set[str]:
    return {
        entry.value
        for tensor in model.graph.initializer
        if uses_external_data(tensor)
        for entry in tensor.external_data
        if entry.key == "location"
    }


@pytest.mark.parametrize("location", ["config.pbtxt", "1/model.plan", "../model.py"])
def test_weights_never_become_other_files_of_the_model(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "in" / "network"
    folder.mkdir(parents=True)
    model = write_split(folder / "model.onnx", location)
    done = init(model, "--runtime", "tensorrt", output=tmp_path / "models")
    if ".." in location:
        assert done.exit_code == 2
        assert not (tmp_path / "models").exists()
        return
    assert done.exit_code == 0, done.stderr
    detector = tmp_path / "models" / "detector"
    assert files(detector) == {"config.pbtxt", "model.onnx", "weights.bin"}
    assert 'backend: "tensorrt"' in (detector / "config.pbtxt").read_text()


def test_several_files_get_names_of_their_own_and_the_network_stays_the_same(
    tmp_path: Path,
) -> None:
    model = write_split(tmp_path / "model.onnx", "b", "deep/a.data", "weights.bin")
    done = init(model)
    assert done.exit_code == 0, done.stderr
    version = tmp_path / "models" / "detector" / "1"
    names = {"weights.bin", "weights_2.bin", "weights_3.bin"}
    assert files(version) == {"model.onnx", *names}
    assert locations(onnx.load(str(version / "model.onnx"), load_external_data=False)) == names
    assert onnx.load(str(version / "model.onnx")).graph == onnx.load(str(model)).graph


@pytest.mark.parametrize("link", ["file", "folder"])
def test_a_link_that_leaves_the_folder_is_refused(tmp_path: Path, link: str) -> None:
    folder = tmp_path / "network"
    folder.mkdir()
    model = write_split(folder / "model.onnx", "data/weights.data")
    (folder / "data").rename(tmp_path / "secret")
    if link == "folder":
        (folder / "data").symlink_to(tmp_path / "secret")
    else:
        (folder / "data").mkdir()
        (folder / "data" / "weights.data").symlink_to(tmp_path / "secret" / "weights.data")
    done = init(model)
    assert done.exit_code == 2
    assert "outside of its folder" in done.stderr
    assert not (folder / "models").exists()


def test_a_download_cache_of_links_is_read(tmp_path: Path) -> None:
    """A network and its weights that are both links into one folder of downloaded files."""
    (tmp_path / "blobs").mkdir()
    (tmp_path / "snapshot").mkdir()
    model = write_split(tmp_path / "blobs" / "model.onnx", "weights.data")
    for name in ("model.onnx", "weights.data"):
        (tmp_path / "snapshot" / name).symlink_to(tmp_path / "blobs" / name)
    done = init(tmp_path / "snapshot" / model.name, output=tmp_path / "models")
    assert done.exit_code == 0, done.stderr
    assert "weights.bin" in files(tmp_path / "models" / "detector" / "1")


def test_a_second_location_of_a_tensor_is_refused(tmp_path: Path) -> None:
    """Readers differ in which one they take."""
    path = write_split(tmp_path / "model.onnx", "weights.data")
    model = onnx.load(str(path), load_external_data=False)
    tensor = next(filter(uses_external_data, model.graph.initializer))
    tensor.external_data.add(key="location", value="../other")
    path.write_bytes(model.SerializeToString())
    done = init(path)
    assert done.exit_code == 2
    assert "2 locations" in done.stderr


def test_weights_of_attributes_are_checked_as_well(tmp_path: Path) -> None:
    """Tensors that are a node's attribute, here inside the branch of a condition."""
    value = TensorProto(name="hidden", data_type=TensorProto.FLOAT, dims=[1])
    value.data_location = TensorProto.EXTERNAL
    value.external_data.add(key="location", value="/etc/hostname")
    constant = helper.make_node("Constant", [], ["c"])
    sparse = constant.attribute.add(name="sparse_value", type=onnx.AttributeProto.SPARSE_TENSOR)
    sparse.sparse_tensor.values.CopyFrom(value)
    branch = helper.make_graph(
        [constant], "b", [], [helper.make_tensor_value_info("c", TensorProto.FLOAT, [1])]
    )
    path = families.yolov8().write(tmp_path / "model.onnx")
    model = onnx.load(str(path))
    flag = helper.make_node("Constant", [], ["flag"])
    flag.attribute.add(name="value", type=onnx.AttributeProto.TENSOR).t.CopyFrom(
        helper.make_tensor("", TensorProto.BOOL, [], [True])
    )
    chosen = helper.make_node("If", ["flag"], ["chosen"], then_branch=branch, else_branch=branch)
    model.graph.node.extend([flag, chosen])
    path.write_bytes(model.SerializeToString())
    done = init(path)
    assert done.exit_code == 2
    assert "/etc/hostname, which is hidden or outside of its folder" in done.stderr


@pytest.mark.parametrize("location", [".ssh/id_rsa", "data/.env"])
def test_hidden_files_are_refused(tmp_path: Path, location: str) -> None:
    """A network from elsewhere could name the keys of whoever puts it into the home folder."""
    done = init(write_split(tmp_path / "model.onnx", location))
    assert done.exit_code == 2
    assert f"in {location}, which is hidden" in done.stderr
    assert not (tmp_path / "models").exists()


@pytest.mark.parametrize(("mode", "copied"), [(0o600, 0o600), (0o440, 0o440), (0o777, 0o644)])
def test_copies_can_be_read_by_no_more_users(tmp_path: Path, mode: int, copied: int) -> None:
    model = write_split(tmp_path / "model.onnx", "weights.data")
    (tmp_path / "weights.data").chmod(mode)
    previous = os.umask(0o022)
    try:
        assert init(model).exit_code == 0
    finally:
        os.umask(previous)
    weights = tmp_path / "models" / "detector" / "1" / "weights.bin"
    assert stat.S_IMODE(weights.stat().st_mode) == copied


def test_every_file_that_is_copied_is_named(tmp_path: Path) -> None:
    done = init(write_split(tmp_path / "model.onnx", "b.data", "deep/a.data"))
    assert done.exit_code == 0, done.stderr
    readme = (tmp_path / "models" / "README.md").read_text()
    for location, name in (("b.data", "weights.bin"), ("deep/a.data", "weights_2.bin")):
        size = (tmp_path / location).stat().st_size
        for text in (done.stdout, readme):
            (line,) = (line for line in text.splitlines() if location in line)
            assert f"copied as {name} ({size} bytes)" in line
