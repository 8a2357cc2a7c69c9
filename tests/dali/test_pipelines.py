"""The pipelines of endcap.dali: the results of endcap's own functions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import endcap
from endcap.dali import (
    detection_postprocess,
    detection_preprocess,
)
from endcap.errors import InvalidArgumentError, Status
from tests.dali.dali_runs import feed, to_samples
from tests.support import jpegs
from tests.support.sample_heads import yolov8_head

Arrays = list[npt.NDArray[Any]]

ON_CPU = {"num_threads": 2, "device_id": None}
FED = {**ON_CPU, "prefetch_queue_depth": 1, "exec_async": False, "exec_pipelined": False}
SIDES = [(720, 1280), (640, 640), (641, 1280), (1280, 641), (100, 37), (333, 500), (1, 1000)]


@pytest.fixture(scope="module")
def photos() -> list[bytes]:
    return [jpegs.photo_jpeg(*side, seed=i) for i, side in enumerate(SIDES)]


def run_fed(pipeline: Any, **inputs: Any) -> list[Arrays]:
    pipeline.build()
    return [to_samples(output) for output in feed(pipeline, inputs)]


def run_photos(photos: list[bytes], **arguments: Any) -> list[Arrays]:
    pipeline = detection_preprocess(batch_size=len(photos), **FED, **arguments)
    return run_fed(pipeline, encoded=[np.frombuffer(photo, np.uint8) for photo in photos])


def test_images_are_those_of_preprocess(photos: list[bytes]) -> None:
    images, geometry, status = run_photos(photos, size=(384, 640), interpolation="bicubic")
    wanted = endcap.preprocess(photos, size=(384, 640), interpolation="bicubic")
    np.testing.assert_array_equal(np.stack(images), wanted.images)
    np.testing.assert_array_equal(np.stack(geometry)[:, :7], wanted.geometry[:, :7])
    assert not np.stack(status).any()


def test_files_are_read(tmp_path: Path, photos: list[bytes]) -> None:
    paths = [tmp_path / f"{i}.jpg" for i in range(3)]
    for path, photo in zip(paths, photos, strict=False):
        path.write_bytes(photo)
    pipeline = detection_preprocess(paths, size=64, batch_size=3, **ON_CPU)
    pipeline.build()
    images = to_samples(pipeline.run()[0])
    fed, *_ = run_photos(photos[:3], size=64)
    np.testing.assert_array_equal(images, fed)
    assert pipeline.epoch_size("files") == 3


def test_a_bad_image_does_not_end_the_pipeline(photos: list[bytes]) -> None:
    images, _, status = run_photos([photos[0], b"no image"], size=64)
    assert np.ravel(status).tolist() == [Status.OK, Status.CORRUPT_IMAGE]
    assert not images[1].any()
    assert images[0].any()


@pytest.mark.parametrize("define", [detection_preprocess, detection_postprocess])
def test_another_device_is_refused(define: Callable[..., Any]) -> None:
    with pytest.raises(InvalidArgumentError, match="device is 'mixed': give cpu or gpu"):
        define(device="mixed", batch_size=1, **ON_CPU)


def test_pipelines_are_serialised(photos: list[bytes]) -> None:
    from nvidia.dali import Pipeline
    from nvidia.dali.plugin.triton import autoserialize

    assert autoserialize(detection_preprocess)
    text = detection_preprocess(size=48, batch_size=2, **FED).serialize()
    read = Pipeline.deserialize(text, batch_size=2, num_threads=2, device_id=None)
    encoded = [np.frombuffer(photo, np.uint8) for photo in photos[:2]]
    images, *_ = run_fed(read, encoded=encoded)
    np.testing.assert_array_equal(images, endcap.preprocess(photos[:2], size=48).images)


def expect_detections(found: list[Arrays], i: int, wanted: endcap.Detections) -> None:
    expected = [wanted.num_detections, wanted.boxes, wanted.scores, wanted.class_ids,
                wanted.indices]  # fmt: skip
    for output, array in zip(found, expected, strict=True):
        np.testing.assert_array_equal(np.ravel(output[i]), np.ravel(array))


def test_postprocessing_is_endcap_s() -> None:
    heads = [yolov8_head(seed, anchors=60, num_classes=3) for seed in range(3)]
    geometry = [np.float32([0.5, 0.5, 0, 10 * i, 1280, 1200, 1, 0]) for i in range(3)]
    pipeline = detection_postprocess(num_classes=3, max_detections=20, batch_size=3, **FED)
    status = [np.int32([0]), np.int32([Status.CORRUPT_IMAGE]), np.int32([0])]
    found = run_fed(pipeline, head=heads, geometry=geometry, status=status)
    own = endcap.Postprocessor("yolov8", num_classes=3, max_detections=20)
    for i in (0, 2):
        wanted = own(heads[i][None], geometry[i][None])
        assert wanted.num_detections[0] > 3
        expect_detections(found, i, wanted)
    assert found[0][1] == [0]


def test_postprocessing_without_geometry_of_a_head_of_two_tensors() -> None:
    random = np.random.default_rng(2)
    heads = {
        "logits": random.normal(-2, 2, (50, 4)).astype(np.float32),
        "boxes": random.uniform(0.1, 0.9, (50, 4)).astype(np.float32),
    }
    fields: dict[str, Any] = {"head": "rtdetr", "num_classes": 4, "max_detections": 10}
    pipeline = detection_postprocess(
        **fields, geometry=False, status=False, output_status=True, batch_size=1, **FED
    )
    *found, status = run_fed(pipeline, **{name: [array] for name, array in heads.items()})
    wanted = endcap.Postprocessor(**fields)({n: a[None] for n, a in heads.items()})
    assert wanted.num_detections[0] > 3
    expect_detections(found, 0, wanted)
    assert status == [[0]]


def test_status_without_geometry_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="status is True without geometry"):
        detection_postprocess(geometry=False, batch_size=1, **ON_CPU)
