"""The way over steps of the client: what the package's own functions make of the images."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import extra_networks as extras
import family_networks as families
import numpy as np
import pair_networks as pairs
import pytest
from family_networks import Network
from init_runs import written
from steps_by_hand import (
    PICTURES,
    Json,
    detector,
    go,
    in_python,
    network_answer,
    read_configs,
    read_steps,
    v8,
)

import endcap
from endcap.client.calls import Call, InputTensor, Response
from endcap.client.errors import RequestError
from endcap.client.steps import ClientPipeline
from endcap.errors import InvalidArgumentError

CASES: dict[str, tuple[Network, Sequence[object]]] = {
    "v8": (families.yolov8(), ()),
    "v8_half": (families.yolov8(dtype="float16"), ()),
    "v8_last": (families.yolov8(layout="nhwc"), ()),
    "v8_python": (families.yolov8(), ("--preprocess", "python", "--postprocess", "python")),
    "seg": (extras.seg(), ()),
    "rtdetr": (pairs.rtdetr(), ("--num-classes", 4, "--preset", "rtdetr")),
    "efficient_nms": (
        families.efficient_nms(ids="int64"),
        ("--num-classes", 6, "--preset", "ultralytics"),
    ),
    "classes": (families.classifier(), ("--head", "classification", "--preset", "torchvision")),
}


@pytest.mark.parametrize("name", CASES)
def test_the_whole_way_equals_the_packages_functions(name: str, tmp_path: Path) -> None:
    network, options = CASES[name]
    configs = read_configs(written(tmp_path, network, *options))
    model = "classify" if name == "classes" else "detect"
    pipeline = ClientPipeline(read_steps(configs, model))
    middle = configs[model]["ensemble_scheduling"]["step"][1]["model_name"]
    results = go(pipeline, PICTURES, network_answer(configs, middle, network))
    expected = in_python(configs, network, model)
    masks = expected.pop("rle", [])
    for index, result in enumerate(results):
        assert set(result) == {each["name"] for each in configs[model]["output"]}
        for key, rows in expected.items():
            assert result[key].dtype == rows.dtype
            np.testing.assert_array_equal(result[key], rows[index : index + 1])
        for kept, row in zip(
            masks[index : index + 1], result.get("detection_rle", ()), strict=True
        ):
            assert row.tolist() == [*kept, *[b""] * (len(row) - len(kept))]
    assert any(rows.any() for rows in expected.values())
    if model == "detect":
        assert all(result["num_detections"] > 3 for result in results)


@pytest.fixture
def configs() -> dict[str, Json]:
    """Those of a YOLOv8, to change."""
    return copy.deepcopy(v8())


@pytest.mark.parametrize("count", [1, 2])
def test_a_bad_image_is_said_as_the_server_says_it(count: int) -> None:
    pipeline = ClientPipeline(read_steps(v8()))
    with pytest.raises(RequestError) as failure:
        go(pipeline, [*PICTURES[: count - 1], b"GIF89a and so on"], detector(v8()))
    assert failure.value.status_name == "corrupt_image"
    place = "image index 1 of 2: " if count == 2 else ""
    assert str(failure.value).startswith(f"{place}the data is not a JPEG")


def test_a_blanked_image_has_its_status_and_its_neighbours_their_rows(
    configs: dict[str, Json],
) -> None:
    configs["preprocess"]["parameters"]["on_error"] = {"string_value": "blank"}
    pipeline = ClientPipeline(read_steps(configs))
    first, bad, last = go(pipeline, [PICTURES[0], b"no picture", PICTURES[1]], detector(configs))
    assert bad["status"].tolist() == [[endcap.Status.CORRUPT_IMAGE]]
    assert bad["num_detections"].tolist() == [[0]]
    for given, picture in ((first, PICTURES[0]), (last, PICTURES[1])):
        (alone,) = go(pipeline, [picture], detector(configs))
        for name, rows in alone.items():
            np.testing.assert_array_equal(given[name], rows)


def test_limits_are_the_servers(configs: dict[str, Json]) -> None:
    configs["preprocess"]["parameters"]["max_pixels"] = {"string_value": "1000"}
    with pytest.raises(RequestError, match="max_pixels") as failure:
        go(ClientPipeline(read_steps(configs)), PICTURES[:1], detector(configs))
    assert failure.value.status_name == "image_limit"


@pytest.mark.parametrize("color", ["rgb", "bgr"])
def test_pixels_are_taken_as_they_are(color: Any) -> None:
    pixels = endcap.decode(PICTURES[0])
    given = pixels if color == "rgb" else pixels[..., ::-1]
    (found,) = go(ClientPipeline(read_steps(v8()), color=color), [given], detector(v8()))
    (expected,) = go(ClientPipeline(read_steps(v8())), PICTURES[:1], detector(v8()))
    for name, rows in expected.items():
        np.testing.assert_array_equal(found[name], rows)


def test_without_batches_tensors_have_no_batch_dimension(configs: dict[str, Json]) -> None:
    batched = go(ClientPipeline(read_steps(configs)), PICTURES[:1], detector(configs))
    for config in configs.values():
        config["max_batch_size"] = 0
    whole = detector(configs)

    def answer(call: Call) -> Response:
        (images,) = call.inputs
        assert images.shape == (3, 64, 64)
        answered = whole(Call(call.model, [with_batch(images)], call.outputs, call.request_id))
        return Response(
            {name: rows[0] for name, rows in answered.tensors.items() if rows is not None}
        )

    pipeline = ClientPipeline(read_steps(configs))
    assert pipeline.max_batch == 1
    for found, expected in zip(go(pipeline, PICTURES[:1], answer), batched, strict=True):
        for name, rows in expected.items():
            np.testing.assert_array_equal(found[name], rows)


def with_batch(tensor: InputTensor) -> InputTensor:
    assert isinstance(tensor.data, np.ndarray)
    return InputTensor.of(tensor.name, tensor.data[None])


def test_the_smallest_batch_of_all_steps_is_the_limit(configs: dict[str, Json]) -> None:
    configs["detector"]["max_batch_size"] = 2
    pipeline = ClientPipeline(read_steps(configs))
    assert pipeline.max_batch == 2
    with pytest.raises(InvalidArgumentError, match="a batch has 3 images: give 1 to 2"):
        go(pipeline, PICTURES[:1] * 3, detector(configs))


def test_the_lease_holds_the_images_and_the_head() -> None:
    (shape,) = (each["dims"] for each in v8()["detector"]["output"])
    head = int(np.prod([int(side) for side in shape])) * 4
    pipeline = ClientPipeline(read_steps(v8()))
    images = 3 * 64 * 64 * 4
    for batch in (1, 3):
        assert pipeline.region_bytes(batch) == batch * images + -(-batch * head // 64) * 64
    alone = ClientPipeline(read_steps(v8()), preprocess="server", postprocess="server")
    assert alone.region_bytes(1) > images
