"""Reading of ONNX files, on damaged bytes and on networks whose fields hold anything."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import onnx
from hypothesis import example, given
from hypothesis import strategies as st

from endcap.repository.metadata import read_metadata
from endcap.repository.network_tensors import declared_outputs, read_input
from endcap.repository.onnx_file import read_onnx
from tests.fuzz.mutations import damaged, fuzzed, only_own_errors
from tests.support import family_networks as families


def small_network() -> onnx.ModelProto:
    with tempfile.TemporaryDirectory() as folder:
        model = onnx.load(str(families.yolov8().write(Path(folder) / "model.onnx")))
    for tensor in model.graph.initializer:
        if len(tensor.raw_data) > 200:
            tensor.ClearField("raw_data")
            tensor.data_location = onnx.TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value="weights.bin")
    onnx.helper.set_model_props(
        model, {"names": "{0: 'a', 1: 'b'}", "imgsz": "[64, 64]", "task": "detect"}
    )
    return model


MODEL = small_network()
ENCODED = MODEL.SerializeToString()
LOCATIONS = (
    "weights.bin",
    "../secret",
    "/etc/hostname",
    "",
    ".",
    "a\0b",
    "link",
    "link/x",
    "\ud800",
)


def read(encoded: bytes) -> None:
    """Reads a file as `endcap init` and `endcap validate` do before a network is run."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "network"
        place.mkdir()
        (place / "weights.bin").write_bytes(bytes(1000))
        (place / "link").symlink_to(folder)
        path = place / "model.onnx"
        path.write_bytes(encoded)
        before = sorted(Path(folder).rglob("*"))
        with only_own_errors():
            network = read_onnx(path)
            for location, file in network.external_files.items():
                assert file.resolve().is_relative_to(place.resolve()), location
            network.relocate_weights(dict.fromkeys(network.external_files, "weights.bin"))
            with only_own_errors():
                declared_outputs(network)
            with only_own_errors():
                read_input(network, None)
        assert sorted(Path(folder).rglob("*")) == before


@fuzzed
@given(damaged(ENCODED, parts=(b"\xff\xff\xff\xff\x0f", b"\x80", b"\x08\x01", b"location")))
@example(ENCODED.replace(b"images", b"imag\xff\xfe"))
@example(ENCODED.replace(b"weights.bin", b"weigh\xff\xfebin"))
@example(ENCODED.replace(b"imgsz", b"im\xffsz"))
def test_damaged_bytes(encoded: bytes) -> None:
    read(encoded)


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int": st.sampled_from((0, 1, -1, 2**31 - 1, -(2**31), 7, 16)),
    "long": st.sampled_from((0, 1, -1, 2**63 - 1, -(2**63), 3, 4, 2**40)),
    "text": st.sampled_from(("", "images", "output0", "\n", "x" * 300, '"', "a/../b", "\x1b[2J")),
}


@st.composite
def networks(draw: st.DrawFn) -> bytes:
    """The network with some of the fields that are read set to anything."""
    model = onnx.ModelProto()
    model.CopyFrom(MODEL)
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(("input", "output", "external", "metadata", "clear")))
        if kind in ("input", "output"):
            values = model.graph.input if kind == "input" else model.graph.output
            value = values.add() if draw(st.booleans()) or not values else values[0]
            value.name = draw(VALUES["text"])
            if draw(st.booleans()):
                value.type.tensor_type.elem_type = draw(VALUES["int"])
                dim = value.type.tensor_type.shape.dim.add()
                dim.dim_value = draw(VALUES["long"])
            else:
                value.type.sequence_type.elem_type.tensor_type.elem_type = 1
        elif kind == "external" and model.graph.initializer:
            tensor = draw(st.sampled_from(list(model.graph.initializer)))
            tensor.data_location = onnx.TensorProto.EXTERNAL
            key = draw(st.sampled_from(("location", "offset", "length", "checksum")))
            locations = [each for each in LOCATIONS if each != "\ud800"]
            tensor.external_data.add(key=key, value=draw(st.sampled_from(locations)))
        elif kind == "metadata":
            key = draw(st.sampled_from(("names", "imgsz", "kpt_shape", "task", "stride", "")))
            text = draw(LITERALS)
            model.metadata_props.add(key=key, value=text)
        elif kind == "clear":
            field = draw(st.sampled_from(("graph", "opset_import", "ir_version", "metadata_props")))
            model.ClearField(field)
    return model.SerializeToString()


LITERALS = st.text(max_size=40) | st.recursive(
    st.integers() | st.floats() | st.text(max_size=5) | st.booleans() | st.none() | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.integers(-2, 5) | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=8,
).map(repr)


@fuzzed
@given(networks())
def test_fields_that_hold_anything(encoded: bytes) -> None:
    read(encoded)


@fuzzed
@given(LITERALS, LITERALS, LITERALS)
@example("{'1': 'a', '\u00b2': 'b'}", "1", "1")
@example("{'0': 'a', '1" + "0" * 5000 + "': 'b'}", "(" * 5000, "[1" + "0" * 5000 + "]")
@example("{True: 'a', 0: 'b'}", "[True, True]", "-" * 3000 + "1")
def test_notes_of_exporters(names: str, size: str, keypoints: str) -> None:
    notes = read_metadata({"names": names, "imgsz": size, "kpt_shape": keypoints})
    assert notes.names is None or all(isinstance(name, str) for name in notes.names)
    assert notes.size is None or min(notes.size) > 0
    assert notes.keypoints is None or min(notes.keypoints) > 0
