"""The steps of the ensemble `detect`, called from Python one after the other."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import triton_python_backend_utils as pb_utils

from endcap.python_backend.bls import MAX_CALLS, ModelCall, call_model
from endcap.python_backend.responses import ModelLog, respond_to_each
from endcap.triton.parameters import read_parameters

STEPS = ("preprocess_model", "detector_model", "postprocess_model")


class TritonPythonModel:
    """The steps of all requests of an execution overlap."""

    def initialize(self, args: dict[str, str]) -> None:
        """Read the models' names; `labels` is for clients."""
        given = read_parameters(json.loads(args["model_config"]), [*STEPS, "labels"])
        self._models = {step: given.get(step, step.removesuffix("_model")) for step in STEPS}
        self._log = ModelLog(args)
        self._threads = ThreadPoolExecutor(MAX_CALLS, thread_name_prefix="bls")

    def execute(self, requests: list[Any]) -> list[Any]:
        """Return one response per request, in order; an error fails its own request alone."""
        return respond_to_each(
            requests,
            prepare=lambda request: self._threads.submit(self._detect, request),
            run=wait,
            finish=lambda detected: list(detected.result().values()),
            log=self._log,
        )

    def finalize(self) -> None:
        """End the threads of the calls."""
        self._threads.shutdown()

    def _detect(self, request: Any) -> dict[str, Any]:
        """Return the requested outputs; tensors stay where the step before has left them."""
        encoded = pb_utils.get_input_tensor_by_name(request, "encoded")
        prepared = self._call("preprocess_model", request, {"encoded": encoded})
        images = {"images": prepared.pop("images")}
        head = self._call("detector_model", request, images)
        wanted = tuple(request.requested_output_names())
        return self._call("postprocess_model", request, {**head, **prepared}, wanted)

    def _call(
        self, step: str, request: Any, inputs: dict[str, Any], outputs: tuple[str, ...] = ()
    ) -> dict[str, Any]:
        model = self._models[step]
        return call_model(
            ModelCall(model=model, inputs=inputs, outputs=outputs, origin=request, on_cpu=False)
        )
