"""A network's raw head to detections or classes, by endcap's native core."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import triton_python_backend_utils as pb_utils

from endcap.python_backend.answers import answer_each
from endcap.python_backend.device import target_of
from endcap.python_backend.log import ModelLog
from endcap.python_backend.outputs import to_tensors
from endcap.python_backend.postprocess_stage import PostprocessStage
from endcap.triton.stage_settings import StageSettings, postprocess_settings
from endcap.triton.tensor_completion import complete_tensors


class TritonPythonModel:
    """All heads that the server hands over together go through the core in one call."""

    @staticmethod
    def auto_complete_config(config: Any) -> Any:
        """Fill in the inputs and outputs that the parameters determine."""
        complete_tensors(config.as_dict(), _settings(config.as_dict()).contracts, complete=True)
        return config

    def initialize(self, args: dict[str, str]) -> None:
        """Read config.pbtxt; what cannot be carried out fails the load with a message."""
        config = json.loads(args["model_config"])
        settings = _settings(config)
        complete_tensors(config, settings.contracts, complete=False)
        self._stage = PostprocessStage(settings, target_of(args))
        self._log = ModelLog(args)
        self._log.parameters(self._stage.parameters.items())

    def execute(self, requests: list[Any]) -> list[Any]:
        """One response per request, in order; a bad head fails its own request alone."""
        return answer_each(
            requests,
            prepare=self._stage.prepare,
            run=self._stage.run,
            finish=lambda job: to_tensors(self._stage.finish(job)),
            log=self._log,
        )


def _settings(config: dict[str, Any]) -> StageSettings:
    # labels_file is relative to the model's folder, which holds that of the version.
    return postprocess_settings(config, Path(pb_utils.get_model_dir()).parent)
