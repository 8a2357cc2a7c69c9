"""The old name of endcap.drawing."""

from __future__ import annotations

import warnings

from endcap.drawing import class_color, draw_class, draw_detections, draw_result, mask_fits

__all__ = ["class_color", "draw_class", "draw_detections", "draw_result", "mask_fits"]

warnings.warn(
    "endcap.draw is now endcap.drawing: import it from there", DeprecationWarning, stacklevel=2
)
