"""Reads a video, has its frames detected, tracks them; sends one response for each frame."""

from __future__ import annotations

from endcap.video.video_model import VideoModel


class TritonPythonModel(VideoModel):
    """The model of endcap.video; its parameters stand in config.pbtxt."""
