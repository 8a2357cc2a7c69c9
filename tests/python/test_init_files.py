"""endcap init, what it writes for each runtime, and what it prints."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import family_networks as families
import onnx
import pytest
from cli_runs import endcap
from family_networks import Network
from google.protobuf import text_format
from init_runs import init
from PIL import Image
from tritonclient.grpc import model_config_pb2

from endcap.repository.rendering import joined_labels

SHIPPED = Path(__file__).resolve().parents[2] / "model_repository"


def written(folder: Path, network: Network, *options: object) -> Path:
    done = init(network.write(folder / "model.onnx"), *options)
    assert done.exit_code == 0, done.stderr
    return folder / "models"


def config(model: Path) -> model_config_pb2.ModelConfig:
    text = (model / "config.pbtxt").read_text(encoding="utf-8")
    return text_format.Parse(text, model_config_pb2.ModelConfig())


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


COMMON = {
    "README.md",
    "preprocess/config.pbtxt",
    "preprocess/warmup/encoded",
    "detector/config.pbtxt",
    "postprocess/config.pbtxt",
    "detect/config.pbtxt",
}


@pytest.mark.parametrize(
    ("runtime", "more"),
    [
        ("python", {"detector/1/model.py", "detector/1/model.onnx"}),
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


@pytest.mark.parametrize("runtime", ["python", "onnxruntime", "openvino"])
@pytest.mark.parametrize("batch", [1, "batch"])
def test_validate_agrees_with_what_is_written(
    runtime: str, batch: int | str, tmp_path: Path
) -> None:
    models = written(tmp_path, families.yolov8(batch=batch), "--runtime", runtime)
    done = endcap("validate", models, "--strict")
    assert done.exit_code == 0, done.stdout


def test_validate_wants_minus_one_where_the_file_is_open(tmp_path: Path) -> None:
    path = families.write_open(tmp_path / "model.onnx")
    assert init(path, "--runtime", "onnxruntime").exit_code == 0
    models = tmp_path / "models"
    assert endcap("validate", models, "--strict").exit_code == 0
    file = models / "detector" / "config.pbtxt"
    file.write_text(file.read_text().replace("dims: [ -1, -1 ]", "dims: [ 7, 84 ]"))
    done = endcap("validate", models, "--strict")
    assert done.exit_code == 1
    assert "write -1 for what the file leaves open" in done.stdout


def test_validate_misses_the_engine(tmp_path: Path) -> None:
    models = written(tmp_path, families.yolov8(), "--runtime", "tensorrt")
    done = endcap("validate", models)
    assert done.exit_code == 1
    assert "model.plan" in done.stdout
    assert done.stdout.count("error:") == 1


def test_tensorrt_says_how_the_engine_is_made(tmp_path: Path) -> None:
    done = init(families.yolov8().write(tmp_path / "model.onnx"), "--runtime", "tensorrt")
    assert "engine is still missing" in done.stdout
    readme = (tmp_path / "models" / "README.md").read_text()
    assert "--saveEngine=detector/1/model.plan" in readme
    assert "--maxShapes=images:16x3x64x64" in readme


def test_half_precision_reaches_every_step(tmp_path: Path) -> None:
    models = written(tmp_path, families.yolov8(), "--fp16", "--runtime", "onnxruntime")
    half = model_config_pb2.TYPE_FP16
    assert config(models / "preprocess").output[0].data_type == half
    assert config(models / "detector").input[0].data_type == half
    assert config(models / "detector").output[0].data_type == half
    assert config(models / "postprocess").input[0].data_type == half
    graph = onnx.load(str(models / "detector/1/model.onnx")).graph
    assert graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT16


def test_options_of_serving(tmp_path: Path) -> None:
    options = ["--name", "parts", "--instances", 3, "--max-batch", 4, "--triton-version", "25.11"]
    models = written(tmp_path, families.yolov8(), *options)
    folders = {path.name for path in models.iterdir() if path.is_dir()}
    assert folders == {"parts", "parts_preprocess", "parts_detector", "parts_postprocess"}
    assert [group.count for group in config(models / "parts_detector").instance_group] == [3]
    ensemble = config(models / "parts")
    assert ensemble.max_batch_size == 4
    assert ensemble.ensemble_scheduling.max_inflight_requests == 8
    steps = [step.model_name for step in ensemble.ensemble_scheduling.step]
    assert steps == ["parts_preprocess", "parts_detector", "parts_postprocess"]


def test_the_wheels_server_gets_no_field_that_it_does_not_know(tmp_path: Path) -> None:
    models = written(tmp_path, families.yolov8())
    assert "max_inflight_requests" not in (models / "detect" / "config.pbtxt").read_text()


def test_names_with_quotes_and_in_other_scripts_arrive(tmp_path: Path) -> None:
    names = ['a "quoted" one', "back\\slash", "größe, groß"]
    network = families.yolov8(metadata={"names": str(names), "stride": "32"})
    models = written(tmp_path, network)
    assert config(models / "detect").parameters["labels"].string_value == joined_labels((*names,))
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


def test_external_weights_come_along(tmp_path: Path) -> None:
    model = onnx.load(str(families.yolov8().write(tmp_path / "inside.onnx")))
    path = tmp_path / "model.onnx"
    onnx.save(
        model, str(path), save_as_external_data=True, location="weights.bin", size_threshold=100
    )
    assert init(path).exit_code == 0
    copied = tmp_path / "models" / "detector" / "1" / "weights.bin"
    assert copied.read_bytes() == (tmp_path / "weights.bin").read_bytes()


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    assert files(written(tmp_path, families.yolov8())) >= COMMON


def test_the_warm_up_is_a_jpeg(tmp_path: Path) -> None:
    element = (written(tmp_path, families.yolov8()) / "preprocess/warmup/encoded").read_bytes()
    assert int.from_bytes(element[:4], "little") == len(element) - 4
    (tmp_path / "warm.jpg").write_bytes(element[4:])
    with Image.open(tmp_path / "warm.jpg") as picture:
        assert picture.format == "JPEG"


def test_it_says_what_it_found_and_why(tmp_path: Path) -> None:
    done = init(families.yolov8(batch=1).write(tmp_path / "model.onnx"))
    for part in ("84 cells of strides 8, 16, 32", "one image at a time", "yolov8", "Wrote"):
        assert part in done.stdout
    assert "takes one image at a time, which wastes" in done.stderr
    readme = (tmp_path / "models" / "README.md").read_text()
    assert "84 cells of strides 8, 16, 32" in readme


def test_the_model_py_is_the_shipped_detectors(tmp_path: Path) -> None:
    shipped = SHIPPED / "detector" / "1" / "model.py"
    models = written(tmp_path, families.yolov8())
    assert (models / "detector" / "1" / "model.py").read_bytes() == shipped.read_bytes()


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
    assert joined_labels(names) == text


@pytest.mark.parametrize("is_there", [False, True])
def test_no_half_folder_is_ever_seen(
    is_there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the largest files are copied, the last things, no model is where it will be."""
    model = families.yolov8().write(tmp_path / "model.onnx")
    models = tmp_path / "models"
    if is_there:
        models.mkdir()
    seen: list[list[str]] = []
    copy = shutil.copyfile

    def look_and_copy(source: Path, target: Path) -> None:
        folders = list(models.glob("*")) if models.is_dir() else []
        seen.append([each.name for each in folders if not each.name.startswith(".")])
        copy(source, target)

    monkeypatch.setattr("shutil.copyfile", look_and_copy)
    assert init(model).exit_code == 0
    assert seen == [[]]
    assert [each.name for each in (tmp_path, models) if list(each.glob(".*"))] == []


def test_a_folder_that_is_there_stays_the_same_one(tmp_path: Path) -> None:
    models = tmp_path / "models"
    models.mkdir()
    before = models.stat().st_ino
    assert files(written(tmp_path, families.yolov8())) >= COMMON
    assert models.stat().st_ino == before


def test_the_folder_one_stands_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    model = families.yolov8().write(tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path / "here")
    assert init(model, output=Path()).exit_code == 0
    assert "endcap serve here" in Path("README.md").read_text()


def test_a_failure_at_the_end_empties_the_folder_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = families.yolov8().write(tmp_path / "model.onnx")
    (tmp_path / "models").mkdir()
    rename = Path.rename

    def fail_at_preprocess(path: Path, target: Path) -> Path:
        if path.name == "preprocess":
            raise OSError(5, "Input/output error", str(target))
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fail_at_preprocess)
    done = init(model)
    assert done.exit_code == 2
    assert "Input/output error" in done.stderr
    assert list((tmp_path / "models").iterdir()) == []


@pytest.mark.parametrize(("batch", "steps"), [(1, (8, 1, 8, 1)), ("batch", (8, 8, 8, 8))])
def test_a_network_of_one_image_limits_the_ensemble_and_no_other_step(
    batch: int | str, steps: tuple[int, ...], tmp_path: Path
) -> None:
    models = written(tmp_path, families.yolov8(batch=batch), "--max-batch", 8)
    names = ("preprocess", "detector", "postprocess", "detect")
    assert tuple(config(models / name).max_batch_size for name in names) == steps


def test_names_that_would_break_a_comment_or_a_table_do_not(tmp_path: Path) -> None:
    odd = Network({"out\nput | x": families.yolov8().outputs["output0"]})
    models = written(tmp_path, odd)
    assert config(models / "postprocess").backend == "endcap_postprocess"
    assert config(models / "detector").output[0].name == "out\nput | x"
    rows = [line for line in (models / "README.md").read_text().splitlines() if "| head |" in line]
    assert [row.replace("\\|", "").count("|") for row in rows] == [4]


def test_the_folder_may_look_like_markup(tmp_path: Path) -> None:
    model = families.yolov8().write(tmp_path / "model.onnx")
    output = tmp_path / "x[b]y[v2]"
    done = init(model, output=output)
    assert done.exit_code == 0
    assert str(output) in done.stdout


@pytest.mark.parametrize(("name", "written_as"), [("images", "images"), ("input:0", "'input:0'")])
def test_trtexec_gets_the_shapes_through_a_shell(
    name: str, written_as: str, tmp_path: Path
) -> None:
    model = onnx.load(str(families.yolov8().write(tmp_path / "model.onnx")))
    for node in model.graph.node:
        node.input[:] = [name if each == "images" else each for each in node.input]
    model.graph.input[0].name = name
    onnx.save(model, str(tmp_path / "model.onnx"))
    assert init(tmp_path / "model.onnx", "--runtime", "tensorrt").exit_code == 0
    readme = (tmp_path / "models" / "README.md").read_text()
    (line,) = (line for line in readme.splitlines() if "trtexec" in line)
    assert f"--optShapes={written_as}:8x3x64x64" in shlex.split(line)


def test_labels_as_other_programs_write_them(tmp_path: Path) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_bytes(b"\xef\xbb\xbfcat\r\ndog\r\nfish\r\n")
    models = written(tmp_path, families.yolov8(), "--labels", labels)
    assert config(models / "detect").parameters["labels"].string_value == "cat,dog,fish"
