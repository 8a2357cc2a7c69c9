"""Clients of a running server: encoded images in, detections out."""

from endcap.client.detect import DetectionClient
from endcap.client.errors import ClientError
from endcap.client.results import Detection, ImageResult

__all__ = ["ClientError", "Detection", "DetectionClient", "ImageResult"]
