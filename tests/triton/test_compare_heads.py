"""A classifier and detectors of other families on a real server, compared."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import jpegs
import numpy as np
import pytest
from compared import assert_alike, comparisons, infer
from network_repository import DETECTIONS, Network, Tensor, write_ensemble
from onnx_heads import write_classifier, write_heads
from running_server import FREE_PORTS
from sample_heads import efficient_nms_outputs, end2end_head
from tolerances import COMPARED_SCORE

from endcap.server import ServerSettings, TritonServer
from endcap.server.models import repository_with

SHIPPED = Path(__file__).resolve().parents[2] / "model_repository"

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
        responses=DETECTIONS,
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
        responses=DETECTIONS,
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
        responses={
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


def test_a_served_classifier_responds(server: TritonServer, colours: Path) -> None:
    result = infer(server, colours, "--model", "classify", "--json")
    assert result.exit_code == 0, result.output
    for row in json.loads(result.stdout):
        best, second = row["classes"]
        assert best["label"] == Path(row["image"]).stem
        assert best["class_id"] == ["red", "green", "blue"].index(best["label"])
        assert best["score"] > second["score"] > 0


def test_a_classifiers_results_are_those_of_the_reference(
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


def test_a_repository_of_another_task_is_one_error_message(
    server: TritonServer, colours: Path, tmp_path: Path
) -> None:
    repository = tmp_path / "models"
    for name in ("preprocess", "detector", "postprocess"):
        shutil.copytree(SHIPPED / name, repository / name)
    ignored = shutil.ignore_patterns("samples")
    shutil.copytree(SHIPPED / "detect", repository / "classify", ignore=ignored)
    config = repository / "classify" / "config.pbtxt"
    config.write_text(config.read_text().replace('"detect"', '"classify"'))
    result = infer(server, colours, "--model", "classify", "--compare", repository)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "the repository's model returns detections and the server's classes" in (result.stderr)
