"""Videos: reading files, addresses and cameras frame by frame, and writing MP4 files.

It needs the extra `video` (PyAV, which brings FFmpeg). `source` says what FFmpeg may open,
`reader` decodes in a thread, `frames` makes images of what was decoded. `detection` sends them to
a server.
"""

from endcap.video.detection import detect_video
from endcap.video.frames import VideoFrame
from endcap.video.reader import SourceStatus, VideoReader
from endcap.video.writer import VideoWriter

__all__ = [
    "SourceStatus",
    "VideoFrame",
    "VideoReader",
    "VideoWriter",
    "detect_video",
]
