"""JPEG bytes to a letterboxed float32 [3, 640, 640]: RGB, 0 to 1, padded with 114 / 255."""

SIZE = 640
PAD = 114
