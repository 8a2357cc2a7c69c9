"""The steps of an ensemble in one process: preprocess, ONNX Runtime, postprocess."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

import endcap._core as _core
from endcap._onnx_network import OnnxNetwork
from endcap.batch.results import ImageRow
from endcap.batch.storage import BatchError
from endcap.client.results import ImageResult, Task
from endcap.cuda_array import on_host
from endcap.detections import ImageDetections
from endcap.errors import EndcapError, Status, UnsupportedError, error_for_status
from endcap.postprocess import Postprocessor
from endcap.predictions import ClassScore
from endcap.preprocess import Preprocessor
from endcap.triton.ensemble import (
    POSTPROCESS_BACKEND,
    ServedEnsemble,
    find_network,
    read_ensemble,
)
from endcap.triton.labels import parse_labels
from endcap.triton.stage_settings import read_class_names

Predictions: TypeAlias = ImageDetections | list[ClassScore]


@dataclass(frozen=True)
class PipelineSpec:
    """All that a pipeline needs, as values that can be sent to other machines.

    Attributes:
        preprocess: The parameters of the first step.
        postprocess: Those of the last step.
        files: The network's file and the files of its weights, by name.
        network: The name of the network's file.
        heads: Names of the network's outputs, by the names of postprocess' inputs.
        labels: Class names by id.
    """

    preprocess: Mapping[str, Any]
    postprocess: Mapping[str, Any]
    files: Mapping[str, bytes] = field(repr=False)
    network: str
    heads: Mapping[str, str]
    labels: tuple[str, ...] = ()

    @classmethod
    def from_repository(cls, repository: str | Path, model: str = "detect") -> PipelineSpec:
        """Read an ensemble of a model repository, as `endcap init` writes it.

        Raises:
            ServerError: A configuration cannot be read.
            UnsupportedError: An ensemble of other steps, or a network that is no ONNX file.
        """
        ensemble = read_ensemble(Path(repository), model)
        network = find_network(ensemble)
        file = network.find_file()
        if file is None:
            raise UnsupportedError(
                f"{network.step.folder} has no ONNX file, and only such a network runs without a "
                "server; serve the repository, and give the server's address"
            )
        beside = (path for path in file.parent.iterdir() if path.is_file())
        kept = {path.name: path.read_bytes() for path in beside if path.suffix not in (".py", "")}
        return cls(
            preprocess=network.preprocess,
            postprocess=network.postprocess,
            files=kept,
            network=file.name,
            heads=network.outputs,
            labels=_read_labels(ensemble),
        )

    @property
    def identity(self) -> str:
        """Digits that tell this pipeline from one with other parameters or another network."""
        digest = hashlib.sha256()
        for steps in (self.preprocess, self.postprocess, self.files):
            for name, value in sorted(steps.items()):
                digest.update(f"{name}\0{len(value)}\0".encode())
                digest.update(value if isinstance(value, bytes) else str(value).encode())
        return digest.hexdigest()

    @property
    def task(self) -> Task:
        """What the network does."""
        is_classifier = self.postprocess.get("head") == "classification"
        return Task.classification if is_classifier else Task.detection


class Pipeline:
    """An ensemble's steps, ready to run.

    Args:
        spec: What it is made of.
        device: Of preprocess, network and postprocess: ``cpu``, ``cuda`` or ``cuda:N``.
        threads: Of the core and of ONNX Runtime; all CPUs by default.

    Raises:
        BatchError: ONNX Runtime is missing, or cannot load the network.
        EndcapError: A parameter that cannot be, or a device that cannot be used.
    """

    def __init__(
        self, spec: PipelineSpec, *, device: str = "cpu", threads: int | None = None
    ) -> None:
        if spec.postprocess.get("head") == "semantic":
            raise UnsupportedError(
                "a batch holds detections or classes, and head semantic gives the class of each "
                "pixel: use `endcap infer`, or endcap.Postprocessor in your own code"
            )
        images: Any = {**spec.preprocess, "on_error": "blank"}
        heads: Any = dict(spec.postprocess)
        self._preprocess = Preprocessor(**images, device=device, threads=threads)
        self._strict = Preprocessor(**{**images, "on_error": "error"}, threads=1)
        self._postprocess = Postprocessor(**heads, threads=threads)
        # Weights may lie in files next to the network.
        with tempfile.TemporaryDirectory(prefix="endcap-", ignore_cleanup_errors=True) as folder:
            for name, content in spec.files.items():
                Path(folder, name).write_bytes(content)
            self._network = OnnxNetwork(
                Path(folder, spec.network),
                error=BatchError,
                device=device,
                threads=threads or 0,
            )
        self._spec = spec
        core = _core.Postprocessor([*spec.postprocess.items()], 1)
        self._head_dimensions = {name: len(shape) for name, _, shape in core.inputs}
        self._upright = self._preprocess.parameters["exif"] == "apply"
        self.task = spec.task
        self._labels = dict(enumerate(spec.labels))

    def detect(self, images: Sequence[tuple[str, bytes | memoryview]]) -> list[ImageRow]:
        """Return a row for each image, given as its name and the bytes of its file.

        Raises:
            BatchError: The network cannot be run.
        """
        if not images:
            return []
        inputs = self._preprocess([encoded for _, encoded in images])
        heads = self._run(on_host(inputs.images))
        found = self._finish(heads, inputs.geometry, inputs.status)
        rows = []
        for (name, encoded), status, geometry, prediction in zip(
            images, inputs.status.tolist(), inputs.geometry.tolist(), found, strict=True
        ):
            one = prediction if status == Status.OK else self._find_error(encoded, status)
            result = ImageResult(name, "ok", task=self.task, upright=self._upright)
            if isinstance(one, EndcapError):
                result = replace(result, status=one.status.label, error=str(one))
            elif isinstance(one, ImageDetections):
                labels = [self._labels.get(each) for each in one.class_ids.tolist()]
                result = replace(result, detections=replace(one, labels=labels))
            else:
                classes = [replace(each, label=self._labels.get(each.class_id)) for each in one]
                result = replace(result, classes=classes)
            rows.append(ImageRow(result, int(geometry[4]), int(geometry[5])))
        return rows

    def _run(self, tensors: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
        """Run the network, in the batches that it takes."""
        size = self._network.batch or len(tensors)
        parts = []
        for start in range(0, len(tensors), size):
            part = tensors[start : start + size]
            missing = size - len(part)
            if missing:
                part = np.concatenate([part, np.zeros((missing, *part.shape[1:]), part.dtype)])
            outputs = self._network.run(part, self._spec.heads.values())
            parts.append(
                [
                    _with_batch(output, self._head_dimensions[head])[: size - missing]
                    for head, output in zip(self._spec.heads, outputs, strict=True)
                ]
            )
        return {
            head: columns[0] if len(columns) == 1 else np.concatenate(columns)
            for head, columns in zip(self._spec.heads, zip(*parts, strict=True), strict=True)
        }

    def _finish(
        self,
        heads: Mapping[str, npt.NDArray[Any]],
        geometry: npt.NDArray[np.float32],
        status: npt.NDArray[np.int32],
    ) -> list[Predictions | EndcapError]:
        """Return each image's detections or classes, or the error of its head."""
        try:
            predictions: Any = self._postprocess(heads, geometry, status)
            return list(predictions)
        except EndcapError as error:
            if len(status) == 1:
                return [error]
        results: list[Predictions | EndcapError] = []
        for row in range(len(status)):  # one head is bad, and must not affect the others
            one = slice(row, row + 1)
            head = {name: values[one] for name, values in heads.items()}
            results += self._finish(head, geometry[one], status[one])
        return results

    def _find_error(self, encoded: bytes | memoryview, status: int) -> EndcapError:
        """Return why an image was refused."""
        try:
            self._strict(encoded)
        except EndcapError as error:
            return error
        return error_for_status(status, "it could not be processed")


def _with_batch(array: npt.NDArray[Any], dimensions: int) -> npt.NDArray[Any]:
    """Return an output with a batch dimension, which a network for one image may lack.

    Whole numbers of 64 bits become such of 32; half precision stays.
    """
    if array.ndim == dimensions:
        array = array[np.newaxis]
    return array.astype(np.int32) if array.dtype == np.int64 else array


def _read_labels(ensemble: ServedEnsemble) -> tuple[str, ...]:
    """Return the class names by id: the ensemble's own, or a classifier's file of them."""
    if ensemble.labels_text:
        return tuple(parse_labels(ensemble.labels_text))
    (step,) = ensemble.steps_in(POSTPROCESS_BACKEND)
    names = read_class_names(step.parameters, step.folder).names
    return tuple(name.decode(errors="replace") for name in names)
