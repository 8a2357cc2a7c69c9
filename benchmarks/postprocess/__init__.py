"""A raw YOLOv8 head to detections, and non-maximum suppression alone."""
