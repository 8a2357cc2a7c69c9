"""An ensemble's steps in one process: the results are those of the library's steps."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import endcap
from endcap.batch.pipeline import Pipeline, PipelineSpec
from endcap.batch.storage import BatchError
from endcap.client.results import Task
from endcap.errors import UnsupportedError
from tests.support.cli_runs import endcap as endcap_command
from tests.support.jpegs import encode
from tests.support.onnx_heads import network

REPOSITORY = Path(__file__).resolve().parents[3] / "model_repository"
SAMPLES = sorted((REPOSITORY / "detect" / "samples").glob("shapes_[3-8]*.jpg"))
LABELS = ("circle", "square", "triangle", "star", "cross", "ring")


@pytest.fixture(scope="module")
def spec() -> PipelineSpec:
    return PipelineSpec.from_repository(REPOSITORY)


def named(paths: list[Path]) -> list[tuple[str, bytes]]:
    return [(path.name, path.read_bytes()) for path in paths]


def steps(image: bytes) -> endcap.ImageDetections:
    """The oracle: the library's own steps, an image at a time."""
    inputs = endcap.Preprocessor("ultralytics", size=640)(image)
    session = onnxruntime.InferenceSession(str(REPOSITORY / "detector" / "1" / "model.onnx"))
    (head,) = session.run(None, {"images": inputs.images})
    post = endcap.Postprocessor("yolov8", 6, score_threshold=0.4)
    return post(head, inputs.geometry, inputs.status)[0]


def test_what_a_repository_says(spec: PipelineSpec) -> None:
    assert spec.task is Task.detection
    assert spec.network == "model.onnx"
    assert spec.heads == {"head": "head"}
    assert spec.labels == LABELS
    assert spec.postprocess["score_threshold"] == "0.4"


def test_results_are_those_of_the_steps(spec: PipelineSpec) -> None:
    rows = Pipeline(spec, threads=1).detect(named(SAMPLES))
    assert sum(len(row.result.detections) for row in rows) > 20
    for row, path in zip(rows, SAMPLES, strict=True):
        expected = steps(path.read_bytes())
        found = row.result.detections
        assert (row.result.image, row.result.status) == (path.name, "ok")
        np.testing.assert_array_equal(found.class_ids, expected.class_ids)
        # In a batch ONNX Runtime adds in another order.
        np.testing.assert_allclose(found.boxes, expected.boxes, atol=0.01)
        np.testing.assert_allclose(found.scores, expected.scores, atol=1e-4)
        assert found.labels == [LABELS[class_id] for class_id in expected.class_ids]


def test_sizes_are_upright(spec: PipelineSpec) -> None:
    (turned,) = [path for path in SAMPLES if "exif6" in path.name]
    (row,) = Pipeline(spec, threads=1).detect(named([turned]))
    assert (row.width, row.height) == (600, 800)


def test_a_bad_image_does_not_affect_the_others(spec: PipelineSpec) -> None:
    pipeline = Pipeline(spec, threads=1)
    good = named(SAMPLES[:2])
    cut = good[0][1][: len(good[0][1]) // 2]
    rows = pipeline.detect(
        [good[0], ("cut.jpg", cut), ("text.jpg", b"text"), ("empty", b""), good[1]]
    )
    assert [row.result.status for row in rows] == [
        "ok", "corrupt_image", "corrupt_image", "corrupt_image", "ok",
    ]  # fmt: skip
    assert all(row.result.error for row in rows[1:4])
    alone = [pipeline.detect([each])[0].result for each in good]
    for row, result in zip((rows[0], rows[4]), alone, strict=True):
        np.testing.assert_allclose(row.result.detections.boxes, result.detections.boxes, atol=0.01)


def test_a_bad_head_does_not_affect_the_others(
    spec: PipelineSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = Pipeline(spec, threads=1)
    run = pipeline._run

    def with_nan(tensors: np.ndarray) -> dict[str, np.ndarray]:
        heads = run(tensors)
        heads["head"] = heads["head"].copy()
        heads["head"][1] = np.nan
        return heads

    monkeypatch.setattr(pipeline, "_run", with_nan)
    rows = pipeline.detect(named(SAMPLES[:3]))
    assert [row.result.status for row in rows] == ["ok", "invalid_argument", "ok"]
    assert "NaN" in str(rows[1].result.error)


def test_a_network_for_one_image_runs_once_for_each(spec: PipelineSpec, tmp_path: Path) -> None:
    model = onnx.load_from_string(spec.files["model.onnx"])
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 1
    one = dataclasses.replace(spec, files={"model.onnx": model.SerializeToString()})
    images = named(SAMPLES[:3])
    found = [row.result.detections for row in Pipeline(one, threads=1).detect(images)]
    expected = [row.result.detections for row in Pipeline(spec, threads=1).detect(images)]
    for ours, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours.boxes, other.boxes, atol=0.01)


# Its three scores are the means of red, green and blue.
MEANS = network(
    "(float[n,3,32,32] image) => (float[n,3] logits)",
    "logits = ReduceMean<axes=[2, 3], keepdims=0>(image)",
)


def test_a_classifier(tmp_path: Path) -> None:
    onnx.save(MEANS, tmp_path / "means.onnx")
    (tmp_path / "labels.txt").write_text("red\ngreen\nblue\n")
    made = endcap_command(
        "init", tmp_path / "means.onnx", "-o", tmp_path / "models", "--head", "classification",
        "--preset", "torchvision", "--labels", tmp_path / "labels.txt", "--set", "top_k=2",
        "--set", "activation=softmax",
    )  # fmt: skip
    assert made.exit_code == 0, made.stderr
    spec = PipelineSpec.from_repository(tmp_path / "models", "classify")
    assert (spec.task, spec.labels) == (Task.classification, ("red", "green", "blue"))
    picture = np.zeros((40, 40, 3), np.uint8)
    picture[..., 1], picture[..., 2] = 200, 100
    row, bad = Pipeline(spec, threads=1).detect([("a", encode(picture, quality=95)), ("b", b"no")])
    assert [each.label for each in row.result.classes] == ["green", "blue"]
    assert row.result.classes[0].score > row.result.classes[1].score > 0
    assert (bad.result.status, bad.result.classes) == ("corrupt_image", [])


def test_weights_beside_the_network_travel(spec: PipelineSpec, tmp_path: Path) -> None:
    repository = tmp_path / "models"
    shutil.copytree(REPOSITORY, repository)
    model = onnx.load_from_string(spec.files["model.onnx"])
    file = repository / "detector" / "1" / "model.onnx"
    file.unlink()
    onnx.save(model, str(file), save_as_external_data=True, location="weights.bin")
    found = PipelineSpec.from_repository(repository)
    assert set(found.files) == {"model.onnx", "weights.bin"}
    rows = Pipeline(found, threads=1).detect(named(SAMPLES[:1]))
    assert len(rows[0].result.detections) > 0


def test_another_pipeline_has_another_identity(spec: PipelineSpec) -> None:
    others = [
        dataclasses.replace(spec, files={"model.onnx": b"another"}),
        dataclasses.replace(spec, postprocess={**spec.postprocess, "score_threshold": "0.5"}),
    ]
    assert len({each.identity for each in (spec, *others)}) == 3
    assert dataclasses.replace(spec).identity == spec.identity


def test_an_engine_needs_a_server(tmp_path: Path) -> None:
    shutil.copytree(REPOSITORY, tmp_path / "m", ignore=shutil.ignore_patterns("model.onnx"))
    with pytest.raises(UnsupportedError, match=r"has no ONNX file.*give the server's address"):
        PipelineSpec.from_repository(tmp_path / "m")


def test_damaged_network_is_reported(spec: PipelineSpec) -> None:
    damaged = dataclasses.replace(spec, files={"model.onnx": b"no network"})
    with pytest.raises(BatchError, match=r"network model\.onnx cannot be loaded"):
        Pipeline(damaged)


def test_cuda_needs_an_onnxruntime_for_it(spec: PipelineSpec) -> None:
    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("this ONNX Runtime has it")
    with pytest.raises((BatchError, endcap.CudaError)):
        Pipeline(spec, device="cuda")
