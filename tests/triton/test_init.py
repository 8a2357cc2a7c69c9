"""endcap init: what it writes, the real server serves, and the answers are the oracle's."""

from __future__ import annotations

import io
import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import family_networks as families
import numpy as np
import pytest
import tritonclient.grpc as grpc_client
from calls import infer, strings
from commands import endcap
from family_networks import Network
from jpegs import photo_jpeg
from PIL import Image
from running_server import RunningServer, run_server
from tolerances import HALF_BOX_PIXELS, HALF_SCORE, SERVED_BOX_PIXELS, SERVED_SCORE

from reference import detections, heads, placement

Floats = np.ndarray

PICTURES = [photo_jpeg(90, 130, seed=1), photo_jpeg(64, 48, seed=2), photo_jpeg(200, 150, seed=3)]
TOP_K = 5
DETECTIONS = 300
NAMES = '{0: "a", 1: "b, c", 2: "d"}'


@dataclass(frozen=True)
class Case:
    """A network, what is said to init, and how its images and its heads are read by the oracle.

    within: differences of scores, and of boxes in pixels.
    """

    network: Network
    family: str
    options: Sequence[object] = ()
    image: Callable[[bytes], tuple[Floats, Floats | None]] = lambda jpeg: letterboxed(jpeg)
    within: tuple[float, float] = (SERVED_SCORE, SERVED_BOX_PIXELS)


def letterboxed(jpeg: bytes) -> tuple[Floats, Floats]:
    """Ultralytics' way into 64x64: RGB [3, 64, 64] from 0 to 1, and the geometry."""
    pixels = cv2.cvtColor(cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR), 4)
    height, width = pixels.shape[:2]
    place = placement.letterbox(height, width, 64, 64, upscale=True, pad_align="center")
    resized = cv2.resize(pixels, (place.new_w, place.new_h), interpolation=cv2.INTER_LINEAR)
    canvas = placement.on_canvas(resized, place, 64, 64)
    tensor = (canvas.astype(np.float32) / np.float32(255)).transpose(2, 0, 1)
    return tensor, place.geometry(height, width)


def as_bytes(jpeg: bytes) -> tuple[Floats, Floats]:
    tensor, geometry = letterboxed(jpeg)
    return np.round(tensor * 255), geometry


def channels_last(jpeg: bytes) -> tuple[Floats, Floats]:
    tensor, geometry = letterboxed(jpeg)
    return tensor.transpose(1, 2, 0), geometry


def cropped(jpeg: bytes) -> tuple[Floats, None]:
    """torchvision's way into 64x64 at the ImageNet weights' proportion: 73 pixels, 64 of them."""
    picture = Image.open(io.BytesIO(jpeg)).convert("RGB")
    place = placement.center_crop(picture.height, picture.width, 64, 64, resize_shorter=73)
    resized = picture.resize((place.new_w, place.new_h), Image.Resampling.BILINEAR)
    left, top = -place.pad_x, -place.pad_y
    pixels = np.asarray(resized.crop((left, top, left + 64, top + 64)), np.float32) / 255
    mean, std = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
    return ((pixels - mean) / std).transpose(2, 0, 1), None


CASES = {
    "v8": Case(families.yolov8(), "yolov8"),
    "v8_single": Case(families.yolov8(batch=1), "yolov8"),
    "v8_half": Case(families.yolov8(dtype="float16"), "yolov8"),
    "v8_bytes": Case(families.yolov8(dtype="uint8"), "yolov8", image=as_bytes),
    "v8_last": Case(families.yolov8(layout="nhwc"), "yolov8", image=channels_last),
    "v8_named": Case(families.yolov8(metadata={"names": NAMES, "stride": "32"}), "yolov8"),
    "v8_any_size": Case(
        families.yolov8(size=("height", "width")), "yolov8", ["--size", "64", "--max-batch", 4]
    ),
    "v8_converted": Case(
        families.yolov8(), "yolov8", ["--fp16"], within=(HALF_SCORE, HALF_BOX_PIXELS)
    ),
    "v5": Case(families.yolov5(), "yolov5"),
    "v10": Case(families.end2end(), "end2end", ["--num-classes", 5]),
    "nms_inside": Case(
        families.efficient_nms(),
        "efficient_nms",
        ["--num-classes", 6, "--preset", "ultralytics"],
    ),
    "nms_inside_int64": Case(
        families.efficient_nms(ids="int64"),
        "efficient_nms",
        ["--num-classes", 6, "--preset", "ultralytics"],
    ),
    "logits": Case(
        families.classifier(), "classification", ["--preset", "torchvision"], image=cropped
    ),
    "softmax": Case(
        families.classifier(softmax=True),
        "classification",
        ["--preset", "torchvision"],
        image=cropped,
    ),
}


def write_labels(folder: Path) -> Path:
    path = folder / "seven.txt"
    path.write_text("tench, Tinca tinca\ngoldfish\nshark\nray\ncock\nhen\nostrich\n")
    return path


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The models of all cases in one folder, each written by the command."""
    folder = tmp_path_factory.mktemp("init")
    together = folder / "together"
    together.mkdir()
    for name, case in CASES.items():
        model = case.network.write(folder / f"{name}.onnx")
        options = [*case.options]
        if name == "logits":
            options += ["--labels", write_labels(folder)]
        done = endcap("init", model, "-o", folder / name, "--name", name, *options)
        assert done.returncode == 0, done.stderr
        for written in (folder / name).iterdir():
            if written.is_dir():
                shutil.move(written, together / written.name)
    return together


@pytest.fixture(scope="module")
def served(repository: Path) -> Iterator[RunningServer]:
    with run_server(repository) as server:
        failed = {n: m.get("reason") for n, m in server.index().items() if m["state"] != "READY"}
        assert not failed
        yield server


@pytest.fixture(scope="module")
def asked(served: RunningServer) -> Iterator[grpc_client.InferenceServerClient]:
    with grpc_client.InferenceServerClient(served.grpc) as connection:
        yield connection


def expected_rows(case: Case, jpeg: bytes) -> detections.Rows:
    tensor, geometry = case.image(jpeg)
    answers = case.network.answers(tensor)
    (first, *_) = answers.values()
    if case.family == "efficient_nms":
        count = int(answers["num_dets"][0])
        candidates = [
            heads.Candidate(
                answers["det_boxes"][i], answers["det_scores"][i], int(answers["det_classes"][i]), i
            )
            for i in range(count)
        ]
    else:
        read: Any = getattr(heads, case.family)
        candidates = read(first, score_threshold=0.25)
    suppresses = case.family in ("yolov5", "yolov8")
    ranked, _ = heads.best(candidates, 30000)
    return detections.pack(
        ranked,
        max_detections=DETECTIONS,
        geometry=geometry,
        iou_threshold=0.7 if suppresses else None,
    )


def assert_detections(
    case: Case, answer: Mapping[str, Floats], row: int, expected: detections.Rows
) -> None:
    assert answer["num_detections"][row, 0] == expected.num_detections > 3
    np.testing.assert_array_equal(answer["detection_indices"][row], expected.indices)
    np.testing.assert_array_equal(answer["detection_classes"][row], expected.class_ids)
    scores, boxes = answer["detection_scores"][row], answer["detection_boxes"][row]
    np.testing.assert_allclose(scores, expected.scores, rtol=0, atol=case.within[0])
    np.testing.assert_allclose(boxes, expected.boxes, rtol=0, atol=case.within[1])


DETECTORS = [name for name, case in CASES.items() if case.family != "classification"]


@pytest.mark.parametrize("name", DETECTORS)
def test_detections_equal_the_oracle(asked: grpc_client.InferenceServerClient, name: str) -> None:
    case = CASES[name]
    for jpeg in PICTURES:
        answer = infer(asked, name, {"encoded": strings([jpeg])})
        assert_detections(case, answer, 0, expected_rows(case, jpeg))


@pytest.mark.parametrize("name", [name for name in DETECTORS if CASES[name].network.batch != 1])
def test_a_batch_equals_the_oracle(asked: grpc_client.InferenceServerClient, name: str) -> None:
    answer = infer(asked, name, {"encoded": strings(PICTURES)})
    for row, jpeg in enumerate(PICTURES):
        assert_detections(CASES[name], answer, row, expected_rows(CASES[name], jpeg))


@pytest.mark.parametrize("name", ["logits", "softmax"])
def test_classes_equal_the_oracle(asked: grpc_client.InferenceServerClient, name: str) -> None:
    case = CASES[name]
    answer = infer(asked, name, {"encoded": strings(PICTURES)})
    for row, jpeg in enumerate(PICTURES):
        (given,) = case.network.answers(case.image(jpeg)[0]).values()
        scores = given if name == "softmax" else heads.softmax(given)
        best = heads.top_classes(scores, TOP_K)
        np.testing.assert_array_equal(answer["class_ids"][row], best)
        for output, expected in (("class_scores", scores[best]), ("class_probabilities", scores)):
            np.testing.assert_allclose(answer[output][row], expected, rtol=0, atol=SERVED_SCORE)


def test_classes_have_their_names(asked: grpc_client.InferenceServerClient) -> None:
    answer = infer(asked, "logits", {"encoded": strings(PICTURES[:1])})
    names = ["tench, Tinca tinca", "goldfish", "shark", "ray", "cock", "hen", "ostrich"]
    expected = [names[class_id].encode() for class_id in answer["class_ids"][0]]
    assert answer["class_labels"][0].tolist() == expected


def test_tritons_classification_extension_works_through_the_ensemble(
    asked: grpc_client.InferenceServerClient,
) -> None:
    wanted = [grpc_client.InferRequestedOutput("class_probabilities", class_count=2)]
    encoded = grpc_client.InferInput("encoded", [1, 1], "BYTES")
    encoded.set_data_from_numpy(strings(PICTURES[:1]))
    ranked = asked.infer("logits", [encoded], outputs=wanted).as_numpy("class_probabilities")
    answer = infer(asked, "logits", {"encoded": strings(PICTURES[:1])})
    for text, class_id, label in zip(
        ranked[0], answer["class_ids"][0], answer["class_labels"][0], strict=False
    ):
        assert text.decode().split(":")[1:] == [str(class_id), label.decode()]


def test_the_ensemble_tells_class_names(served: RunningServer) -> None:
    labels = served.config("v8_named")["parameters"]["labels"]["string_value"]
    assert json.loads(labels) == ["a", "b, c", "d"]


def test_every_step_was_warmed_up(served: RunningServer) -> None:
    for model in ("v8_preprocess", "v8_detector", "v8_postprocess"):
        assert served.config(model)["model_warmup"], model
    assert served.metric("endcap_preprocess_images_total", model="v8_preprocess") >= 1


def test_init_serve_and_the_first_answer_of_the_sample_detector_take_less_than_20_s(
    tmp_path: Path,
) -> None:
    shipped = Path(__file__).resolve().parents[2] / "model_repository"
    begin = time.monotonic()
    done = endcap("init", shipped / "detector/1/model.onnx", "-o", tmp_path / "models")
    assert done.returncode == 0, done.stderr
    with run_server(tmp_path / "models") as server:
        while any(model.get("state") != "READY" for model in server.index().values()):
            time.sleep(0.1)
            assert time.monotonic() - begin < 20
        picture = shipped / "detect/samples/shapes_640x427.jpg"
        answer = endcap("infer", picture, "--url", server.grpc, "--json")
        took = time.monotonic() - begin
    (found,) = json.loads(answer.stdout)
    assert [each["label"] for each in found["detections"]].count("triangle") == 2
    assert took < 20


def test_self_contained_models_need_no_backend_directory(tmp_path: Path) -> None:
    from endcap.server.locate import locate_server

    model = CASES["v8"].network.write(tmp_path / "v8.onnx")
    done = endcap("init", model, "-o", tmp_path / "models", "--self-contained")
    assert done.returncode == 0, done.stderr
    for step, backend in (("preprocess", "preprocess"), ("postprocess", "postprocess")):
        assert (tmp_path / "models" / step / f"libtriton_endcap_{backend}.so").is_file()
    shutil.rmtree(tmp_path / "models" / "detector")  # its Python backend lies in the directory
    shutil.rmtree(tmp_path / "models" / "detect")
    installation = locate_server(None)
    (tmp_path / "none").mkdir()
    with (
        run_server(tmp_path / "models", f"--backend-directory={tmp_path / 'none'}") as server,
        grpc_client.InferenceServerClient(server.grpc) as client,
    ):
        assert {m["state"] for m in server.index().values()} == {"READY"}
        made = infer(client, "preprocess", {"encoded": strings(PICTURES[:1])})
    assert installation.executable.is_file()
    np.testing.assert_allclose(
        made["images"][0], letterboxed(PICTURES[0])[0], rtol=0, atol=1 / 255 + 1e-6
    )
