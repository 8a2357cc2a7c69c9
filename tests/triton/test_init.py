"""Repositories of `endcap init` on the real server, against the reference."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
from PIL import Image

import endcap
from endcap.client import DetectionClient
from tests.reference import detections, heads, placement, resize
from tests.support import family_networks as families
from tests.support.doc_pages import ROOT, blocks
from tests.support.finished_networks import SIDE, Finished
from tests.support.tolerances import SERVED_BOX_PIXELS, SERVED_SCORE
from tests.triton.calls import infer, strings
from tests.triton.commands import endcap as run_command
from tests.triton.init_cases import (
    CASES,
    DETECTIONS,
    PICTURES,
    TOP_K,
    UNREAD,
    Floats,
    expected_rows,
    letterboxed,
    write_together,
)
from tests.triton.running_server import RunningServer, run_server


def write_labels(folder: Path) -> Path:
    path = folder / "seven.txt"
    path.write_text("tench, Tinca tinca\ngoldfish\nshark\nray\ncock\nhen\nostrich\n")
    return path


ULTRALYTICS = ["--preset", "ultralytics"]


MASKS = families.seg()
# Networks that give as many rows as they find in an image; one finds none.
FINISHED = {"rows": Finished(least=9), "no_rows": Finished(least=-20)}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("init")
    labels = {"logits": ["--labels", write_labels(folder)]}
    cases = ((n, case.network, [*case.options, *labels.get(n, [])]) for n, case in CASES.items())
    unread = ((name, each, ["--head", "none", *ULTRALYTICS]) for name, each in UNREAD.items())
    rows = ((name, network, []) for name, network in FINISHED.items())
    return write_together([*cases, *unread, ("masks", MASKS, []), *rows], folder)


def assert_detections(response: Mapping[str, Floats], row: int, expected: detections.Rows) -> None:
    assert response["num_detections"][row, 0] == expected.num_detections > 3
    np.testing.assert_array_equal(response["detection_indices"][row], expected.indices)
    np.testing.assert_array_equal(response["detection_classes"][row], expected.class_ids)
    scores, boxes = response["detection_scores"][row], response["detection_boxes"][row]
    np.testing.assert_allclose(scores, expected.scores, rtol=0, atol=SERVED_SCORE)
    np.testing.assert_allclose(boxes, expected.boxes, rtol=0, atol=SERVED_BOX_PIXELS)


def test_validate_has_no_findings(repository: Path) -> None:
    done = run_command("validate", repository, "--strict")
    assert done.returncode == 0, done.stdout
    assert "0 errors, 0 warnings" in done.stdout


DETECTORS = [name for name, case in CASES.items() if case.family != "classification"]


@pytest.mark.parametrize("name", DETECTORS)
def test_detections_equal_the_reference(
    connection: grpc_client.InferenceServerClient, name: str
) -> None:
    case = CASES[name]
    batches = [PICTURES] if case.takes_batches else [[jpeg] for jpeg in PICTURES]
    for batch in batches:
        response = infer(connection, name, {"encoded": strings(batch)})
        for row, jpeg in enumerate(batch):
            assert_detections(response, row, expected_rows(case, jpeg))


@pytest.mark.parametrize("name", UNREAD)
def test_outputs_without_a_head_are_returned(
    connection: grpc_client.InferenceServerClient, served: RunningServer, name: str
) -> None:
    batch = 3 if UNREAD[name].batch == "batch" else 1
    with DetectionClient(served.grpc, model=name, batch=batch) as client:
        results = client.detect(PICTURES)
    for jpeg, result in zip(PICTURES, results, strict=True):
        tensor, geometry = letterboxed(jpeg)
        expected = UNREAD[name].expected_outputs(tensor)
        assert (result.status, set(result.tensors)) == (
            "ok",
            {"heat", "network_status", "geometry"},
        )
        np.testing.assert_allclose(result.tensors["heat"], expected["heat"], atol=SERVED_SCORE)
        np.testing.assert_array_equal(result.tensors["network_status"], expected["status"])
        np.testing.assert_array_equal(result.tensors["geometry"][:6], geometry[:6])


def test_the_commands_take_an_ensemble_without_a_head(
    served: RunningServer, tmp_path: Path
) -> None:
    """Also a damaged file, whose request fails alone."""
    (tmp_path / "a.jpg").write_bytes(PICTURES[0])
    (tmp_path / "b.jpg").write_bytes(PICTURES[1][:-400])
    at = ("--url", served.grpc, "--model", "unread")
    done = run_command("infer", tmp_path / "a.jpg", tmp_path / "b.jpg", *at, "--json")
    good, bad = json.loads(done.stdout)
    assert good["tensors"]["heat"] == {"dtype": "float32", "shape": [3, 16, 16]}
    assert good["latency_ms"] > 0
    assert (bad["status"], bad["tensors"], done.returncode) == ("corrupt_image", {}, 1)
    table = run_command("infer", tmp_path / "a.jpg", *at).stdout
    assert "heat float32 [3, 16, 16]" in table
    load = run_command(
        "load", tmp_path / "a.jpg", *at, "--concurrency", "2", "--duration", "1", "--json"
    )
    (level,) = json.loads(load.stdout)["levels"]
    assert load.returncode == 0, load.stderr
    assert level["images_per_s"] > 0
    drawn = run_command("infer", tmp_path / "a.jpg", *at, "--draw", tmp_path / "drawn")
    assert "returns tensors, which cannot be drawn" in drawn.stderr


def test_masks_are_those_of_the_core(connection: grpc_client.InferenceServerClient) -> None:
    made = [letterboxed(jpeg) for jpeg in PICTURES]
    outputs = [MASKS.expected_outputs(tensor) for tensor, _ in made]
    names = {"head": "output0", "protos": "output1"}
    parts = {part: np.stack([each[name] for each in outputs]) for part, name in names.items()}
    postprocess = endcap.Postprocessor(
        "yolov8_seg", 3, prototype_size=(16, 16), input_size=64, max_detections=DETECTIONS
    )
    expected: Any = postprocess(parts, np.stack([np.append(g[:6], [1, 0]) for _, g in made]))
    response = infer(connection, "masks", {"encoded": strings(PICTURES)})
    np.testing.assert_array_equal(response["detection_indices"], expected.indices)
    for row, masks in enumerate(expected.rle):
        assert response["detection_rle"][row].tolist() == [*masks, *[b""] * (300 - len(masks))]
        assert len(set(masks)) > 3


@pytest.mark.parametrize("name", FINISHED)
def test_as_many_rows_as_an_image_has_detections(
    connection: grpc_client.InferenceServerClient, name: str
) -> None:
    pixels = np.asarray(Image.open(io.BytesIO(PICTURES[0])).convert("RGB"))
    resized = resize.resize_linear(pixels, SIDE, SIDE)
    found = FINISHED[name].expected((resized / 255).astype(np.float32).transpose(2, 0, 1))
    geometry = placement.stretch(SIDE, SIDE).geometry(*pixels.shape[:2])
    postprocess = endcap.Postprocessor(head="detections", num_classes=3, background="first")
    parts = {part: rows[None] for part, rows in found.items()}
    expected: Any = postprocess(parts, np.append(geometry[:6], [1, 0])[None])
    response = infer(connection, name, {"encoded": strings(PICTURES[:1])})
    assert response["num_detections"].ravel().tolist() == expected.num_detections.tolist()
    assert (expected.num_detections > 0).all() == (name == "rows")
    np.testing.assert_array_equal(response["detection_classes"], expected.class_ids)
    for output, within in (("scores", SERVED_SCORE), ("boxes", SERVED_BOX_PIXELS)):
        np.testing.assert_allclose(
            response[f"detection_{output}"], getattr(expected, output), rtol=0, atol=within
        )


SCORES: Mapping[str, Callable[[Floats], Floats]] = {
    "logits": heads.softmax,
    "one_logit": lambda logit: heads.sigmoid(np.atleast_1d(logit)),
}


@pytest.mark.parametrize("name", SCORES)
def test_classes_equal_the_reference(
    connection: grpc_client.InferenceServerClient, name: str
) -> None:
    case = CASES[name]
    response = infer(connection, name, {"encoded": strings(PICTURES)})
    for row, jpeg in enumerate(PICTURES):
        (given,) = case.network.expected_outputs(case.image(jpeg)[0]).values()
        scores = SCORES[name](given)
        best = heads.top_classes(scores, TOP_K)
        np.testing.assert_array_equal(response["class_ids"][row], best)
        for output, expected in (("class_scores", scores[best]), ("class_probabilities", scores)):
            np.testing.assert_allclose(response[output][row], expected, rtol=0, atol=SERVED_SCORE)


def test_classes_have_their_names(connection: grpc_client.InferenceServerClient) -> None:
    response = infer(connection, "logits", {"encoded": strings(PICTURES[:1])})
    names = ["tench, Tinca tinca", "goldfish", "shark", "ray", "cock", "hen", "ostrich"]
    expected = [names[class_id].encode() for class_id in response["class_ids"][0]]
    assert response["class_labels"][0].tolist() == expected


def test_tritons_classification_extension_works_through_the_ensemble(
    connection: grpc_client.InferenceServerClient,
) -> None:
    wanted = [grpc_client.InferRequestedOutput("class_probabilities", class_count=2)]
    encoded = grpc_client.InferInput("encoded", [1, 1], "BYTES")
    encoded.set_data_from_numpy(strings(PICTURES[:1]))
    ranked = connection.infer("logits", [encoded], outputs=wanted).as_numpy("class_probabilities")
    response = infer(connection, "logits", {"encoded": strings(PICTURES[:1])})
    best = zip(response["class_ids"][0, :2], response["class_labels"][0, :2], strict=True)
    expected = [[str(class_id), label.decode()] for class_id, label in best]
    assert [text.decode().split(":")[1:] for text in ranked[0]] == expected


def test_the_ensemble_has_class_names(served: RunningServer) -> None:
    labels = served.config("v8_named")["parameters"]["labels"]["string_value"]
    assert json.loads(labels) == ["a", "b, c", "d"]


def test_the_calls_of_the_readme_run(
    served: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All calls of the README, with other ports."""
    model = CASES["v8"].network.write(tmp_path / "v8.onnx")
    assert run_command("init", model, "-o", tmp_path / "models", "--name", "v8").returncode == 0
    readme = (tmp_path / "models" / "README.md").read_text()
    readme = readme.replace("127.0.0.1:8000", served.http).replace("127.0.0.1:8001", served.grpc)
    monkeypatch.chdir(tmp_path)
    Path("photo.jpg").write_bytes(PICTURES[0])
    codes = re.findall(r"```python\n(.*?)```", readme, re.S)
    expected = expected_rows(CASES["v8"], PICTURES[0])
    (code,) = codes
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert f"{expected.scores[0]:.3f}" in printed


def test_the_calls_of_a_readme_without_a_head_run(
    served: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its calls, and the block of the documentation, which reads another output."""
    model = UNREAD["unread"].write(tmp_path / "model.onnx")
    options = ["--head", "none", *ULTRALYTICS, "--name", "unread"]
    assert run_command("init", model, "-o", tmp_path / "models", *options).returncode == 0
    readme = (tmp_path / "models" / "README.md").read_text().replace("127.0.0.1:8001", served.grpc)
    (code,) = re.findall(r"```python\n(.*?)```", readme, re.S)
    (block,) = (each for each in blocks(ROOT / "docs" / "init.md") if each.language == "py")
    in_docs = block.text.replace('model="predict"', f'"{served.grpc}", model="unread"')
    monkeypatch.chdir(tmp_path)
    Path("photo.jpg").write_bytes(PICTURES[0])
    for each in (code, in_docs.replace("depth", "heat") + "print('heat', heat.shape)"):
        done = subprocess.run([sys.executable, "-c", each], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "heat" in done.stdout


def test_the_classifier_of_the_page_of_clients(
    served: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("photo.jpg").write_bytes(PICTURES[0])
    (block,) = (each for each in blocks(ROOT / "docs" / "clients.md") if each.language == "py")
    text = block.text.replace("127.0.0.1:8001", served.grpc).replace('"classify"', '"logits"')
    names: dict[str, Any] = {"DetectionClient": DetectionClient}
    exec(text, names)
    assert [each.label for each in names["result"].classes if each.label]


def test_self_contained_models_need_no_backend_directory(tmp_path: Path) -> None:
    model = CASES["v8"].network.write(tmp_path / "v8.onnx")
    done = run_command("init", model, "-o", tmp_path / "models", "--self-contained")
    assert done.returncode == 0, done.stderr
    backends = {"preprocess": "preprocess", "detector": "onnx", "postprocess": "postprocess"}
    for step, backend in backends.items():
        assert (tmp_path / "models" / step / f"libtriton_endcap_{backend}.so").is_file()
    (tmp_path / "none").mkdir()
    with (
        run_server(tmp_path / "models", f"--backend-directory={tmp_path / 'none'}") as server,
        grpc_client.InferenceServerClient(server.grpc) as client,
    ):
        assert {m["state"] for m in server.index().values()} == {"READY"}
        # No request yet: this is the warm-up.
        assert server.metric("endcap_preprocess_images_total", model="preprocess") == 1
        made = infer(client, "preprocess", {"encoded": strings(PICTURES[:1])})
    np.testing.assert_allclose(
        made["images"][0], letterboxed(PICTURES[0])[0], rtol=0, atol=1 / 255 + 1e-6
    )
