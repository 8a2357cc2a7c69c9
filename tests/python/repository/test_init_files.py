"""endcap init, what it writes for each runtime, and what it prints."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from google.protobuf import text_format
from PIL import Image
from tritonclient.grpc import model_config_pb2

from endcap.repository.writing import join_labels
from tests.support import family_networks as families
from tests.support import odd_networks as odd
from tests.support.cli_runs import endcap
from tests.support.family_networks import Network
from tests.support.init_runs import COMMON, files, init, written

SHIPPED = Path(__file__).resolve().parents[3] / "model_repository"


def config(model: Path) -> model_config_pb2.ModelConfig:
    text = (model / "config.pbtxt").read_text(encoding="utf-8")
    return text_format.Parse(text, model_config_pb2.ModelConfig())


@pytest.mark.parametrize(
    ("runtime", "more"),
    [
        ("endcap_onnx", {"detector/1/model.onnx"}),
        ("onnxruntime", {"detector/1/model.onnx"}),
        ("openvino", {"detector/1/model.onnx"}),
        ("tensorrt", {"detector/model.onnx"}),
    ],
)
def test_files_and_backend_of_each_runtime(runtime: str, more: set[str], tmp_path: Path) -> None:
    models = written(tmp_path, families.yolov8(), "--runtime", runtime)
    assert files(models) == COMMON | more
    network = config(models / "detector")
    assert network.backend == runtime
    assert network.default_model_filename == ("model.onnx" if runtime == "openvino" else "")
    assert [(each.name, list(each.dims)) for each in network.output] == [("output0", [7, 84])]
    for model in ("preprocess", "postprocess", "detector", "detect"):
        assert (models / model / "1").is_dir()


def test_a_dali_pipeline_is_written_for_both_places(tmp_path: Path) -> None:
    options = ("--preprocess", "dali", "--self-contained", "--max-batch", 4)
    done = init(families.yolov8().write(tmp_path / "model.onnx"), *options)
    assert done.exit_code == 0, done.stderr
    assert "endcap dali build" in done.stdout
    models = tmp_path / "models"
    libraries = {path for path in files(models) if Path(path).name.startswith("lib")}
    assert {path.split("/")[0] for path in libraries} == {"detector", "postprocess"}
    assert files(models) - libraries == COMMON | {
        "detector/1/model.onnx",
        "preprocess/1/model.py",
        "preprocess/1/dali.py",
        "preprocess/configs/dali.pbtxt",
        "preprocess/warmup/picture.jpg",
        "detect/configs/dali.pbtxt",
    }
    shipped = SHIPPED / "preprocess_dali" / "1" / "model.py"
    assert (models / "preprocess/1/model.py").read_bytes() == shipped.read_bytes()
    assert config(models / "preprocess").backend == "python"
    assert "optional" not in config(models / "preprocess").parameters  # nothing goes without it
    assert "batch_size=4," in (models / "preprocess/1/dali.py").read_text()
    readme = (models / "README.md").read_text()
    assert "endcap dali build" in readme
    assert "--config-name dali" in readme
    assert endcap("validate", models, "--strict").exit_code == 0


def test_validate_accepts_what_the_file_leaves_open(tmp_path: Path) -> None:
    path = odd.write_open(tmp_path / "model.onnx")
    assert init(path, "--runtime", "onnxruntime").exit_code == 0
    models = tmp_path / "models"
    assert "dims: [ -1, -1 ]" in (models / "detector" / "config.pbtxt").read_text()
    assert endcap("validate", models, "--strict").exit_code == 0


def test_validate_misses_the_engine(tmp_path: Path) -> None:
    models = written(tmp_path, families.yolov8(), "--runtime", "tensorrt")
    done = endcap("validate", models)
    assert done.exit_code == 1
    assert "model.plan" in done.stdout
    assert done.stdout.count("error:") == 1


def test_tensorrt_says_how_the_engine_is_made(tmp_path: Path) -> None:
    done = init(families.yolov8().write(tmp_path / "model.onnx"), "--runtime", "tensorrt")
    assert "engine is missing" in done.stdout
    readme = (tmp_path / "models" / "README.md").read_text()
    assert "--saveEngine=detector/1/model.plan" in readme
    assert "--maxShapes=images:16x3x64x64" in readme


def test_options_of_serving(tmp_path: Path) -> None:
    options = ["--name", "parts", "--instances", 3, "--max-batch", 4]
    models = written(tmp_path, families.yolov8(), *options)
    folders = {path.name for path in models.iterdir() if path.is_dir()}
    assert folders == {"parts", "parts_preprocess", "parts_detector", "parts_postprocess"}
    assert [group.count for group in config(models / "parts_detector").instance_group] == [3]
    ensemble = config(models / "parts")
    assert ensemble.max_batch_size == 4
    steps = [step.model_name for step in ensemble.ensemble_scheduling.step]
    assert steps == ["parts_preprocess", "parts_detector", "parts_postprocess"]


def test_names_with_quotes_and_in_other_scripts_arrive(tmp_path: Path) -> None:
    names = ['a "quoted" one', "back\\slash", "größe, groß"]
    network = families.yolov8(metadata={"names": str(names), "stride": "32"})
    models = written(tmp_path, network)
    assert config(models / "detect").parameters["labels"].string_value == join_labels((*names,))
    lines = (models / "detector" / "labels.txt").read_text(encoding="utf-8").splitlines()
    assert lines == names


def test_tensor_names_with_odd_characters_arrive(tmp_path: Path) -> None:
    odd = 'StatefulPartitionedCall:0 "x"\\y'
    network = families.yolov8()
    renamed = Network({odd: network.outputs["output0"]})
    models = written(tmp_path, renamed)
    assert config(models / "detector").output[0].name == odd
    step = config(models / "detect").ensemble_scheduling.step[1]
    assert dict(step.output_map) == {odd: "head"}


def test_the_warm_up_is_a_jpeg(tmp_path: Path) -> None:
    element = (written(tmp_path, families.yolov8()) / "preprocess/warmup/encoded").read_bytes()
    assert int.from_bytes(element[:4], "little") == len(element) - 4
    (tmp_path / "warm.jpg").write_bytes(element[4:])
    with Image.open(tmp_path / "warm.jpg") as picture:
        assert picture.format == "JPEG"


def test_decisions_are_printed_with_reasons(tmp_path: Path) -> None:
    done = init(families.yolov8(batch=1).write(tmp_path / "model.onnx"))
    for part in ("84 cells of strides 8, 16, 32", "one image at a time", "yolov8", "Wrote"):
        assert part in done.stdout
    assert "takes one image at a time, which is slower" in done.stderr
    readme = (tmp_path / "models" / "README.md").read_text()
    assert "84 cells of strides 8, 16, 32" in readme


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (("a", "b c"), "a,b c"),
        (("a", "b, c"), '["a", "b, c"]'),
        (("[a", "b"), '["[a", "b"]'),
        ((" a", "b"), '[" a", "b"]'),
        (("ä,",), '["ä,"]'),
    ],
)
def test_labels_as_one_text(names: tuple[str, ...], text: str) -> None:
    assert join_labels(names) == text


def test_a_network_of_one_image_limits_the_ensemble_and_no_other_step(tmp_path: Path) -> None:
    models = written(tmp_path, families.yolov8(batch=1), "--max-batch", 8)
    names = ("preprocess", "detector", "postprocess", "detect")
    sizes = tuple(config(models / name).max_batch_size for name in names)
    assert sizes == (8, 0, 8, 1)  # 0: the file's own batch of one is part of the shape


@pytest.mark.parametrize("name", ["$(touch x);x y", "-o", "x[b]y[v2]"])
def test_the_folder_is_one_word_of_every_command(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = families.yolov8().write(tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path)
    done = endcap("init", model, f"--output={name}", "--self-contained", columns=200)
    assert done.exit_code == 0, done.stderr
    shown = name if name != "-o" else "./-o"
    lines = (Path(name) / "README.md").read_text().splitlines()
    (serve,) = (line for line in lines if line.startswith("    endcap serve"))
    assert shlex.split(serve) == ["endcap", "serve", shown]
    (server,) = (line for line in lines if line.startswith("    tritonserver"))
    assert shlex.split(server) == ["tritonserver", f"--model-repository=/path/to/{shown}"]
    (after,) = (line for line in done.stdout.splitlines() if line.startswith("Next: "))
    assert shlex.split(after.removeprefix("Next: ")) == ["endcap", "serve", shown]


def test_control_characters_are_refused(tmp_path: Path) -> None:
    """In names that would be lines of config.pbtxt, and words of commands."""
    model = onnx.load(str(families.yolov8().write(tmp_path / "model.onnx")))
    done = init(tmp_path / "model.onnx", output=tmp_path / "new\nline")
    assert "has control characters; give --output" in done.stderr
    for node in model.graph.node:
        node.input[:] = ["im\nages" if each == "images" else each for each in node.input]
    model.graph.input[0].name = "im\nages"
    onnx.save(model, str(tmp_path / "model.onnx"))
    done = init(tmp_path / "model.onnx")
    assert done.exit_code == 2
    assert "a tensor whose name has control characters ('im\\nages')" in done.stderr


def test_the_folder_one_stands_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    model = families.yolov8().write(tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path / "here")
    assert init(model, output=Path()).exit_code == 0
    assert "endcap serve here" in Path("README.md").read_text()


@pytest.mark.parametrize("name", ["`touch x` | <b>.onnx", "new\n```sh\nrm -rf ~.onnx"])
def test_markup_in_a_models_file_name_is_escaped(tmp_path: Path, name: str) -> None:
    done = init(families.yolov8().write(tmp_path / name))
    assert done.exit_code == 0, done.stderr
    assert "\n```sh" not in done.stdout
    title, *rest = (tmp_path / "models" / "README.md").read_text().splitlines()
    fence = "````" if "```" in name else "``"
    assert title.startswith("# detect: " + fence)
    assert "touch x" in title or "rm -rf" in title
    assert not any(line.startswith("rm -rf") for line in rest)


def test_names_of_a_network_are_no_links_in_the_readme(tmp_path: Path) -> None:
    network = families.yolov8()
    (output,) = network.outputs.values()
    name = "![x](http://evil/x.png) [y](javascript:z)"
    replace(network, outputs={name: output}).write(tmp_path / "model.onnx")
    done = init(tmp_path / "model.onnx", "--num-classes", "3")
    assert done.exit_code == 0, done.output
    text = (tmp_path / "models" / "README.md").read_text()
    cells = [line for line in text.splitlines() if "evil" in line and line.startswith("|")]
    assert cells
    for line in cells:
        outside_of_code = re.sub(r"(`+).*?\1", "", line)
        assert not re.search(r"(?<!\\)\[[^\]]*\]\(", outside_of_code), line
