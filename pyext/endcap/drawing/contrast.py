"""Black or white on a colour."""

from __future__ import annotations

Color = tuple[int, int, int]  # RGB 0-255

_DARK: Color = (0, 0, 0)
_LIGHT: Color = (255, 255, 255)


def contrasting(color: Color) -> Color:
    """Return black or white, whichever is easier to read on `color`.

    Source: relative luminance and contrast of WCAG 2.1; its crossing point is 0.179.
    """
    linear = [_linear(channel / 255) for channel in color]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return _DARK if luminance > 0.179 else _LIGHT


def _linear(channel: float) -> float:
    return channel / 12.92 if channel <= 0.04045 else float(((channel + 0.055) / 1.055) ** 2.4)
