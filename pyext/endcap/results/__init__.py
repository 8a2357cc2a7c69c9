"""What became of an image: detections or classes with their parts, or the error.

`image_result` has the result of one image, `detection` what a model answered, `arrays` the same as
arrays and for the package supervision.
"""

from endcap.results.detection import ClassScore, Detection, Mask
from endcap.results.image_result import ImageResult, Results, status_name
from endcap.results.task import Task

__all__ = ["ClassScore", "Detection", "ImageResult", "Mask", "Results", "Task", "status_name"]
