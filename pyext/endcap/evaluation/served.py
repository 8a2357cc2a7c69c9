"""What a running server detects in a data set."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from endcap.client import DetectionClient, ImageResult
from endcap.evaluation.categories import ClassMap
from endcap.evaluation.dataset import Dataset
from endcap.evaluation.predictions import Failure, ImagePredictions, Predictions

# At a low score threshold an image has hundreds of detections; as arrays they take little memory,
# as objects of the client they take much.
_IMAGES_AT_ONCE = 256


def predict_served(
    client: DetectionClient,
    dataset: Dataset,
    classes: ClassMap,
    *,
    on_image: Callable[[], None],
) -> Predictions:
    """Send every image to the server and return its detections.

    Args:
        on_image: Is called after each image. Raises InvalidArgumentError for a class without
            category.
    """
    by_image: dict[int, ImagePredictions] = {}
    failures: list[Failure] = []
    for begin in range(0, len(dataset.images), _IMAGES_AT_ONCE):
        images = dataset.images[begin : begin + _IMAGES_AT_ONCE]
        results = client.detect([image.path for image in images], on_result=lambda _: on_image())
        for image, result in zip(images, results, strict=True):
            if result.ok:
                by_image[image.id] = _predictions(result, classes)
            else:
                failures.append(
                    Failure(str(image.path), "server", result.status, result.error or "no reason")
                )
    return Predictions(by_image, tuple(failures))


def _predictions(result: ImageResult, classes: ClassMap) -> ImagePredictions:
    detections = result.detections
    return classes.predictions(
        detections.boxes.astype(np.float64),
        detections.scores.astype(np.float64),
        detections.class_ids.astype(np.int64),
    )
