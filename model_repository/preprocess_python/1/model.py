"""Encoded images to the network's input tensor, by endcap's native core."""

from __future__ import annotations

from endcap.python_backend.preprocess_stage import PreprocessStage
from endcap.python_backend.stage_model import StageModel
from endcap.triton.stage_settings import preprocess_settings


class TritonPythonModel(StageModel):
    """All images that the server hands over together go through the core in one call."""

    settings_of = staticmethod(preprocess_settings)
    stage = PreprocessStage
