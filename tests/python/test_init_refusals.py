"""endcap init, what it cannot do or will not guess: a sentence, exit code 2, nothing left."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import family_networks as families
import numpy as np
import onnx
import pytest
from init_runs import init, write_shapes
from onnx import TensorProto, helper

HEAD = {"output0": ["batch", 7, 84]}
_OPSETS = [helper.make_opsetid("", 17)]
Maker = Callable[[Path], Path]


def text(content: bytes) -> Maker:
    def make(path: Path) -> Path:
        path.write_bytes(content)
        return path

    return make


def shapes(outputs: dict[str, list[Any]], **options: Any) -> Maker:
    return lambda path: write_shapes(path, outputs, **options)


def network(made: families.Network) -> Maker:
    return made.write


def without_external_file(path: Path) -> Path:
    model = onnx.load(str(families.yolov8().write(path)))
    onnx.save(
        model, str(path), save_as_external_data=True, location="weights.bin", size_threshold=0
    )
    (path.parent / "weights.bin").unlink()
    return path


def with_weights_elsewhere(path: Path) -> Path:
    model = onnx.load(str(families.yolov8().write(path)))
    weights = model.graph.initializer[0]
    weights.ClearField("raw_data")
    weights.data_location = TensorProto.EXTERNAL
    weights.external_data.add(key="location", value="../weights.bin")
    path.write_bytes(model.SerializeToString())
    return path


def without_input(path: Path) -> Path:
    zeros = helper.make_tensor("zeros", TensorProto.FLOAT, [1, 7, 84], [0.0] * 588)
    node = helper.make_node("Constant", [], ["output0"], value=zeros)
    head = helper.make_tensor_value_info("output0", TensorProto.FLOAT, [1, 7, 84])
    onnx.save(helper.make_model(helper.make_graph([node], "n", [], [head])), str(path))
    return path


def with_varying_rows(path: Path) -> Path:
    """Gives the places of the pixels over a half: NonZero's shape depends on the image."""
    image = helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, 8, 8])
    rows = helper.make_tensor_value_info("rows", TensorProto.FLOAT, [1, "found", 4])
    half = onnx.numpy_helper.from_array(np.array(0.5, np.float32), "half")
    first = onnx.numpy_helper.from_array(np.array([0]), "first")
    nodes = [
        helper.make_node("Greater", ["images", "half"], ["bright"]),
        helper.make_node("NonZero", ["bright"], ["places"]),
        helper.make_node("Transpose", ["places"], ["turned"], perm=[1, 0]),
        helper.make_node("Unsqueeze", ["turned", "first"], ["batched"]),
        helper.make_node("Cast", ["batched"], ["rows"], to=TensorProto.FLOAT),
    ]
    graph = helper.make_graph(nodes, "network", [image], [rows], [half, first])
    onnx.save(helper.make_model(graph, opset_imports=_OPSETS, ir_version=8), str(path))
    return path


def with_a_batch_that_is_none(path: Path) -> Path:
    """Declares a free batch and brings everything to one image."""
    image = helper.make_tensor_value_info("images", TensorProto.FLOAT, ["batch", 3, 64, 64])
    head = helper.make_tensor_value_info("output0", TensorProto.FLOAT, ["batch", 7, 84])
    head_values = onnx.numpy_helper.from_array(np.zeros((1, 7, 84), np.float32), "zeros")
    nodes = [
        helper.make_node("ReduceMean", ["images"], ["mean"], keepdims=0),
        helper.make_node("Add", ["mean", "zeros"], ["output0"]),
    ]
    graph = helper.make_graph(nodes, "network", [image], [head], [head_values])
    onnx.save(helper.make_model(graph, opset_imports=_OPSETS, ir_version=8), str(path))
    return path


def with_labels(lines: str) -> Maker:
    def make(path: Path) -> Path:
        (path.parent / "labels.txt").write_text(lines)
        return families.yolov8().write(path)

    return make


REFUSED: dict[str, tuple[Maker, list[object], list[str]]] = {
    "no ONNX": (text(b"these are words"), [], ["is no ONNX model", "do not decode"]),
    "empty": (text(b""), [], ["is no ONNX model", "no graph"]),
    "not there": (lambda path: path, [], ["No such file"]),
    "a folder": (lambda path: path.mkdir() or path, [], ["is a folder"]),
    "no input": (without_input, [], ["has 0 inputs"]),
    "two inputs": (
        shapes(HEAD, inputs={"images": ["n", 3, 64, 64], "scale": ["n", 2]}),
        [],
        ["has 2 inputs", "scale FP32 [*, 2]"],
    ),
    "no image": (shapes(HEAD, inputs={"ids": ["n", 128]}), [], ["no batch of images"]),
    "whole numbers": (
        shapes(HEAD, inputs={"images": ["n", 3, 64, 64]}, element=TensorProto.INT64),
        [],
        ["INT64", "FP32, FP16, UINT8, INT8"],
    ),
    "five channels": (
        shapes(HEAD, inputs={"images": ["n", 5, 64, 64]}),
        [],
        ["neither end", "fixed channels"],
    ),
    "four at once": (
        shapes(HEAD, inputs={"images": [4, 3, 64, 64]}),
        [],
        ["exactly 4 images", "dynamic batch"],
    ),
    "any size": (
        network(families.yolov8(size=("h", "w"))),
        [],
        ["any height and width", "--size 640"],
    ),
    "another size": (network(families.yolov8()), ["--size", "320"], ["--size is 320,320"]),
    "size of words": (network(families.yolov8()), ["--size", "big"], ["--size is 'big'"]),
    "weights missing": (without_external_file, [], ["weights.bin is not there", "put that file"]),
    "weights elsewhere": (with_weights_elsewhere, [], ["../weights.bin", "outside of its folder"]),
    "unknown operator": (families.write_plugin, [], ["EfficientNMS_TRT", "--runtime tensorrt"]),
    "a batch that is none": (
        with_a_batch_that_is_none,
        [],
        ["claims to take any number of images", "--max-batch 1"],
    ),
    "undecoded grids": (
        shapes({"p3": ["n", 255, 8, 8], "p4": ["n", 255, 4, 4], "p5": ["n", 255, 2, 2]}),
        [],
        ["form of no head that is known", "boxes decoded"],
    ),
    "no usual grids": (
        shapes({"output0": ["n", 7, 1000]}),
        [],
        ["look like no head", "no usual grids", "where you know better"],
    ),
    "transposed or with objectness": (
        network(families.transposed(families.yolov8(classes=4))),
        [],
        ["may be yolov5", "--head yolov5"],
    ),
    "boxes not decoded": (
        shapes({"output0": ["n", 7, 84]}),
        [],
        ["do not cover the image", "--head yolov8"],
    ),
    "another head than said": (
        network(families.yolov8()),
        ["--head", "end2end"],
        ["do not have the form of end2end", "they fit yolov8"],
    ),
    "rtdetr": (
        shapes({"output0": ["n", 300, 84]}, metadata={"head": "RTDETRDecoder"}),
        [],
        ["family rtdetr", "does not read", "yolov8"],
    ),
    "a description of the image": (
        network(families.classifier()),
        ["--preset", "torchvision"],
        ["may be classification", "or a description of the image", "--head classification"],
    ),
    "two rows of numbers": (
        shapes({"features": ["n", 512], "logits": ["n", 10]}),
        [],
        [
            "features [512]",
            "logits [10]",
            "--head classification, and which output by --num-classes",
        ],
    ),
    "a classifier that does not say how": (
        network(families.Network({"p": families.Output(np.full(5, 0.4, np.float32))})),
        ["--head", "classification", "--preset", "torchvision"],
        ["--set activation=none, sigmoid or softmax"],
    ),
    "numbers of classes, whole": (
        network(families.Network({"p": families.Output(np.arange(5.0), dtype="int64")})),
        ["--head", "classification", "--preset", "torchvision"],
        ["do not have the form of classification"],
    ),
    "a detector's rows without a batch": (
        network(families.without_batch(families.end2end(batch=1))),
        ["--runtime", "onnxruntime", "--num-classes", 5, "--preset", "ultralytics"],
        ["without a batch dimension", "--runtime python"],
    ),
    "as many rows as are found": (with_varying_rows, [], ["as many rows of rows as it finds"]),
    "an engine is no way out of that": (
        with_a_batch_that_is_none,
        ["--runtime", "tensorrt"],
        ["claims to take any number of images"],
    ),
    "TensorFlow's detector": (
        network(families.tensorflow_detector()),
        [],
        ["tensorflow_detection", "y before x"],
    ),
    "boxes of many anchors and scores": (
        shapes({"b": ["n", 8400, 4], "s": ["n", 8400, 80]}),
        [],
        ["another head of boxes and scores", "does not read"],
    ),
    "masks without metadata": (
        network(families.with_masks(families.yolov8(classes=36))),
        [],
        ["yolov8_seg", "does not read"],
    ),
    "keypoints without metadata": (
        network(families.with_rows(families.yolov8(), high=60.0)),
        [],
        ["scores are of several kinds", "another form"],
    ),
    "anchors of a cell and objectness": (
        network(families.transposed(families.yolov8(classes=4))),
        ["--head", "yolov5"],
        ["--preset"],
    ),
    "corners or centres": (
        network(families.with_corners(families.yolov8())),
        [],
        ["may be corners as well as centres", "--head yolov8"],
    ),
    "corners or centres, of a head that is said": (
        network(families.with_corners(families.yolov8())),
        ["--head", "yolov8"],
        ["--set box_format=xyxy or cxcywh"],
    ),
    "sizes as logarithms": (
        network(families.undecoded(families.transposed(families.yolov8(classes=4)))),
        ["--head", "yolov5"],
        ["do not have the form of yolov5"],
    ),
    "the other way round": (
        network(families.named(families.transposed(families.yolov8(classes=4)), 4)),
        [],
        ["yolov8_transposed", "the other way round"],
    ),
    "boxes and scores the other way round": (
        shapes({"boxes": ["n", 4, 84], "scores": ["n", 80, 84]}),
        [],
        ["another head of boxes and scores"],
    ),
    "masks of yolov5": (
        network(families.with_masks(families.yolov5(classes=36))),
        [],
        ["yolov5_seg", "does not read"],
    ),
    "features of patches": (shapes({"patches": ["n", 197, 768]}), [], ["look like no head"]),
    "a batch that is mixed": (
        families.write_mixing,
        [],
        ["mixes the images of a batch", "--max-batch 1"],
    ),
    "gray by statistics of colours": (
        shapes({"logits": ["n", 4]}, inputs={"x": ["n", 1, 28, 28]}),
        ["--head", "classification", "--preset", "torchvision"],
        ["gray", "--set mean="],
    ),
    "a crop that is no square": (
        network(families.classifier(size=(64, 96))),
        ["--head", "classification", "--preset", "torchvision"],
        ["crops a square", "--set fit=stretch"],
    ),
    "a size for boxes in pixels": (
        network(families.yolov8()),
        ["--set", "input_size=64,64"],
        ["input_size changes nothing"],
    ),
    "the same twice": (
        network(families.yolov8()),
        ["--score-threshold", "0.5", "--set", "score_threshold=0.4"],
        ["score_threshold is given twice"],
    ),
    "the name of the README": (network(families.yolov8()), ["--name", "README.md"], ["README.md"]),
    "an unknown family": (network(families.yolov8()), ["--head", "yolov9"], ["is no family"]),
    "a family in --set": (network(families.yolov8()), ["--set", "head=end2end"], ["with --head"]),
    "classes in --set": (
        network(families.yolov8()),
        ["--set", "num_classes=9"],
        ["with --num-classes"],
    ),
    "an option that does nothing": (
        network(families.yolov8()),
        ["--top-k", 3],
        ["top_k changes nothing", "yolov8"],
    ),
    "a name that leads out": (network(families.yolov8()), ["--name", ".."], ["'..'"]),
    "a name of the folder itself": (network(families.yolov8()), ["--name", "."], ["'.'"]),
    "width by height": (
        network(families.yolov8(size=("h", "w"))),
        ["--size", "64x64"],
        ["height,width"],
    ),
    "a size beyond all": (
        network(families.yolov8(size=("h", "w"))),
        ["--size", "2000000"],
        ["size", "2000000"],
    ),
    "half of nothing": (text(b"words"), ["--fp16"], ["is no ONNX model"]),
    "an output declared for one image": (
        network(families.declared_for_one(families.yolov8())),
        ["--runtime", "onnxruntime"],
        ["declares its output output0 for one"],
    ),
    "labels that cannot be lines": (
        with_labels("cat\x07\ndog\nfish\n"),
        ["--labels", "labels.txt"],
        ["control characters in line 1"],
    ),
    "ssd": (
        shapes({"boxes": ["n", 8732, 4], "scores": ["n", 8732, 91]}),
        [],
        ["family ssd", "does not read"],
    ),
    "segmentation": (
        shapes({"output0": ["n", 116, 84]}, metadata={"task": "segment"}),
        [],
        ["yolov8_seg", "does not read"],
    ),
    "labels too few": (
        with_labels("cat\ndog\n"),
        ["--labels", "labels.txt"],
        ["has 2 lines", "3 classes"],
    ),
    "labels empty": (
        with_labels("cat\n\ndog\n"),
        ["--labels", "labels.txt"],
        ["has an empty line"],
    ),
    "labels not there": (
        network(families.yolov8()),
        ["--labels", "nosuch.txt"],
        ["nosuch.txt cannot be read"],
    ),
    "classes not known": (
        network(families.end2end()),
        ["--preset", "ultralytics"],
        ["--num-classes", "--labels"],
    ),
    "classes of two numbers": (
        network(families.yolov8()),
        ["--num-classes", 9],
        ["--num-classes is 9", "has 3 classes"],
    ),
    "classifier without a recipe": (
        network(families.classifier()),
        ["--head", "classification"],
        ["--preset", "torchvision, inception or vgg"],
    ),
    "detector without a recipe": (
        network(families.efficient_nms()),
        ["--num-classes", 6],
        ["--preset", "ultralytics, rtdetr or ssd"],
    ),
    "unknown preset": (network(families.yolov8()), ["--preset", "yolo"], ["yolo", "ultralytics"]),
    "unknown parameter": (
        network(families.yolov8()),
        ["--set", "threshold=1"],
        ["--set threshold", "score_threshold"],
    ),
    "impossible parameter": (
        network(families.yolov8()),
        ["--set", "pad_value=300"],
        ["pad_value", "0 to 255"],
    ),
    "no assignment": (network(families.yolov8()), ["--set", "upscale"], ["--set is 'upscale'"]),
    "another tensor": (
        network(families.yolov8()),
        ["--set", "layout=nhwc"],
        ["preprocess would make", "[64, 64, 3]"],
    ),
    "int8 without a scale": (
        shapes(HEAD, inputs={"images": ["n", 3, 64, 64]}, element=TensorProto.INT8),
        ["--head", "yolov8"],
        ["INT8", "--set scale="],
    ),
    "a release that is none": (
        network(families.yolov8()),
        ["--triton-version", "latest"],
        ["'latest'", "25.11"],
    ),
    "a name that is none": (network(families.yolov8()), ["--name", "my models"], ["'my models'"]),
    "ids of another type": (
        network(families.efficient_nms(ids="int64")),
        ["--num-classes", 6, "--preset", "ultralytics", "--runtime", "onnxruntime"],
        ["INT64", "--runtime python"],
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_one_sentence_and_nothing_left_behind(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, options, parts = REFUSED[case]
    monkeypatch.chdir(tmp_path)
    model = make(tmp_path / "model.onnx")
    before = sorted(tmp_path.rglob("*"))
    done = init(model, *options)
    assert done.exit_code == 2, done.output
    assert done.stderr.startswith("endcap: ")
    assert done.stderr.count("\n") == 1
    for part in parts:
        assert part in done.stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_with_something_in_it_is_not_touched(tmp_path: Path) -> None:
    model = families.yolov8().write(tmp_path / "model.onnx")
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "mine.txt").write_text("mine")
    done = init(model)
    assert done.exit_code == 2
    assert "is not empty, and nothing in it is overwritten" in done.stderr
    assert [path.name for path in (tmp_path / "models").iterdir()] == ["mine.txt"]


def test_a_file_is_not_overwritten(tmp_path: Path) -> None:
    model = families.yolov8().write(tmp_path / "model.onnx")
    done = init(model, output=model)
    assert done.exit_code == 2
    assert "is a file" in done.stderr
    onnx.load(str(model))


def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    model = families.yolov8().write(tmp_path / "model.onnx")
    for output, part in ((tmp_path / "no" / "such", "is no folder"), (Path("/proc/m"), "/proc/")):
        done = init(model, output=output)
        assert done.exit_code == 2
        assert part in done.stderr


def test_a_failure_while_writing_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise OSError(28, "No space left on device", str(tmp_path))

    model = families.yolov8().write(tmp_path / "model.onnx")
    monkeypatch.setattr("shutil.copyfile", fail)
    done = init(model)
    assert done.exit_code == 2
    assert "No space left on device" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]


@pytest.mark.parametrize("package", ["onnx", "onnxruntime", "jinja2"])
def test_a_missing_package_is_named(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = families.yolov8().write(tmp_path / "model.onnx")
    monkeypatch.setitem(sys.modules, package, None)
    done = init(model)
    assert done.exit_code == 2
    assert package in done.stderr
    assert "pip install 'endcap[init]'" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]
