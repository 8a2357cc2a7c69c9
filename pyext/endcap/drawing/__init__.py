"""Pictures with what was detected in them. Needs Pillow.

`draw` draws detections or a class, with `labels`; `trails` the frames of a video, with trails of
tracks; `pictures` opens the images that callers hold, and applies their EXIF orientation as the
core does.
"""

from endcap.drawing.draw import (
    class_color,
    draw_class,
    draw_detections,
    mask_fits,
)
from endcap.drawing.trails import TrailDrawer

__all__ = [
    "TrailDrawer",
    "class_color",
    "draw_class",
    "draw_detections",
    "mask_fits",
]
