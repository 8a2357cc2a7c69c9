"""Differences of a network's outputs for endcap's tensors and for the training pipeline's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap.detections import Classification, ImageDetections
from endcap.errors import InvalidArgumentError
from endcap.evaluation.annotations import Dataset, ImagePredictions, Predictions
from endcap.evaluation.categories import ClassMap, match_categories
from endcap.evaluation.coco import Accuracy, measure
from endcap.evaluation.errors import EvaluationError
from endcap.evaluation.onnx_network import ELEMENTS, open_session, to_element
from endcap.evaluation.side_by_side import match_detections
from endcap.postprocess import Postprocessor
from endcap.tools.parity.tensors import ImageParity, make_preprocessor

# Of COCO's metrics, which need the detections with low scores as well.
_LOW_SCORE = "0.001"


class Network:
    """An ONNX network that takes one image.

    Args:
        file: The ONNX file.
        threads: Of ONNX Runtime.

    Raises:
        EvaluationError: It cannot be loaded, or takes something else than one image.
    """

    def __init__(self, file: Path, *, threads: int = 1) -> None:
        self.file = file
        self._session = open_session(file, threads)
        (image, *others) = self._session.get_inputs()
        if others or len(image.shape) != 4 or image.type not in ELEMENTS:
            raise EvaluationError(
                f"{file} takes {len(others) + 1} inputs, the first {image.type} {image.shape}; one "
                "image of four dimensions is expected"
            )
        self._image, self._element = image.name, ELEMENTS[image.type]
        self._is_last = image.shape[3] in (1, 3) and image.shape[1] not in (1, 3)
        self.outputs = [each.name for each in self._session.get_outputs()]

    def run(self, tensor: NDArray[np.float32]) -> dict[str, NDArray[Any]]:
        """Return the outputs by name for a tensor [H, W, C].

        Raises:
            EvaluationError: The network fails, as for a size that it does not take.
        """
        ordered = tensor if self._is_last else tensor.transpose(2, 0, 1)
        image = to_element(np.ascontiguousarray(ordered[None]), self._element)
        try:
            values = self._session.run(None, {self._image: image})
        except Exception as error:  # ONNX Runtime's errors have no common type
            reason = " ".join(str(error).split())
            raise EvaluationError(
                f"{self.file} cannot be run on a tensor {list(image.shape)}: {reason}"
            ) from error
        return dict(zip(self.outputs, values, strict=True))


@dataclass(frozen=True, kw_only=True)
class OutputsReport:
    """Differences of a network's outputs.

    Attributes:
        largest: The largest difference of each output, by its name.
        spread: Each output's standard deviation, to compare these with.
        same_class: Of a classifier, the images whose best class is the same.
        images: How many there are.
        training, endcap: Detections of either; None without postprocessing.
        matched: Those of the same class with an IoU above 0.5.
        score_difference, box_difference: The largest of the matched, of a score and of an edge in
            pixels of the image; None where nothing matched.
        accuracy: COCO's metrics of the training pipeline's tensors and of endcap's; None without
            annotations.
    """

    largest: dict[str, float]
    spread: dict[str, float]
    images: int
    same_class: int | None = None
    training: int | None = None
    endcap: int | None = None
    matched: int | None = None
    score_difference: float | None = None
    box_difference: float | None = None
    accuracy: tuple[Accuracy, Accuracy] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as an object of JSON."""
        accuracy = None
        if self.accuracy is not None:
            accuracy = [{"map50": each.map50, "map50_95": each.map50_95} for each in self.accuracy]
        return {
            "largest_difference": self.largest,
            "standard_deviation": self.spread,
            "images": self.images,
            "same_best_class": self.same_class,
            "detections": None
            if self.training is None
            else {
                "training": self.training,
                "endcap": self.endcap,
                "matched": self.matched,
                "largest_score_difference": self.score_difference,
                "largest_box_difference_pixels": self.box_difference,
            },
            "accuracy": accuracy and {"training": accuracy[0], "endcap": accuracy[1]},
        }


@dataclass(frozen=True, kw_only=True)
class Postprocessing:
    """How a network's outputs become detections or classes.

    Attributes:
        parameters: Of postprocess.
        outputs: The network's names of its outputs, by those of postprocess' inputs.
    """

    parameters: Mapping[str, str]
    outputs: Mapping[str, str]

    def make(self, **changes: str) -> Postprocessor:
        """Return a postprocessor, with some parameters changed."""
        fields: dict[str, Any] = {**self.parameters, **changes}
        return Postprocessor(fields.pop("head"), threads=1, **fields)

    def heads(self, outputs: Mapping[str, NDArray[Any]]) -> Any:
        """Return a network's outputs as a postprocessor takes them."""
        found = {
            name: outputs[of].astype(np.float32)
            if np.issubdtype(outputs[of].dtype, np.floating)
            else outputs[of]
            for name, of in self.outputs.items()
        }
        return next(iter(found.values())) if len(found) == 1 else found


def compare_outputs(
    network: Network,
    images: Sequence[ImageParity],
    geometries: Sequence[NDArray[np.float32]],
    parameters: Mapping[str, str],
    postprocessing: Postprocessing | None,
    *,
    dataset: Dataset | None = None,
    labels: Sequence[str] | None = None,
    on_image: Callable[[], None] = lambda: None,
) -> OutputsReport:
    """Run a network on both tensors of each image, and compare what it gives.

    Args:
        network: The network.
        images: The tensors.
        geometries: How each image lies in the training pipeline's tensor, float32 [8] as of
            preprocess.
        parameters: Endcap's of preprocess, for the geometry of its own tensors.
        postprocessing: What follows the network; None compares the outputs alone.
        dataset: Annotations of the images, for COCO's metrics.
        labels: The class names, by which categories are found.
        on_image: Is called after each image.

    Raises:
        EvaluationError: The network fails.
        InvalidArgumentError: Outputs that the postprocessing does not take, or classes that the
            annotations do not have.
    """
    preprocessor = make_preprocessor(parameters)
    pairs: list[tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]] = []
    own_geometries = []
    for each in images:
        pairs.append((network.run(each.training), network.run(each.endcap)))
        own_geometries.append(preprocessor(each.path).geometry[0])
        on_image()
    report = _compare_raw(network.outputs, pairs)
    if postprocessing is None:
        return report
    if postprocessing.parameters["head"] == "classification":
        return replace(report, same_class=_same_classes(postprocessing, pairs))
    matched = _match(
        report, postprocessing, pairs, list(zip(geometries, own_geometries, strict=True))
    )
    if dataset is None:
        return matched
    return replace(
        matched,
        accuracy=_accuracies(
            postprocessing,
            pairs,
            list(zip(geometries, own_geometries, strict=True)),
            [each.path for each in images],
            dataset,
            labels,
        ),
    )


def _compare_raw(
    names: Sequence[str],
    pairs: Sequence[tuple[Mapping[str, NDArray[Any]], Mapping[str, NDArray[Any]]]],
) -> OutputsReport:
    largest, spread = {}, {}
    for name in names:
        one, other = (
            np.concatenate([pair[side][name].astype(np.float64).ravel() for pair in pairs])
            for side in (0, 1)
        )
        if one.shape == other.shape:  # not of a number of boxes that depends on the image
            largest[name] = float(np.abs(one - other).max(initial=0.0))
            spread[name] = float(one.std()) if one.size else 0.0
    return OutputsReport(largest=largest, spread=spread, images=len(pairs))


def _same_classes(
    postprocessing: Postprocessing,
    pairs: Sequence[tuple[Mapping[str, NDArray[Any]], Mapping[str, NDArray[Any]]]],
) -> int:
    postprocessor = postprocessing.make()
    same = 0
    for pair in pairs:
        best = []
        for outputs in pair:
            result = postprocessor(postprocessing.heads(outputs))
            if not isinstance(result, Classification):
                raise InvalidArgumentError("the postprocessing gives no classes")
            best.append(int(result.class_ids[0, 0]))
        same += best[0] == best[1]
    return same


_Geometries = Sequence[tuple[NDArray[np.float32], NDArray[np.float32]]]


def _match(
    report: OutputsReport,
    postprocessing: Postprocessing,
    pairs: Sequence[tuple[Mapping[str, NDArray[Any]], Mapping[str, NDArray[Any]]]],
    geometries: _Geometries,
) -> OutputsReport:
    postprocessor = postprocessing.make()
    counts = np.zeros(3, int)
    scores, boxes = [], []
    for pair, places in zip(pairs, geometries, strict=True):
        training, ours = (
            detect(postprocessor, postprocessing.heads(outputs), place)
            for outputs, place in zip(pair, places, strict=True)
        )
        matched = match_detections(ours, training)
        counts += (matched.reference, matched.served, matched.matched)
        if matched.score_difference is not None:
            scores.append(matched.score_difference)
        if matched.box_difference_pixels is not None:
            boxes.append(matched.box_difference_pixels)
    return replace(
        report,
        training=int(counts[0]),
        endcap=int(counts[1]),
        matched=int(counts[2]),
        score_difference=max(scores, default=None),
        box_difference=max(boxes, default=None),
    )


def detect(
    postprocessor: Postprocessor, heads: Any, geometry: NDArray[np.float32] | None
) -> ImageDetections:
    """Return the detections of one image; without a geometry in pixels of the tensor.

    Raises:
        InvalidArgumentError: The heads are of a classifier, or do not fit.
    """
    result = postprocessor(heads, geometry)
    if isinstance(result, Classification):
        raise InvalidArgumentError("the postprocessing gives no detections")
    return result[0]


def _accuracies(
    postprocessing: Postprocessing,
    pairs: Sequence[tuple[Mapping[str, NDArray[Any]], Mapping[str, NDArray[Any]]]],
    geometries: _Geometries,
    paths: Sequence[Path],
    dataset: Dataset,
    labels: Sequence[str] | None,
) -> tuple[Accuracy, Accuracy]:
    postprocessor = postprocessing.make(score_threshold=_LOW_SCORE)
    classes = match_categories(
        dataset.categories,
        labels=labels,
        num_classes=int(postprocessor.parameters["num_classes"]),
        allow_unmatched=True,
    )
    ids = {image.path: image.id for image in dataset.images}
    found = []
    for side in (0, 1):
        by_image = {
            ids[path]: _predictions(
                detect(postprocessor, postprocessing.heads(pair[side]), places[side]), classes
            )
            for pair, places, path in zip(pairs, geometries, paths, strict=True)
            if path in ids
        }
        found.append(measure(dataset, Predictions(by_image), classes.category_ids))
    return found[0], found[1]


def _predictions(detections: ImageDetections, classes: ClassMap) -> ImagePredictions:
    return classes.predictions(
        detections.boxes.astype(np.float64),
        detections.scores.astype(np.float64),
        detections.class_ids.astype(np.int64),
    )
