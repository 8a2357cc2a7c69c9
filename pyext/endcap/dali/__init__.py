"""DALI: endcap's stages as its operators, ``fn.endcap.*``, and pipelines made of them."""

from endcap.dali.building import BuiltLibrary, build
from endcap.dali.installation import DaliError
from endcap.dali.loading import load
from endcap.dali.pipelines import detection_postprocess, detection_preprocess

__all__ = [
    "BuiltLibrary",
    "DaliError",
    "build",
    "detection_postprocess",
    "detection_preprocess",
    "load",
]
