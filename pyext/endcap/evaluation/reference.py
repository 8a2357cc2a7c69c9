"""The same network without a server: OpenCV, ONNX Runtime and NumPy, and nothing of endcap's core.

What it shares with the served way is the network's file and the parameters, so that a difference in
accuracy is the serving's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from endcap.errors import EndcapError
from endcap.evaluation.arrays import Floats, Integers
from endcap.evaluation.categories import ClassMap
from endcap.evaluation.dataset import Dataset
from endcap.evaluation.errors import EvaluationError, import_package
from endcap.evaluation.head_shape import count_classes
from endcap.evaluation.nms_numpy import suppress
from endcap.evaluation.numpy_heads import SUPPRESSED_HERE, read_head
from endcap.evaluation.numpy_scores import best_classes
from endcap.evaluation.onnx_network import OnnxNetwork
from endcap.evaluation.opencv_tensor import place_image
from endcap.evaluation.predictions import Failure, ImagePredictions, Predictions
from endcap.evaluation.reference_settings import Fit, HeadName, ReferenceSettings


class Reference:
    """An ONNX network with the pre- and postprocessing around it.

    Args:
        outputs: The network's names of its outputs by those of the family, where they are known.
        threads: Of ONNX Runtime. size: height and width of the tensor. num_classes: what the head
            has, or else the settings; None where neither tells. Raises EvaluationError when the
            model cannot be loaded, does not take one image, or its head is not of the family said.
    """

    def __init__(
        self,
        model: Path,
        settings: ReferenceSettings,
        *,
        outputs: Mapping[str, str] | None = None,
        threads: int = 1,
    ) -> None:
        import_package("cv2")  # now, not at the first image
        self._network = OnnxNetwork(model, settings, outputs=outputs, threads=threads)
        self.size = self._network.size
        if settings.head is HeadName.rtdetr and settings.box_side is None:
            settings = dataclasses.replace(settings, box_side=self.size)
        self.settings = settings
        if settings.fit is Fit.center_crop and max(self.size) > settings.resize_shorter:
            raise EvaluationError(
                f"{model} takes images of {self.size[0]}x{self.size[1]} (height x width), and no "
                f"such size is cut from images whose short side is {settings.resize_shorter}; name "
                "another preset"
            )
        self.num_classes = count_classes(self._network.run_blank(settings.channels), settings)

    def detect(self, encoded: bytes) -> tuple[Floats, Floats, Integers]:
        """Return boxes xyxy [N, 4] in pixels of the picture, scores [N], class ids [N].

        Raises:
            CorruptImageError: OpenCV cannot decode the image.
            InvalidArgumentError: The head has values that are no finite numbers.
            EvaluationError: The network fails.
        """
        placed = place_image(encoded, self.size, self.settings)
        boxes, scores, class_ids = read_head(self._network.run(placed.tensor), self.settings)
        if self.settings.head in SUPPRESSED_HERE:
            groups = np.zeros_like(class_ids) if self.settings.class_agnostic else class_ids
            kept = suppress(
                boxes,
                groups,
                iou_threshold=self.settings.iou_threshold,
                max_detections=self.settings.max_detections,
            )
        else:
            kept = np.arange(min(len(boxes), self.settings.max_detections))
        return placed.to_source(boxes[kept]), scores[kept], class_ids[kept]

    def classify(self, encoded: bytes) -> tuple[Floats, Integers]:
        """Return scores [top_k] and class ids [top_k] of a classifier, best first.

        Raises as `detect` does.
        """
        placed = place_image(encoded, self.size, self.settings)
        (logits,) = self._network.run(placed.tensor)
        return best_classes(logits, self.settings)


def predict_reference(
    reference: Reference, dataset: Dataset, classes: ClassMap, *, on_image: Callable[[], None]
) -> Predictions:
    """Return the reference's detections; on_image is called after each image."""
    by_image: dict[int, ImagePredictions] = {}
    failures: list[Failure] = []
    for image in dataset.images:
        name = str(image.path)
        try:
            found = reference.detect(image.path.read_bytes())
        except OSError as error:
            failures.append(Failure(name, "reference", "unreadable", str(error.strerror)))
        except EndcapError as error:
            failures.append(Failure(name, "reference", error.status.label, str(error)))
        else:
            by_image[image.id] = classes.predictions(*found)
        on_image()
    return Predictions(by_image, tuple(failures))
