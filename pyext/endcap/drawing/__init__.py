"""Pictures with what was detected in them, and sheets of many. Needs Pillow.

`draw` draws one result, with `labels`; `trails` the frames of a video, with the ways of tracks;
`sources` opens the images that callers hold; `orientation` opens a picture and applies its EXIF
orientation as the core does; `contact_sheet` puts many on one page.
"""

from endcap.drawing.draw import (
    class_color,
    draw_class,
    draw_detections,
    draw_result,
    mask_fits,
)
from endcap.drawing.trails import TrailDrawer, track_color

__all__ = [
    "TrailDrawer",
    "class_color",
    "draw_class",
    "draw_detections",
    "draw_result",
    "mask_fits",
    "track_color",
]
