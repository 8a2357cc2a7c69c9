"""Slow, obvious NumPy definitions of what endcap computes; they never import endcap.

Each module says one stage the way a textbook would, without regard for speed. Images are uint8
[H, W, C] arrays, boxes float32 xyxy.
"""
