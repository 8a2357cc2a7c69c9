"""Raw heads to detections: box_decode, nms, and boxes mapped back to the source image."""

from __future__ import annotations

from typing import TYPE_CHECKING

from endcap import _core
from endcap._device import cuda_device, thread_count
from endcap._head import Head
from endcap._postprocess_call import Array, Calls, CudaCalls, Engine, HostCalls, Result
from endcap._text import Parameter, to_parameters
from endcap.errors import InvalidArgumentError
from endcap.parameters import PostprocessParameters, list_parameters

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Postprocessor:
    """A reusable, thread-safe callable: raw heads in, detections out.

    Args:
        head: the family, of docs/heads.md: ``yolov8`` (also v9, 11, 12), ``yolov5``, ``end2end``
            (v10, 26), ``classification`` and others.
        num_classes: classes of the model; must fit the head's shape.
        device: ``cpu``, ``cuda`` or ``cuda:N``.
        threads: images worked on at the same time; all CPUs by default. A GPU takes the batch as a
            whole, whatever is given.
        packed_masks: yolov8_seg also gives its masks as bits, max_detections * height * width / 8
            bytes an image; not with mask_resolution="source".
        fields: the parameters by name, of ``endcap.parameters.PostprocessParameters``, such as
            score_threshold=0.4, iou_threshold=0.5, max_detections=100. ``describe()`` tells their
            meanings.

    Raises:
        InvalidArgumentError: an unknown name or an impossible value.
        CudaError: a CUDA device was asked for that cannot be used; ``cuda_state()`` says more.
        UnsupportedError: a CUDA device was asked for with a head that only the CPU reads, or packed
            masks that only the CPU makes.
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
        parameters = to_parameters({"head": head, "num_classes": num_classes, **fields})
        self._device_id = cuda_device(device)
        core = _core.Postprocessor(parameters, thread_count(threads), self._device_id)
        engine = Engine(core, head, packed_masks, core.inputs, core.outputs)
        if packed_masks and engine.has_source_masks:
            raise InvalidArgumentError(
                f"packed_masks has nothing to pack with head {head}"
                + (": give mask_resolution=prototype or input" if engine.has_masks else "")
            )
        self._core = core
        self._calls: Calls = (
            HostCalls(engine) if self._device_id is None else CudaCalls(engine, self._device_id)
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

        On a GPU the call waits for ``stream``, to learn of bad heads and of ``truncated``;
        ``enqueue`` does not.

        Args:
            head: as the family says, float32 or float16; read in place. With ``device="cuda"`` it
                may lie on that device; from host memory it is copied there.
            geometry: float32 [8] or [B, 8] from preprocess; without it boxes stay in pixels of the
                model's input. With ``device="cuda"`` it may lie on that device.
            status: int32 [B] from preprocess, in host memory; an image whose status is not 0 has no
                detections.
            stream: a CUDA stream, as for Preprocessor.

        Returns:
            Detections or Classification; with ``device="cuda"`` the same on that device.

        Raises:
            InvalidArgumentError: a shape, dtype or value that does not fit; NaN in the head.
            CudaError: a CUDA call failed, or earlier work on the stream.
            OutOfMemoryError: the host's, or the device's.
        """
        return self._calls.run(head, geometry, status, stream)

    def enqueue(
        self,
        head: Head,
        geometry: Array | None = None,
        status: Array | None = None,
        *,
        stream: object = None,
    ) -> Result:
        """Process as a call does, in the order of ``stream`` and without waiting for it.

        Arguments are as for a call. What a bad head comes to is its image's ``status`` in the
        result, and no error; ``truncated`` is None, and masks are there with packed_masks alone.

        The call can be captured into a CUDA graph, after one like it has run outside: with head and
        geometry on the GPU, and the results copied to tensors of yours inside the capture, since
        their own memory is the graph's.

        Raises:
            InvalidArgumentError: a shape or dtype that does not fit, or ``device="cpu"``.
            UnsupportedError: a graph is being captured, and head or geometry is in CPU memory.
            CudaError: a CUDA call failed.
            OutOfMemoryError: the host's, or the device's.
        """
        return self._calls.enqueue(head, geometry, status, stream)
