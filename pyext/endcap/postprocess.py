"""Raw heads to detections: box_decode, nms, and boxes mapped back to the source image."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

import endcap._core as _core
from endcap._arrays import find_device, to_array
from endcap.box_decode import Head, Specs, to_batched
from endcap.cuda_array import CudaArray, Target, choose_target, cuda_device
from endcap.detections import Classification, Detections
from endcap.errors import InvalidArgumentError, raise_first
from endcap.parameters import (
    Parameter,
    PostprocessParameters,
    check_name,
    list_parameters,
    thread_count,
    to_parameters,
)
from endcap.segmentation import SegmentationMap

if TYPE_CHECKING:
    from typing_extensions import Unpack


# Whatever NumPy makes an array of; for a GPU also an array on it.
Array: TypeAlias = Any
_Tensors: TypeAlias = Detections | Classification
Result: TypeAlias = _Tensors | list[SegmentationMap]
_MASKS = "detection_masks"
# Status, message, truncated and dropped.
_Item: TypeAlias = tuple[int, str, bool, int]
_ONE_PER_IMAGE = ("num_detections", "status")  # outputs of shape [B, 1]
# Fields of the results by the names of outputs; others have the name without "detection_".
_FIELDS = {
    "detection_classes": "class_ids",
    _MASKS: "packed_masks",
    "class_scores": "scores",
    "class_probabilities": "probabilities",
}


class Postprocessor:
    """A reusable, thread-safe callable: raw heads in, detections out.

    Args:
        head: the family, of docs/heads.md: ``yolov8`` (also v9, 11, 12), ``yolov5``, ``end2end``
            (v10, 26), ``classification``, ``semantic`` and others.
        num_classes: classes of the model; must fit the head's shape.
        device: ``cpu``, ``cuda`` or ``cuda:N``.
        threads: images worked on at the same time; all CPUs by default. A GPU takes the batch as a
            whole, whatever is given.
        packed_masks: a head with masks also gives them as bits, max_detections * height * width / 8
            bytes an image; not with mask_resolution="source".
        fields: the parameters by name, of ``endcap.parameters.PostprocessParameters``, such as
            score_threshold=0.4, iou_threshold=0.5, max_detections=100. ``describe()`` tells their
            meanings.

    Raises:
        InvalidArgumentError: an unknown name or an impossible value.
        CudaError: a CUDA device that cannot be used; ``cuda_state()`` says more.
        UnsupportedError: a CUDA device with ``merge``, a head that only the CPU reads, or
            packed masks that only the CPU makes.
    """

    @list_parameters(PostprocessParameters)
    def __init__(
        self,
        head: str = "yolov8",
        num_classes: int | None = None,
        *,
        device: str = "cpu",
        threads: int | None = None,
        packed_masks: bool = False,
        **fields: Unpack[PostprocessParameters],
    ) -> None:
        check_name(head, "head", "a number of classes is given as num_classes=80")
        parameters = to_parameters({"head": head, "num_classes": num_classes, **fields})
        self._device_id = cuda_device(device)
        core = _core.Postprocessor(parameters, thread_count(threads), self._device_id)
        self._core, self._family = core, head
        self._inputs, self._outputs = core.inputs, core.outputs
        names = [name for name, _, _ in core.outputs]
        self._fields = [_FIELDS.get(name, name.removeprefix("detection_")) for name in names]
        self._has_masks = "mask_size" in names
        self._has_source_masks = _MASKS not in names  # which have no output of bits
        self._packed_masks = packed_masks
        if packed_masks and self._has_source_masks:
            raise InvalidArgumentError(
                f"packed_masks has nothing to pack with head {head}"
                + (": give mask_resolution=prototype or input" if self._has_masks else "")
            )

    def __repr__(self) -> str:
        head, classes = self.parameters["head"], self.parameters["num_classes"]
        return f"<Postprocessor {head}, {classes} classes, on {self.device}>"

    @property
    def parameters(self) -> dict[str, str]:
        """Every parameter and its value as text."""
        return {row.name: row.value for row in self.describe()}

    def describe(self) -> list[Parameter]:
        """Return every parameter with its meaning, the values it may have, and its value."""
        return [Parameter(*row) for row in self._core.parameters]

    @property
    def threads(self) -> int:
        """Images processed at the same time by the CPU; 1 on a GPU."""
        return self._core.threads

    @property
    def device(self) -> str:
        """``cpu`` or ``cuda:N``."""
        return "cpu" if self._device_id is None else f"cuda:{self._device_id}"

    def __call__(
        self,
        head: Head,
        geometry: Array | None = None,
        status: Array | None = None,
        *,
        stream: object = None,
    ) -> Result:
        """Process one image's head or a batch of B; one image gives a batch of 1.

        On a GPU the call waits for ``stream``, to learn of bad heads, of ``truncated`` and of
        ``dropped``; ``enqueue`` does not.

        Args:
            head: as the family says, float32 or float16; read in place. With ``merge`` a batch is
                the tiles of one image, and so gives the detections of one. With
                ``device="cuda"`` it may lie on that device; from host memory it is copied there.
            geometry: float32 [8] or [B, 8] from preprocess; without it boxes stay in pixels of the
                model's input. With ``device="cuda"`` it may lie on that device.
            status: int32 [B] from preprocess, in host memory; an image whose status is not 0 has no
                detections.
            stream: a CUDA stream, as for Preprocessor.

        Returns:
            Detections or Classification; with ``device="cuda"`` the same on that device. Of the
            head ``semantic`` a list with a SegmentationMap for each image.

        Raises:
            InvalidArgumentError: a shape, dtype or value that does not fit; NaN in the head, unless
                ``on_nan="drop"`` leaves its anchor out.
            CudaError: a CUDA call failed, or earlier work on the stream.
            OutOfMemoryError: the host's, or the device's.
        """
        target = choose_target(self._device_id, stream)
        if target is not None:
            part = self._part(target, head, geometry, status, with_rle=self._has_masks)
            [(items, rle)] = self._core.run([part], target.stream)
            raise_first(items)
            fields = self._cuda_fields(part)
            truncated = np.array([truncated for _, _, truncated, _ in items], np.bool_)
            dropped = np.array([dropped for _, _, _, dropped in items], np.int32)
            return self._result(fields, truncated, dropped, rle)
        tensors, _ = to_batched(head, self._inputs)
        count = len(tensors[0])
        rows_of = (
            tensors,
            _checked_rows(geometry, np.float32, (count, 8), "geometry"),
            _checked_rows(status, np.int32, (count,), "status"),
        )
        if self._family == "semantic":
            return self._make_maps(self._core.class_maps(*rows_of))
        rows, truncated, dropped, rle = self._core(*rows_of, self._packed_masks)
        return self._result(dict(zip(self._fields, rows, strict=True)), truncated, dropped, rle)

    def enqueue(
        self,
        head: Head,
        geometry: Array | None = None,
        status: Array | None = None,
        *,
        stream: object = None,
    ) -> _Tensors:
        """Process as a call does, in the order of ``stream`` and without waiting for it.

        Arguments are as for a call. A bad head is reported by its image's ``status`` in the result,
        not by an exception; ``truncated`` and ``dropped`` are None, and there are masks only with
        packed_masks.

        The call can be captured into a CUDA graph, after one like it has run outside: with head and
        geometry on the GPU, and the results copied to tensors of yours inside the capture, since
        their own memory is the graph's.

        Raises:
            InvalidArgumentError: a shape or dtype that does not fit, or ``device="cpu"``.
            UnsupportedError: a graph is being captured, and head or geometry is in CPU memory.
            CudaError: a CUDA call failed.
            OutOfMemoryError: the host's, or the device's.
        """
        target = choose_target(self._device_id, stream)
        if target is None:
            raise InvalidArgumentError("enqueue needs device='cuda': on a CPU a call is the work")
        part = self._part(target, head, geometry, status, with_rle=False)
        self._core.enqueue([part], target.stream)
        return self._result(self._cuda_fields(part), None, None, None)

    def _part(
        self,
        target: Target,
        head: Head,
        geometry: Array | None,
        status: Array | None,
        *,
        with_rle: bool,
    ) -> _core.HeadPart:
        tensors, _ = to_batched(head, self._inputs, target)
        count = tensors[0].shape[0]
        return (
            tensors,
            _cuda_geometry(geometry, count, target),
            _checked_rows(status, np.int32, (count,), "status"),
            _output_tensors(self._outputs, count, target, self._packed_masks),
            with_rle,
        )

    def _cuda_fields(self, part: _core.HeadPart) -> dict[str, Any]:
        """Return the results of a part that has been enqueued."""
        return {
            field: CudaArray(
                tensor.reshape(tensor.shape[:1]) if field in _ONE_PER_IMAGE else tensor
            )
            for field, tensor in zip(self._fields, part[3], strict=True)
            if isinstance(tensor, _core.CudaTensor)
        }

    def _make_maps(self, class_maps: list[npt.NDArray[np.uint8]]) -> list[SegmentationMap]:
        parameters = self.parameters
        ignored: int | None = int(parameters["ignore_label"])
        if int(parameters["num_classes"]) > int(parameters["ignore_label"]):
            ignored = None  # it is a class
        return [SegmentationMap(each, ignore_label=ignored) for each in class_maps]

    def _result(
        self,
        fields: dict[str, Any],
        truncated: npt.NDArray[np.bool_] | None,
        dropped: npt.NDArray[np.int32] | None,
        rle: list[list[bytes]] | None,
    ) -> _Tensors:
        if self._family == "classification":
            return Classification(**fields)
        if self._has_masks:
            fields["rle"] = rle
        fields |= {
            "truncated": truncated,
            "dropped": dropped,
            "has_source_masks": self._has_source_masks,
        }
        return _make_detections(fields)


_DEFAULTS = {
    field.name: field.default for field in fields(Detections) if field.default is not MISSING
}


def _make_detections(values: dict[str, Any]) -> Detections:
    """Return Detections of these fields.

    The constructor of a frozen class sets one field after the other the long way, which is a tenth
    of the time that a usual head takes.
    """
    detections = object.__new__(Detections)
    vars(detections).update(_DEFAULTS)
    vars(detections).update(values)
    return detections


def _output_tensors(
    outputs: Specs, count: int, target: Target, with_packed_masks: bool
) -> list[_core.CudaTensor | None]:
    # Masks have separate memory: they are large, and the rest may be kept for longer.
    small = [(name, dtype, shape) for name, dtype, shape in outputs if name != _MASKS]
    arrays = target.empty_arrays([((count, *shape), dtype) for _, dtype, shape in small])
    tensors: dict[str, _core.CudaTensor | None] = {
        name: array for (name, _, _), array in zip(small, arrays, strict=True)
    }
    if with_packed_masks:
        [(dtype, shape)] = [(dtype, shape) for name, dtype, shape in outputs if name == _MASKS]
        tensors[_MASKS] = target.empty((count, *shape), np.dtype(dtype))
    return [tensors.get(name) for name, _, _ in outputs]


def _cuda_geometry(
    geometry: Array | None, count: int, target: Target
) -> npt.NDArray[np.float32] | _core.CudaTensor | None:
    if geometry is None:
        return None
    if find_device(geometry) is None:
        return _checked_rows(geometry, np.float32, (count, 8), "geometry")
    tensor = target.borrow(geometry, "geometry")
    if tensor.type_string != "<f4" or tensor.shape not in ([count, 8], [8] if count == 1 else []):
        raise InvalidArgumentError(
            f"geometry is {np.dtype(tensor.type_string)} {tensor.shape}: give float32 {[count, 8]}"
        )
    return tensor.reshape([count, 8])


def _checked_rows(
    values: npt.ArrayLike | None, dtype: type[Any], shape: tuple[int, ...], name: str
) -> npt.NDArray[Any] | None:
    """Return the values as an array of that shape, [1, ...] for [...]; None for None."""
    if values is None:
        return None
    array = to_array(values, dtype, name)
    if shape[0] == 1 and array.shape == shape[1:]:
        array = array.reshape(shape)
    if array.shape != shape:
        raise InvalidArgumentError(f"{name} has shape {list(array.shape)}: give {list(shape)}")
    return array
