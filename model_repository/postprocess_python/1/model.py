"""A network's raw head to detections or classes, by endcap's native core."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import triton_python_backend_utils as pb_utils

from endcap.python_backend.postprocess_stage import PostprocessStage
from endcap.python_backend.stage_model import StageModel
from endcap.triton.stage_settings import StageSettings, postprocess_settings


class TritonPythonModel(StageModel):
    """All heads that the server hands over together go through the core in one call."""

    stage = PostprocessStage

    @staticmethod
    def settings_of(config: Mapping[str, Any]) -> StageSettings:
        """Read config.pbtxt and the file of labels."""
        # labels_file is relative to the model's folder, which holds that of the version.
        return postprocess_settings(config, Path(pb_utils.get_model_dir()).parent)
