"""Pictures with what was detected in them. Needs Pillow.

`draw` draws one result, with `labels`; `trails` the frames of a video, with the ways of tracks;
`pictures` opens the images that callers hold, and applies their EXIF orientation as the core does.
"""

from endcap.drawing.draw import (
    class_color,
    draw_class,
    draw_detections,
    draw_result,
    mask_fits,
)
from endcap.drawing.trails import TrailDrawer

__all__ = [
    "TrailDrawer",
    "class_color",
    "draw_class",
    "draw_detections",
    "draw_result",
    "mask_fits",
]
