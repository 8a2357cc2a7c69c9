"""Networks on ONNX Runtime in this process."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from endcap._pip_commands import import_extra

_ELEMENTS: dict[str, type[np.floating[Any] | np.integer[Any]]] = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(uint8)": np.uint8,
    "tensor(int8)": np.int8,
}
_ONLY_FATAL = 4  # of the severities of ONNX Runtime; its errors come as exceptions, too


class OnnxNetwork:
    """A network whose one input is a batch of images.

    Args:
        file: An ONNX file; its weights may lie next to it.
        error: Makes the errors, which end in what to do.
        device: ``cpu``, ``cuda`` or ``cuda:N``.
        threads: Of ONNX Runtime; 0 for all CPUs.

    Attributes:
        batch: The only batch that it takes; None where it takes any.
        outputs: The names of its outputs.
    """

    def __init__(
        self,
        file: Path,
        *,
        error: Callable[[str], Exception],
        device: str = "cpu",
        threads: int = 0,
    ) -> None:
        self._name, self._error = file.name, error
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # it would send hashes of networks
        runtime = import_extra("onnxruntime", "", "running a network", error, package="onnxruntime")
        if not file.is_file():
            raise error(f"network {file} is not a file; give an ONNX file")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = _ONLY_FATAL
        kind, _, number = device.partition(":")
        providers: list[Any] = ["CPUExecutionProvider"]
        if kind == "cuda":
            providers.insert(0, ("CUDAExecutionProvider", {"device_id": int(number or 0)}))
            if "CUDAExecutionProvider" not in runtime.get_available_providers():
                raise error(
                    "the installed ONNX Runtime has no CUDA provider; install onnxruntime-gpu "
                    "instead of onnxruntime, or leave out the device"
                )
        try:
            self._session = runtime.InferenceSession(str(file), options, providers=providers)
        except Exception as cause:  # ONNX Runtime's errors have no common type
            reason = " ".join(str(cause).split())
            raise error(
                f"network {file.name} cannot be loaded: {reason}; export it again"
            ) from cause
        inputs = self._session.get_inputs()
        if len(inputs) > 1 or inputs[0].type not in _ELEMENTS:
            takes = ", ".join(f"{each.name} {each.type} {each.shape}" for each in inputs)
            raise error(
                f"network {file.name} takes {takes}, and one tensor of images is expected; give "
                "the network that is served"
            )
        self._image, self._element = inputs[0].name, _ELEMENTS[inputs[0].type]
        first = inputs[0].shape[0] if inputs[0].shape else None
        self.batch = first if isinstance(first, int) and first > 0 else None
        self.outputs = [str(each.name) for each in self._session.get_outputs()]

    def run(self, images: NDArray[Any], outputs: Collection[str]) -> list[NDArray[Any]]:
        """Return some outputs for a batch of images, which are rounded to the type that it takes.

        Raises the `error` of the network where it fails.
        """
        if issubclass(self._element, np.integer) and images.dtype != self._element:
            limits = np.iinfo(self._element)
            images = np.clip(np.rint(images), limits.min, limits.max)
        fed = {self._image: images.astype(self._element, copy=False)}
        try:
            return [np.asarray(each) for each in self._session.run([*outputs], fed)]
        except Exception as cause:  # ONNX Runtime's errors have no common type
            reason = " ".join(str(cause).split())
            raise self._error(
                f"network {self._name} cannot be run on images {list(images.shape)}: {reason}"
            ) from cause
