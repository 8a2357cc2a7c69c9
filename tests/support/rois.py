"""Regions of an image, and the parameters that they are preprocessed with."""

from __future__ import annotations

HEIGHT, WIDTH = 173, 211
# x1, y1, x2, y2: inside; the whole image; thin; over each border; fractions of a pixel.
ROIS = [
    [20, 30, 90, 70],
    [0, 0, WIDTH, HEIGHT],
    [100, 0, 101, HEIGHT],
    [0, 172, WIDTH, 173],
    [-40, -3, 12, 9],
    [150.5, 100.25, 400, 900],
    [33.1, 44.9, 33.2, 45.1],
    [64, 16, 128, 32],
    [20, 30, 90, 70],
]

RECIPES: dict[str, dict[str, object]] = {
    "letterbox": {"size": (96, 64)},
    "stretch": {"preset": "ssd", "size": 64},
    "center crop, antialiased": {"preset": "torchvision", "size": 48, "resize_shorter": 56},
    "stretch, float": {"preset": "inception", "size": (40, 72)},
    "nearest": {"size": 50, "interpolation": "nearest"},
    "bicubic": {"size": 50, "interpolation": "bicubic"},
    "area, uint8": {"size": 50, "interpolation": "area", "dtype": "uint8", "layout": "nhwc"},
    "bgr, float16, no upscale": {"size": 80, "color": "bgr", "dtype": "float16", "upscale": False},
    "int8, top left": {"size": 70, "dtype": "int8", "scale": 0.5, "pad_align": "top_left"},
    "float throughout": {"size": 60, "quantize": "none", "antialias": True},
}
