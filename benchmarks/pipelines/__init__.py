"""The pipelines from a JPEG to detections on a server, side by side: what does each cost?

`make bench-pipelines` measures; docs/pipelines.md says what the pipelines are and shows the tables.
"""

# What the shipped `detector` and `postprocess` have, for the pipelines without them.
NUM_CLASSES = 6
SCORE_THRESHOLD = 0.4
IOU_THRESHOLD = 0.7
MAX_DETECTIONS = 300
