"""Clients of a running server: encoded images in, detections or classes out."""

from endcap.client.detect import DetectionClient
from endcap.client.errors import ClientError
from endcap.client.results import ClassScore, Detection, ImageResult, Mask
from endcap.client.task import Task

__all__ = [
    "ClassScore",
    "ClientError",
    "Detection",
    "DetectionClient",
    "ImageResult",
    "Mask",
    "Task",
]
