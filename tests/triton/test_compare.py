"""`endcap infer --compare` with the shipped repository, and with other heads, on a real server."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jpegs
import numpy as np
import pytest
from network_repository import DETECTIONS, Network, Tensor, write_ensemble
from onnx_heads import write_classifier, write_heads
from running_server import FREE_PORTS
from sample_heads import efficient_nms_outputs, end2end_head
from tolerances import COMPARED_BOX_PIXELS, COMPARED_SCORE
from typer.testing import CliRunner, Result

from endcap.cli.app import app
from endcap.server import ServerSettings, TritonServer
from endcap.server.override import repository_with

REPOSITORY = Path(__file__).resolve().parents[2] / "model_repository"
SAMPLES = sorted((REPOSITORY / "detect" / "samples").glob("*.jpg"))


def infer(server: TritonServer, *arguments: object) -> Result:
    command = ["infer", *arguments, "--url", server.grpc_url]
    return CliRunner(env={"COLUMNS": "80"}).invoke(app, [str(each) for each in command])


def comparisons(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return [row["comparison"] for row in json.loads(result.stdout)]


def unmatched(found: list[dict[str, Any]]) -> int:
    return sum(len(each["only_served"]) + len(each["only_reference"]) for each in found)


def assert_alike(found: list[dict[str, Any]]) -> None:
    assert unmatched(found) == 0
    for each in found:
        assert each["served"] == each["reference"] == each["matched"] > 0
        assert each["largest_score_difference"] <= COMPARED_SCORE
        assert (each["largest_box_difference_pixels"] or 0) <= COMPARED_BOX_PIXELS


# --- the shipped repository -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def shipped() -> Iterator[TritonServer]:
    with TritonServer(REPOSITORY, ServerSettings(ports=FREE_PORTS)) as running:
        yield running


def test_every_detection_of_the_samples_has_its_partner(shipped: TritonServer) -> None:
    found = comparisons(
        infer(shipped, REPOSITORY / "detect" / "samples", "--compare", REPOSITORY, "--json")
    )
    assert len(found) == len(SAMPLES) > 0
    assert_alike(found)


def test_the_table_ends_with_the_worst_of_all(shipped: TritonServer) -> None:
    result = infer(shipped, *SAMPLES[:3], "--compare", REPOSITORY)
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.stdout.splitlines()]
    rows = [line for line in lines if len(line) == 8 and line[-2] == "px"]
    assert lines[-2] == ["all", "3", "compared", "images"]
    assert [int(cell) for cell in rows[-1][:5]] == [
        sum(int(row[column]) for row in rows[:-1]) for column in range(5)
    ]
    assert float(rows[-1][-1]) == max(float(row[-1]) for row in rows[:-1])


def test_another_threshold_of_the_server_shows(shipped: TritonServer) -> None:
    changed = {"score_threshold": "0.05"}
    with repository_with(REPOSITORY, backend="endcap_postprocess", parameters=changed) as other:
        found = comparisons(infer(shipped, *SAMPLES[:4], "--compare", other, "--json"))
    missing = [each for one in found for each in one["only_reference"]]
    assert len(missing) > 0
    assert max(each["score"] for each in missing) <= 0.4, "only what the server cuts off"
    assert sum(len(each["only_served"]) for each in found) == 0
    assert all(each["matched"] == each["served"] for each in found)


@pytest.mark.parametrize(
    "recipe",
    [{"preset": "vgg", "fit": "letterbox"}, {"fit": "stretch"}, {"exif": "ignore"}],
    ids=["colours", "stretched", "not upright"],
)
def test_another_recipe_of_the_server_shows(shipped: TritonServer, recipe: dict[str, str]) -> None:
    parameters = {"size": "640,640", **recipe}
    with repository_with(REPOSITORY, backend="endcap_preprocess", parameters=parameters) as other:
        found = comparisons(infer(shipped, *SAMPLES, "--compare", other, "--json"))
    assert unmatched(found) > 0


def test_a_bad_image_fails_alone(shipped: TritonServer, tmp_path: Path) -> None:
    bad = tmp_path / "bad.jpg"
    bad.write_bytes(b"no picture")
    result = infer(shipped, bad, SAMPLES[0], "--compare", REPOSITORY, "--json")
    assert result.exit_code == 1
    first, second = json.loads(result.stdout)
    assert (first["status"], first["comparison"]) == ("corrupt_image", None)
    assert_alike([second["comparison"]])


def test_a_network_may_be_given(shipped: TritonServer, tmp_path: Path) -> None:
    """Where the repository has an engine only."""
    repository = tmp_path / "models"
    shutil.copytree(REPOSITORY, repository, ignore=shutil.ignore_patterns("model.onnx"))
    result = infer(shipped, SAMPLES[0], "--compare", repository)
    assert result.exit_code == 2
    assert "detector/1 has no model.onnx" in result.stderr
    assert "give it with --network FILE.onnx" in result.stderr
    network = REPOSITORY / "detector" / "1" / "model.onnx"
    options = ["--compare", repository, "--network", network, "--json"]
    assert_alike(comparisons(infer(shipped, SAMPLES[0], *options)))


# --- other heads ----------------------------------------------------------------------------------

IMAGE = Tensor("TYPE_FP32", [3, 96, 128])
_INTO_THE_IMAGE = 0.15  # the boxes are made for tensors of 600 pixels
PLAIN = {"preset": "ultralytics", "size": "96,128"}


@pytest.fixture(scope="module")
def heads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a classifier, and detectors of two families whose names are their own."""
    folder = tmp_path_factory.mktemp("networks")
    repository = tmp_path_factory.mktemp("repository")
    _write_classifier(repository, folder)
    rows = end2end_head(3, rows=40, num_classes=7)
    rows[:, :4] *= _INTO_THE_IMAGE
    write_ensemble(
        repository,
        "end2end",
        Network(
            file=write_heads(folder / "end2end.onnx", {"output0": rows}, image=IMAGE.dims),
            images=IMAGE,
            outputs={"output0": Tensor("TYPE_FP32", [40, 6])},
            heads={"head": "output0"},
        ),
        preprocess=PLAIN,
        postprocess={"head": "end2end", "num_classes": 7},
        answers=DETECTIONS,
    )
    four = efficient_nms_outputs(12)
    four["boxes"] = four["boxes"] * np.float32(_INTO_THE_IMAGE)
    names = {"num_detections": "n", "boxes": "b", "scores": "s", "classes": "c"}
    own = {names[name]: value for name, value in reversed(four.items())}
    kinds = {"int32": "TYPE_INT32", "float32": "TYPE_FP32"}
    write_ensemble(
        repository,
        "efficient",
        Network(
            file=write_heads(folder / "efficient.onnx", own, image=IMAGE.dims),
            images=IMAGE,
            outputs={n: Tensor(kinds[v.dtype.name], list(v.shape)) for n, v in own.items()},
            heads=names,
        ),
        preprocess=PLAIN,
        postprocess={"head": "efficient_nms", "num_classes": 7},
        answers=DETECTIONS,
    )
    return repository


def _write_classifier(repository: Path, folder: Path) -> None:
    write_ensemble(
        repository,
        "classify",
        Network(
            file=write_classifier(folder / "classify.onnx", image=[3, 64, 64], factor=4.0),
            images=Tensor("TYPE_FP32", [3, 64, 64]),
            outputs={"logits": Tensor("TYPE_FP32", [3])},
            heads={"logits": "logits"},
        ),
        preprocess={"preset": "torchvision", "size": 64, "resize_shorter": 72},
        postprocess={
            "head": "classification", "num_classes": 3, "top_k": 2, "labels_file": "labels.txt"
        },
        answers={
            "class_scores": Tensor("TYPE_FP32", [2]),
            "class_ids": Tensor("TYPE_INT32", [2]),
            "class_labels": Tensor("TYPE_STRING", [2]),
            "class_probabilities": Tensor("TYPE_FP32", [3]),
            "status": Tensor("TYPE_INT32", [1]),
        },
        files={"labels.txt": "red\ngreen\nblue\n"},
    )  # fmt: skip


@pytest.fixture(scope="module")
def server(heads: Path) -> Iterator[TritonServer]:
    with TritonServer(heads, ServerSettings(ports=FREE_PORTS)) as running:
        yield running


@pytest.fixture(scope="module")
def colours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Noise that is mostly red, green and blue, in files of these names."""
    folder = tmp_path_factory.mktemp("colours")
    for channel, name in enumerate(("red", "green", "blue")):
        pixels = jpegs.photo(150 + 20 * channel, 200, seed=channel) // 2
        pixels[..., channel] += 120
        (folder / f"{name}.jpg").write_bytes(jpegs.encode(pixels))
    return folder


def test_a_served_classifier_is_asked(server: TritonServer, colours: Path) -> None:
    result = infer(server, colours, "--model", "classify", "--json")
    assert result.exit_code == 0, result.output
    for row in json.loads(result.stdout):
        best, second = row["classes"]
        assert best["label"] == Path(row["image"]).stem
        assert best["class_id"] == ["red", "green", "blue"].index(best["label"])
        assert best["score"] > second["score"] > 0


def test_a_classifiers_answers_are_those_of_the_reference(
    server: TritonServer, heads: Path, colours: Path
) -> None:
    found = comparisons(infer(server, colours, "--model", "classify", "--compare", heads, "--json"))
    assert_alike(found)
    assert [each["matched"] for each in found] == [2, 2, 2]
    swapped = {"color": "bgr"}
    with repository_with(heads, backend="endcap_preprocess", parameters=swapped) as other:
        options = ["--model", "classify", "--compare", other, "--json"]
        differing = comparisons(infer(server, colours, *options))
    assert max(each["largest_score_difference"] or 0 for each in differing) > 10 * COMPARED_SCORE


@pytest.mark.parametrize("model", ["end2end", "efficient"])
def test_heads_whose_tensors_have_names_of_their_own(
    server: TritonServer, heads: Path, colours: Path, model: str
) -> None:
    found = comparisons(infer(server, colours, "--model", model, "--compare", heads, "--json"))
    assert_alike(found)
    assert min(each["matched"] for each in found) > 5


def test_a_repository_of_another_task_is_one_sentence(
    server: TritonServer, colours: Path, tmp_path: Path
) -> None:
    repository = tmp_path / "models"
    shutil.copytree(REPOSITORY, repository, ignore=shutil.ignore_patterns("samples"))
    (repository / "detect").rename(repository / "classify")
    config = repository / "classify" / "config.pbtxt"
    config.write_text(config.read_text().replace('"detect"', '"classify"'))
    result = infer(server, colours, "--model", "classify", "--compare", repository)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "the repository's model answers with detections and the server's with classes" in (
        result.stderr
    )
