"""Encoded images to the network's input tensor, by a DALI pipeline of endcap's operator."""

from __future__ import annotations

from endcap.python_backend.preprocess_dali_stage import PreprocessDaliStage
from endcap.python_backend.stage_model import StageModel
from endcap.triton.stage_settings import preprocess_settings


class TritonPythonModel(StageModel):
    """All images that the server hands over together go through one run of the pipeline."""

    settings_of = staticmethod(preprocess_settings)
    stage = PreprocessDaliStage
