"""Pictures with what was detected in them, and sheets of many. Needs Pillow.

`draw` draws one result, with `labels`; `sources` opens the images that callers hold; `orientation`
opens a picture and applies its EXIF orientation as the core does; `contact_sheet` puts many on one
page.
"""

from endcap.drawing.draw import (
    class_color,
    draw_class,
    draw_detections,
    draw_result,
    mask_fits,
)

__all__ = ["class_color", "draw_class", "draw_detections", "draw_result", "mask_fits"]
