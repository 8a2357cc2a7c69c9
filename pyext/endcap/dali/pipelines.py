"""Pipelines from files to a detector's tensor, and from its raw output to detections.

Each is called as a function decorated with DALI's ``pipeline_def``: with what it defines, and with
DALI's own arguments, of which ``batch_size``, ``num_threads`` and ``device_id`` must be given;
``device_id=None`` is for machines without a GPU.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import endcap._core as _core
from endcap.dali.installation import find_dali
from endcap.dali.loading import load
from endcap.errors import InvalidArgumentError
from endcap.parameters import to_parameters

_Graph = TypeVar("_Graph", bound=Callable[..., Any])


def operator_pipeline(graph: _Graph) -> _Graph:
    """Make a function that defines a graph one that returns a pipeline, as `pipeline_def` does.

    DALI's own decorator does not allow a graph to pass arguments on to an operator.

    Keyword arguments of DALI's Pipeline, such as ``batch_size``, go there; all others go to the
    graph. Without a DALI that fits DaliError is raised.
    """

    @functools.wraps(graph)
    def create(*args: Any, **arguments: Any) -> Any:
        find_dali()
        from nvidia.dali import Pipeline, pipeline_def

        known = inspect.signature(Pipeline.__init__).parameters
        of_pipeline = {name: arguments.pop(name) for name in [*arguments] if name in known}

        def define() -> Any:
            return graph(*args, **arguments)

        return pipeline_def(**of_pipeline)(define)()

    create._is_pipeline_def = True  # type: ignore[attr-defined]  # DALI's autoserialize asks
    return create  # type: ignore[return-value]


@operator_pipeline
def detection_preprocess(
    files: Sequence[str | Path] | None = None, *, device: str = "cpu", **parameters: Any
) -> Any:
    """Define a pipeline of which every step is endcap's: ``fn.endcap.preprocess``.

    A bad image is zeros and its status, unless ``on_error="error"``.

    Args:
        files: paths of the images, read by DALI's reader, over and over again. None makes an
            external source ``encoded``: uint8 [bytes] for each sample.
        device: ``cpu``, or ``gpu``, where outputs lie on the GPU.
        parameters: of ``fn.endcap.preprocess``, such as ``size``, ``preset`` or ``dtype``.

    Returns:
        A pipeline with three outputs: images, by default float32 [3, 640, 640]; geometry, float32
        [8]; status, int32 [1], of ``endcap.Status``.

    Raises:
        DaliError: as of ``load``.
        InvalidArgumentError: ``device`` is another one.
    """
    from nvidia.dali import fn, types

    load()
    place = _step_device(device, on_gpu="mixed")
    if files is None:
        encoded = fn.external_source(name="encoded", dtype=types.UINT8, ndim=1)
    else:
        encoded, _ = fn.readers.file(files=[str(file) for file in files], name="files")
    return tuple(fn.endcap.preprocess(encoded, device=place, **parameters))


@operator_pipeline
def detection_postprocess(
    head: str = "yolov8",
    *,
    device: str = "cpu",
    geometry: bool = True,
    status: bool = True,
    **parameters: Any,
) -> Any:
    """Define a pipeline from a detector's raw output to detections: ``fn.endcap.postprocess``.

    Its inputs are external sources: one for each tensor of the head's family under the name that
    endcap gives it, ``head`` where there is one (yolov8: float32 or float16
    [4 + classes, anchors]); ``geometry``, float32 [8]; ``status``, int32 [1]: a sample whose
    status is not 0 has no detections.

    Args:
        head: the family.
        device: ``cpu`` or ``gpu``, for inputs and outputs.
        geometry: whether there is that input; without it boxes stay in pixels of the model's input.
        status: whether there is that input, which goes with ``geometry`` only.
        parameters: of ``fn.endcap.postprocess``, such as ``num_classes`` or ``score_threshold``.

    Returns:
        A pipeline with the outputs of ``fn.endcap.postprocess``: num_detections, int32 [1];
        detection_boxes, float32 [K, 4]; detection_scores, float32 [K]; detection_classes and
        detection_indices, int32 [K]; and what else the family has.

    Raises:
        DaliError: as of ``load``.
        InvalidArgumentError: a parameter that the family does not have, or ``status`` without
            ``geometry``.
    """
    from nvidia.dali import fn

    if status and not geometry:
        raise InvalidArgumentError("status is True without geometry: give both, or status=False")
    load()
    place = _step_device(device, on_gpu="gpu")
    # Parameters that only DALI's operator has.
    of_operator = ("output_status", "name", "seed", "preserve", "bytes_per_sample_hint")
    of_core = {name: value for name, value in parameters.items() if name not in of_operator}
    core = _core.Postprocessor(to_parameters({"head": head, **of_core}), 1)
    wanted = {name: len(shape) for name, _, shape in core.inputs}
    wanted |= {"geometry": 1} if geometry else {}
    wanted |= {"status": 1} if status else {}
    sources = [fn.external_source(name=name, device=place, ndim=n) for name, n in wanted.items()]
    return tuple(fn.endcap.postprocess(*sources, head=head, device=place, **parameters))


def _step_device(device: str, *, on_gpu: str) -> str:
    if device not in ("cpu", "gpu"):
        raise InvalidArgumentError(f"device is {device!r}: give cpu or gpu")
    return on_gpu if device == "gpu" else device
