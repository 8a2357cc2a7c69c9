"""Sliced detection equals SAHI's around the same network: boxes, classes and scores."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import endcap
from tests.support.tolerances import SLICED_BOX_PIXELS
from training.scenes import make_grid

ort = pytest.importorskip("onnxruntime")
predict = pytest.importorskip("sahi.predict", reason="`make test-peers` has sahi")
base = pytest.importorskip("sahi.models.base")
prediction = pytest.importorskip("sahi.prediction")

SCENES = 40
NETWORK = "model_repository/detector/1/model.onnx"
HEAD = {"head": "yolov8", "num_classes": 6, "score_threshold": 0.3}
TILE = 640


@cache
def session() -> Any:
    return ort.InferenceSession(NETWORK, providers=["CPUExecutionProvider"])


class SampleDetector(base.DetectionModel):
    """The sample network for SAHI; boxes are in pixels of the whole image, as endcap's are."""

    def load_model(self) -> None:
        self.model = session()
        self._postprocessor = endcap.Postprocessor(**HEAD)

    def set_device(self, device: str | None = None) -> None:
        self.device = "cpu"

    def perform_inference(self, image: np.ndarray) -> None:
        result = endcap.preprocess(image)
        (self._heads,) = self.model.run(None, {"images": result.images})
        self._geometry = result.geometry

    def _create_object_prediction_list_from_original_predictions(
        self, shift_amount_list: Any = None, full_shape_list: Any = None
    ) -> None:
        (x, y), (height, width) = np.reshape(shift_amount_list, 2), np.reshape(full_shape_list, 2)
        geometry = self._geometry.copy()
        geometry[0, 2:4] -= geometry[0, :2] * np.float32([x, y])
        geometry[0, 4:6] = width, height
        (found,) = self._postprocessor(self._heads, geometry)
        self._object_prediction_list_per_image = [
            [
                prediction.ObjectPrediction(
                    bbox=list(each.box),
                    category_id=each.class_id,
                    category_name=str(each.class_id),
                    score=each.score,
                    shift_amount=[0, 0],
                    full_shape=[height, width],
                )
                for each in found
            ]
        ]


def make_sahi_rows(image: np.ndarray, merge: str, metric: str) -> np.ndarray:
    result = predict.get_sliced_prediction(
        image, SampleDetector(confidence_threshold=0.3), TILE, TILE, verbose=0,
        postprocess_type=merge, postprocess_match_metric=metric,
    )  # fmt: skip
    rows = [
        [*each.bbox.to_xyxy(), each.score.value, each.category.id]
        for each in result.object_prediction_list
    ]
    return np.array(rows, np.float32).reshape(-1, 6)


def make_endcap_rows(image: np.ndarray, merge: str, metric: str) -> np.ndarray:
    tiles = endcap.preprocess(image, tile=TILE)
    # One after the other, as SAHI runs them: what is compared is not the network.
    heads = [session().run(None, {"images": each[None]})[0] for each in tiles.images]
    merger = endcap.Postprocessor(**HEAD, merge=merge, merge_metric=metric)
    (found,) = merger(np.concatenate(heads), tiles.geometry)
    return np.array([[*each.box, each.score, each.class_id] for each in found], np.float32)


def sort(rows: np.ndarray) -> np.ndarray:
    return rows[np.lexsort((rows[:, 0], rows[:, 5], -rows[:, 4]))]


@pytest.mark.parametrize("scene", range(SCENES))
def test_detections_equal_sahis(scene: int) -> None:
    image = make_grid([9, scene], 2).image
    type_, merge, metric = (("GREEDYNMM", "nmm", "ios"), ("NMS", "nms", "iou"))[scene % 4 == 3]
    expected = sort(make_sahi_rows(image, type_, metric.upper()))
    actual = sort(make_endcap_rows(image, merge, metric))
    assert len(expected) > 3
    np.testing.assert_array_equal(actual[:, 5], expected[:, 5])
    np.testing.assert_allclose(actual[:, 4], expected[:, 4], rtol=0, atol=1e-6)
    np.testing.assert_allclose(actual[:, :4], expected[:, :4], rtol=0, atol=SLICED_BOX_PIXELS)


@pytest.mark.parametrize("size", [(640, 640), (641, 639), (1000, 3000), (3000, 4000), (97, 2000)])
@pytest.mark.parametrize("tile", [(640, 640), (333, 512)])
@pytest.mark.parametrize("overlap", [0.0, 0.2, 0.37])
def test_tiles_equal_sahis(size: tuple[int, int], tile: tuple[int, int], overlap: float) -> None:
    slicing = pytest.importorskip("sahi.slicing")
    expected = slicing.get_slice_bboxes(
        *size, *tile, overlap_height_ratio=overlap, overlap_width_ratio=overlap
    )
    preprocessor = endcap.Preprocessor(tile=tile, tile_overlap=overlap, tile_full=False)
    tiles = preprocessor.tiles(np.zeros(size, np.uint8))
    np.testing.assert_array_equal(tiles, np.array(expected, np.float32))
