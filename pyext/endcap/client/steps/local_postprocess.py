"""A postprocess step, taken here with the parameters of the server's model."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap import _core
from endcap._arrays import empty
from endcap.client.errors import RequestError
from endcap.client.steps.local_model import first_failure, read_postprocess
from endcap.client.steps.served_steps import Step
from endcap.client.steps.tensors import BatchTensors
from endcap.errors import EndcapError, UnsupportedError
from endcap.masks import pad_rle

_RUN_LENGTHS, _LABELS = "detection_rle", "class_labels"


class LocalPostprocess:
    """The head, `geometry` and `status` to detections or classes. Thread-safe.

    step: of the ensemble. wanted: the tensors of the ensemble that are needed of its outputs.
    Of these, names from a file of labels cannot be made: the file is the server's. They are empty,
    as in the server, where it has no such file.
    Raises UnsupportedError for a step that cannot be taken here.
    """

    def __init__(self, step: Step, wanted: Collection[str]) -> None:
        settings = read_postprocess(step)
        # The server's `threads` are for the server's CPUs.
        self._core = _core.Postprocessor(settings.parameters, 0)
        self._inputs = step.place.inputs
        missing = [name for name, _, _ in self._core.inputs if name not in self._inputs]
        if missing:
            raise UnsupportedError(
                f"the step {step.place.model} does not say where its {missing[0]} comes from; "
                "`endcap validate` says what is wrong with the ensemble"
            )
        self._outputs = {
            own: tensor for own, tensor in step.place.outputs.items() if tensor in wanted
        }
        self._batched = settings.batched
        self._has_no_labels = (
            _LABELS in self._outputs and "labels_file" not in step.model.parameters
        )
        values = {name: value for name, _, _, value in self._core.parameters}
        self._max_detections = int(values["max_detections"])

    def run(self, count: int, tensors: BatchTensors) -> RequestError | None:
        """Puts its outputs among the tensors. count: of the images.

        Returns, as the server says it, the first bad head; not raised, as of LocalPreprocess.
        """
        heads = [self._rows(name, count, tensors) for name, _, _ in self._core.inputs]
        made = self._memory(count)
        part = (
            heads,
            self._side_rows("geometry", np.float32, (count, 8), tensors),
            self._side_rows("status", np.int32, (count, 1), tensors).reshape(-1),
            list(made.values()),
            _RUN_LENGTHS in self._outputs,
        )
        try:
            [(items, rle)] = self._core.run([part])
        except EndcapError as error:
            return RequestError(error.status.label, str(error))
        if _RUN_LENGTHS in self._outputs:
            made[_RUN_LENGTHS] = pad_rle(rle, self._max_detections)
        if self._has_no_labels:
            (top_k,) = next(shape for name, _, shape in self._core.outputs if name == "class_ids")
            made[_LABELS] = np.full((count, top_k), b"", np.object_)
        for own, tensor in self._outputs.items():
            rows = made.get(own)
            if rows is not None:
                tensors.put(tensor, rows if self._batched else rows[0])
        return first_failure(items)

    def _rows(self, name: str, count: int, tensors: BatchTensors) -> NDArray[Any]:
        array = tensors.array(self._inputs[name])
        rows = np.require(array if self._batched else array[np.newaxis], requirements=["C", "A"])
        if rows.ndim == 0 or len(rows) != count:
            raise RequestError(
                "internal",
                f"the server answered {name} {list(array.shape)} for {count} images; one row for "
                "each is expected",
            )
        return rows

    def _side_rows(
        self, name: str, dtype: type[np.generic], shape: tuple[int, int], tensors: BatchTensors
    ) -> NDArray[Any]:
        """Returns an optional input; no row where the ensemble does not give it."""
        if name not in self._inputs:
            return np.empty((0, shape[1]), dtype)
        rows = self._rows(name, shape[0], tensors)
        if rows.dtype != dtype or rows.shape != shape:
            raise RequestError(
                "internal",
                f"the server answered {name} {rows.dtype} {list(rows.shape)}; "
                f"{np.dtype(dtype)} {list(shape)} is expected",
            )
        return rows

    def _memory(self, count: int) -> dict[str, NDArray[Any] | None]:
        """Returns room for the core's outputs, None for those that nobody wants."""
        return {
            name: empty((count, *shape), np.dtype(dtype)) if name in self._outputs else None
            for name, dtype, shape in self._core.outputs
        }
