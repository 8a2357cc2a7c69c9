"""A head of each layout, by its tensors and its outputs: as the Python package computes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
import tritonclient.http as http_client

import endcap
from tests.support import sample_heads
from tests.triton.calls import infer, infer_http
from tests.triton.model_folders import batching, tensor, write_postprocess
from tests.triton.running_server import RunningServer, run_server

pytestmark = pytest.mark.both_variants

COUNT = 3
ROWS = 40
GEOMETRY = np.float32([[0.5, 0.5, 20, 40, 600, 400 + i, 1, 0] for i in range(COUNT)])
MASKS = {"mask_coefficients": 8, "prototype_size": "40,80", "input_size": "160,320"}
DETECTIONS = {
    "num_detections": "num_detections",
    "detection_boxes": "boxes",
    "detection_scores": "scores",
    "detection_classes": "class_ids",
    "detection_indices": "indices",
}


@dataclass(frozen=True)
class Case:
    """A model's parameters, one image's tensors, and the family's own outputs by their fields."""

    parameters: dict[str, Any]
    make: Any
    own: dict[str, str] = field(default_factory=dict)

    def heads(self, count: int = COUNT) -> dict[str, np.ndarray]:
        made = [self.make(seed) for seed in range(count)]
        made = [each if isinstance(each, dict) else {"head": each} for each in made]
        return {name: np.stack([each[name] for each in made]) for name in made[0]}

    def settings(self) -> dict[str, Any]:
        return {"num_classes": 2, "max_detections": ROWS, **self.parameters}


def detections(seed: int) -> Any:
    """With the type of class ids that a config gets where it declares none."""
    parts = sample_heads.detections_outputs(seed)
    return {**parts, "classes": parts["classes"].astype(np.int32)}


def seg(seed: int) -> Any:
    return sample_heads.seg_outputs(seed, anchors=70, num_classes=2, size=(40, 80))


CASES = {
    "seg": Case({"head": "yolov8_seg", **MASKS}, seg, {"mask_size": "mask_size"}),
    "seg_input": Case(
        {"head": "yolov8_seg", **MASKS, "mask_resolution": "input"},
        seg,
        {"mask_size": "mask_size", "detection_masks": "packed_masks"},
    ),
    "pose": Case(
        {"head": "yolov8_pose", "num_keypoints": 5},
        lambda seed: sample_heads.pose_head(seed, anchors=70, num_classes=2, keypoints=5),
        {"detection_keypoints": "keypoints"},
    ),
    "obb": Case(
        {"head": "yolov8_obb", "rotated_nms": "probiou"},
        lambda seed: sample_heads.obb_head(seed, anchors=70, num_classes=2),
        {"detection_angles": "angles"},
    ),
    "ssd": Case(
        {"head": "ssd", "iou_threshold": "0.5"},
        lambda seed: sample_heads.ssd_outputs(seed, anchors=90, columns=3),
    ),
}
# Where the counts and the rows of boxes are inputs.
for family, make in (
    ("efficient_nms", sample_heads.FAMILIES["efficient_nms"].make),
    ("detections", detections),
):
    CASES[family] = Case({"head": family, "num_classes": 7}, make)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, variant: str) -> Iterator[RunningServer]:
    repository = tmp_path_factory.mktemp("heads")
    write = partial(write_postprocess, repository, variant=variant)
    for name, case in CASES.items():
        write(
            name,
            max_batch_size=8,
            parameters=case.settings(),
            more=batching(1000),
        )
    seg_parameters = CASES["seg"].settings()
    write("seg_single", parameters=seg_parameters)
    write(
        "seg_rle_only",
        max_batch_size=8,
        parameters=seg_parameters,
        outputs=[tensor("detection_rle", "TYPE_STRING", [-1])],
    )
    boxes = [tensor("boxes", "TYPE_FP32", [-1, 4]), tensor("scores", "TYPE_FP32", [-1])]
    write(
        "detections_int64",
        max_batch_size=8,
        parameters=CASES["detections"].settings(),
        inputs=[
            *boxes,
            tensor("classes", "TYPE_INT64", [-1]),
            tensor("geometry", "TYPE_FP32", [8]),
        ],
    )
    with run_server(repository) as server:
        yield server


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[grpc_client.InferenceServerClient]:
    with grpc_client.InferenceServerClient(server.grpc) as client:
        yield client


def assert_same(case: Case, response: dict[str, np.ndarray], heads: dict[str, np.ndarray]) -> None:
    head = heads["head"] if len(heads) == 1 else heads
    packs = "detection_masks" in case.own
    postprocessor = endcap.Postprocessor(**case.settings(), packed_masks=packs)
    expected = postprocessor(head, GEOMETRY[: len(next(iter(heads.values())))])
    assert (expected.num_detections > 3).all()
    for name, attribute in (DETECTIONS | case.own).items():
        given = getattr(expected, attribute)
        np.testing.assert_array_equal(response[name], given.reshape(response[name].shape), name)
    if expected.rle is not None:
        rows = [[*rle, *[b""] * (expected.boxes.shape[1] - len(rle))] for rle in expected.rle]
        assert response["detection_rle"].tolist() == rows


@pytest.mark.parametrize("name", CASES)
def test_responses_are_the_packages(client: Any, name: str) -> None:
    heads = CASES[name].heads()
    response = infer(client, name, {**heads, "geometry": GEOMETRY})
    assert_same(CASES[name], response, heads)
    assert not response["status"].any()


def test_class_ids_of_64_bits(client: Any) -> None:
    heads = CASES["detections"].heads()
    wide = {**heads, "classes": heads["classes"].astype(np.int64)}
    response = infer(client, "detections_int64", {**wide, "geometry": GEOMETRY})
    assert_same(CASES["detections"], response, heads)


@pytest.mark.parametrize("name", ["seg", "seg_input"])
def test_over_http(server: RunningServer, name: str) -> None:
    heads = CASES[name].heads()
    with http_client.InferenceServerClient(server.http) as client:
        response = infer_http(client, name, {**heads, "geometry": GEOMETRY})
    assert_same(CASES[name], response, heads)


def test_a_model_without_batches(client: Any) -> None:
    heads = CASES["seg"].heads(1)
    single = {name: array[0] for name, array in heads.items()}
    response = infer(client, "seg_single", {**single, "geometry": GEOMETRY[0]})
    assert response["detection_rle"].shape == (ROWS,)
    batched = {name: array[None] for name, array in response.items()}
    assert_same(CASES["seg"], batched, heads)


def test_only_what_is_requested_is_returned(client: Any) -> None:
    heads = CASES["seg_input"].heads()
    tensors = {**heads, "geometry": GEOMETRY}
    whole = infer(client, "seg_input", tensors)
    for names in (["num_detections"], ["detection_rle"], ["detection_masks"], ["mask_size"]):
        response = infer(client, "seg_input", tensors, outputs=names)
        assert list(response) == names
        np.testing.assert_array_equal(response[names[0]], whole[names[0]])


def test_outputs_that_the_config_leaves_out_are_not_made(client: Any) -> None:
    heads = CASES["seg"].heads()
    response = infer(client, "seg_rle_only", {**heads, "geometry": GEOMETRY})
    assert list(response) == ["detection_rle"]
    assert (response["detection_rle"][:, 0] != b"").all()


def test_a_bad_image_has_no_masks_and_touches_no_other(client: Any) -> None:
    heads = CASES["seg"].heads()
    tensors = {**heads, "geometry": GEOMETRY, "status": np.int32([[0], [1], [0]])}
    response = infer(client, "seg", tensors)
    good = infer(client, "seg", {**heads, "geometry": GEOMETRY})
    assert response["status"].ravel().tolist() == [0, 1, 0]
    assert response["detection_rle"][1].tolist() == [b""] * ROWS
    for image in (0, 2):
        assert response["detection_rle"][image].tolist() == good["detection_rle"][image].tolist()


def test_configs_are_completed(server: RunningServer) -> None:
    config = server.config("seg_input")
    dims = {each["name"]: (each["data_type"], each["dims"]) for each in config["output"]}
    assert dims["detection_rle"] == ("TYPE_STRING", [ROWS])
    assert dims["detection_masks"] == ("TYPE_UINT8", [ROWS, 160, 40])
    inputs = {each["name"]: each["dims"] for each in config["input"]}
    assert inputs["protos"] == [8, 40, 80]
    assert inputs["head"] == [14, -1]
    keypoints = {each["name"]: each["dims"] for each in server.config("pose")["output"]}
    assert keypoints["detection_keypoints"] == [ROWS, 5, 3]
    assert [each["name"] for each in server.config("ssd")["input"]][:3] == [
        "boxes",
        "scores",
        "anchors",
    ]
