"""Base class of the Python models `preprocess_python`, `postprocess_python`, `preprocess_dali`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from endcap.cuda_array import Target
from endcap.python_backend.instance import find_target
from endcap.python_backend.responses import ModelLog, respond_to_each, to_tensors
from endcap.triton.stage_settings import StageSettings, complete_tensors


class StageModel:
    """A `TritonPythonModel` whose requests go through a stage, all of an execution in one call.

    Attributes:
        settings_of: Reads config.pbtxt, in JSON's terms.
        stage: Makes the engine of an instance, with `prepare`, `run`, `finish` and `parameters`.
    """

    settings_of: ClassVar[Callable[[Mapping[str, Any]], StageSettings]]
    stage: ClassVar[Callable[[StageSettings, Target | None], Any]]

    @classmethod
    def auto_complete_config(cls, config: Any) -> Any:
        """Fill in the inputs and outputs that the parameters determine."""
        settings = cls.settings_of(config.as_dict())
        complete_tensors(config.as_dict(), settings, complete=True)
        return config

    def initialize(self, args: dict[str, str]) -> None:
        """Read config.pbtxt; what cannot be carried out fails the load with a message."""
        config = json.loads(args["model_config"])
        settings = type(self).settings_of(config)
        complete_tensors(config, settings, complete=False)
        self._stage = type(self).stage(settings, find_target(args))
        self._log = ModelLog(args)
        self._log.write_parameters(self._stage.parameters.items())

    def execute(self, requests: list[Any]) -> list[Any]:
        """Return one response per request, in order; a bad input fails its own request alone."""
        return respond_to_each(
            requests,
            prepare=self._stage.prepare,
            run=self._stage.run,
            finish=lambda job: to_tensors(self._stage.finish(job)),
            log=self._log,
        )
