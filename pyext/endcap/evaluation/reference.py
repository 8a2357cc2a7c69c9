"""Reference for a served model: OpenCV and NumPy around the same network on ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import endcap._core as _core
from endcap._onnx_network import OnnxNetwork
from endcap.errors import EndcapError, UnsupportedError
from endcap.evaluation import EvaluationError, import_package
from endcap.evaluation.annotations import Dataset, Failure, Predictions, Row
from endcap.evaluation.categories import ClassMap
from endcap.evaluation.numpy_heads import (
    HEADS,
    SUPPRESSED_HERE,
    Floats,
    Integers,
    best_classes,
    read_head,
    suppress,
)
from endcap.evaluation.numpy_images import place_image, read_image, to_tensor
from endcap.postprocess import Postprocessor
from endcap.preprocess import Preprocessor
from endcap.triton.ensemble import find_network, read_ensemble

_ADVICE = "compare with your own pipeline, whose results `endcap evaluate --predictions` takes"
_PROTOTYPES = "protos"  # of masks, which the reference does not compare


class Reference:
    """An ONNX network with the pre- and postprocessing around it.

    Args:
        model: The ONNX file.
        preprocess: Endcap's parameters that are not the default.
        postprocess: Likewise.
        outputs: The network's names of its outputs, by postprocess' names, where they differ.

    Attributes:
        preprocess, postprocess: All parameters, as texts.

    Raises:
        EvaluationError: The model cannot be loaded, or its image or heads are not those of the
            parameters.
        InvalidArgumentError: Impossible parameters.
        UnsupportedError: Parameters that the reference cannot follow.
    """

    def __init__(
        self,
        model: Path,
        preprocess: Mapping[str, Any],
        postprocess: Mapping[str, Any],
        outputs: Mapping[str, str] | None = None,
    ) -> None:
        self.preprocess = Preprocessor(**preprocess).parameters
        self.postprocess = Postprocessor(**postprocess).parameters
        _refuse_unsupported(self.preprocess, self.postprocess)
        ((_, _, image),) = _core.Preprocessor(list(self.preprocess.items()), 1).outputs[:1]
        inputs = _core.Postprocessor(list(self.postprocess.items()), 1).inputs
        shapes = {name: shape for name, _, shape in inputs if name != _PROTOTYPES}
        import_package("cv2")  # now, not at the first image
        self._network = OnnxNetwork(model, error=EvaluationError, threads=1)
        self._outputs = [(outputs or {}).get(name, name) for name in shapes]
        if not set(self._outputs) <= set(self._network.outputs):
            raise EvaluationError(
                f"{model} gives {', '.join(self._network.outputs)}, and "
                f"{', '.join(self._outputs)} are expected; give the network that is served"
            )
        heads = self.run(np.zeros((1, *image), np.float32))  # fails for other images
        for head, wanted in zip(heads, shapes.values(), strict=True):
            if len(head.shape) != len(wanted) or any(
                want not in (-1, side) for side, want in zip(head.shape, wanted, strict=True)
            ):
                raise EvaluationError(
                    f"{model} returns {list(head.shape)} for an image, but head "
                    f"{self.postprocess['head']} with num_classes "
                    f"{self.postprocess['num_classes']} has {list(wanted)} (-1 is any number); "
                    "correct these parameters of postprocess, or give another network"
                )

    @property
    def is_classifier(self) -> bool:
        """Whether the network gives classes and no boxes."""
        return self.postprocess["head"] == "classification"

    @property
    def num_classes(self) -> int:
        """Classes of the network."""
        return int(self.postprocess["num_classes"])

    def run(self, tensor: NDArray[np.float32]) -> list[NDArray[Any]]:
        """Return the heads of one image [1, ...], without the batch dimension.

        Numbers are rounded to the type that the network takes.

        Raises:
            EvaluationError: The network fails.
        """
        return [
            head[0].astype(np.float32) if np.issubdtype(head.dtype, np.floating) else head[0]
            for head in self._network.run(tensor, self._outputs)
        ]

    def detect(self, encoded: bytes) -> tuple[Floats, Floats, Integers]:
        """Return boxes xyxy [N, 4] in pixels of the picture, scores [N], class ids [N].

        Raises:
            CorruptImageError: OpenCV cannot decode the image.
            InvalidArgumentError: The head has values that are not finite numbers.
            EvaluationError: The network fails.
        """
        before, parameters = self.preprocess, self.postprocess
        placed = place_image(read_image(encoded, before), before)
        tensor = to_tensor(placed.pixels, before)
        boxes, scores, class_ids = read_head(self.run(tensor), parameters)
        mapped = placed.to_source(boxes)
        counts = (mapped[:, :2] < mapped[:, 2:]).all(axis=1)  # boxes with an area
        boxes, mapped = boxes[counts], mapped[counts]
        scores, class_ids = scores[counts], class_ids[counts]
        max_detections = int(parameters["max_detections"])
        if parameters["head"] in SUPPRESSED_HERE:
            is_agnostic = parameters["class_agnostic"] == "true"
            kept = suppress(
                boxes,
                np.zeros_like(class_ids) if is_agnostic else class_ids,
                iou_threshold=float(parameters["iou_threshold"]),
                max_detections=max_detections,
            )
        else:
            kept = np.arange(min(len(boxes), max_detections))
        return mapped[kept], scores[kept], class_ids[kept]

    def classify(self, encoded: bytes) -> tuple[Floats, Integers]:
        """Return scores [top_k] and class ids [top_k] of a classifier, best first.

        Raises as `detect` does.
        """
        before = self.preprocess
        placed = place_image(read_image(encoded, before), before)
        (logits,) = self.run(to_tensor(placed.pixels, before))
        return best_classes(logits, self.postprocess)


def _refuse_unsupported(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    problem = ""
    if after["head"] not in HEADS:
        problem = f"head is {after['head']}, and the reference reads only {', '.join(HEADS)}"
    elif before["tile"] != "0,0":
        problem = "preprocess makes tiles of an image (tile), and the reference takes it whole"
    elif before["interpolation"] != "bilinear":
        problem = f"interpolation is {before['interpolation']}, and the reference has only bilinear"
    elif before["antialias"] == "true" and before["quantize"] != "uint8":
        problem = "the reference has antialias only with quantize uint8"
    if problem:
        raise UnsupportedError(f"{problem}; {_ADVICE}")


def predict_reference(
    reference: Reference, dataset: Dataset, classes: ClassMap, *, on_image: Callable[[], None]
) -> Predictions:
    """Return the reference's detections; on_image is called after each image."""
    rows: list[Row] = []
    failures: list[Failure] = []
    for image_id, path in dataset.images.items():
        try:
            found = reference.detect(path.read_bytes())
        except OSError as error:
            failures.append(Failure(str(path), "reference", "unreadable", str(error.strerror)))
        except EndcapError as error:
            failures.append(Failure(str(path), "reference", error.status.label, str(error)))
        else:
            rows += classes.as_rows(image_id, *found)
        on_image()
    return Predictions(rows, tuple(failures))


def open_reference(
    repository: Path,
    model: str,
    *,
    network: Path | None = None,
    score_threshold: float | None = None,
) -> Reference:
    """Return the reference that does what an ensemble of a repository does.

    Args:
        repository: The model repository.
        model: The ensemble's name.
        network: The ONNX file; None takes the one that the repository serves.
        score_threshold: Instead of the served one.

    Raises:
        EvaluationError: The network cannot be loaded, or is not the one that is served.
        ServerError: A configuration that cannot be read.
        UnsupportedError: What the reference cannot do.
    """
    served = find_network(read_ensemble(repository, model))
    if score_threshold is not None:
        served.postprocess["score_threshold"] = repr(score_threshold)
    file = network or served.find_file()
    if file is None:
        raise EvaluationError(
            f"{served.step.folder} has no ONNX file, and the comparison runs the network as one; "
            "give it with --network FILE.onnx"
        )
    return Reference(file, served.preprocess, served.postprocess, served.outputs)
