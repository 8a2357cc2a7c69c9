"""Sources of videos, and what FFmpeg may open for them."""

from __future__ import annotations

import io
import math
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypeAlias

from endcap._pip_commands import import_extra
from endcap.errors import InvalidArgumentError, VideoError


def import_av() -> Any:
    """Return PyAV's module; VideoError where it is missing or cannot be loaded."""
    return import_extra("av", "video", "a video", VideoError)


VideoSource: TypeAlias = "str | os.PathLike[str] | bytes | IO[bytes] | int"

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_CAMERA = re.compile(r"/dev/video\d+")
_CAMERA_FORMAT = "video4linux2,v4l2"
# What FFmpeg may connect with, for each scheme; "file" is for none of them.
_HTTP_PROTOCOLS = "http,https,httpproxy,tls,tcp,crypto,data"
_RTSP_PROTOCOLS = "rtsp,rtsps,rtp,srtp,udp,tls,tcp,http,https"
_PROTOCOLS = {
    "http": _HTTP_PROTOCOLS,
    "https": _HTTP_PROTOCOLS,
    "rtsp": _RTSP_PROTOCOLS,
    "rtsps": _RTSP_PROTOCOLS,
}
# Formats that hold their frames themselves. Playlists and scripts (hls, dash, concat, sdp, ...)
# name other files and addresses: they are read from the addresses that are meant for them, or where
# the caller names them.
_CONTAINERS = (
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpegts,mpeg,mpegvideo,flv,asf,ogg,nut,mxf,ivf,obu,"
    "av1,h261,h263,h264,hevc,vvc,m4v,vc1,dv,mjpeg,mpjpeg,yuv4mpegpipe,gif,apng,rm,swf,wtv,avs2,avs3"
)
_STREAMS = "hls,dash"
_BLOCK = 128  # the largest side of a block, AV1's
_BUFFER_BYTES = 1 << 18  # of one read from Python


@dataclass(frozen=True)
class Source:
    """Where a video comes from.

    Attributes:
        name: For messages.
        target: What FFmpeg opens: an address, a path or a file object.
        format: FFmpeg's name of it, where only one is possible.
        protocols: That FFmpeg may use, with commas between.
        formats: That FFmpeg may read, in the same way.
        is_live: Whether it goes on without an end; None of an address: as what was opened turns
            out.
        options: FFmpeg's, before the caller's.
    """

    name: str
    target: str | IO[bytes]
    format: str | None
    protocols: str
    formats: str
    is_live: bool | None
    options: Mapping[str, str] = field(default_factory=dict)


def find_source(source: VideoSource) -> Source:
    """Return what a caller's source means.

    Raises:
        FileNotFoundError: A path of nothing.
        InvalidArgumentError: Not a file, an address of another scheme, or another type.
    """
    if isinstance(source, bool) or (isinstance(source, int) and source < 0):
        raise InvalidArgumentError(f"the source is {source}: give a camera's number, from 0 on")
    if isinstance(source, int):
        return _camera(f"/dev/video{source}")
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _in_memory("the bytes of a video", io.BytesIO(source))
    if isinstance(source, str) and (match := _SCHEME.match(source)):
        return _address(source, match[1].lower())
    if isinstance(source, (str, os.PathLike)):
        return _file(Path(source))
    if hasattr(source, "read"):
        name = getattr(source, "name", None)
        return _in_memory(name if isinstance(name, str) else "a file object", source)
    raise InvalidArgumentError(
        f"the source is of type {type(source).__name__}: give a path, an address, bytes, a file "
        "object that was opened in binary mode, or a camera's number"
    )


def _camera(device: str) -> Source:
    if not Path(device).exists():
        raise FileNotFoundError(2, "No such camera", device)
    return Source(device, device, _CAMERA_FORMAT, "file", _CAMERA_FORMAT, True)


def _in_memory(name: str, target: IO[bytes]) -> Source:
    return Source(name, target, None, "none", _CONTAINERS, False)


def _file(path: Path) -> Source:
    if _CAMERA.fullmatch(str(path)):
        return _camera(str(path))
    if not path.exists():
        raise FileNotFoundError(2, os.strerror(2), str(path))
    if not path.is_file():
        raise InvalidArgumentError(f"{path} is not a file: give the path of a video")
    # With the protocol in front no part of a name means anything to FFmpeg.
    return Source(str(path), f"file:{path.absolute()}", None, "file", _CONTAINERS, False)


def _address(url: str, scheme: str) -> Source:
    protocols = _PROTOCOLS.get(scheme)
    name = hide_password(url)
    if protocols is None:
        raise InvalidArgumentError(
            f"the source {name} has the scheme {scheme}: give an address of "
            f"{', '.join(_PROTOCOLS)}, or a path"
        )
    if scheme.startswith("rtsp"):
        options = {"rtsp_transport": "tcp"}
        return Source(name, url, "rtsp", protocols, f"rtsp,{_CONTAINERS}", True, options)
    return Source(name, url, None, protocols, f"{_STREAMS},{_CONTAINERS}", None)


def hide_password(url: str) -> str:
    """Return an address without the user's name and password."""
    return re.sub(r"^([^/]*//)[^/?#]*@", r"\1", url)


@dataclass
class Input:
    """A source that is opened, and again after an error.

    Attributes:
        source: The source.
        options: FFmpeg's, of the caller, for the format and the decoder.
        timeout_s: For opening it, and of silence.
        max_pixels: The most of a frame.
        keyframes_only: Whether other frames are not decoded.
        threads: The decoder's.
        container: PyAV's, None while it is closed.
        stream: PyAV's video stream.
    """

    source: Source
    options: Mapping[str, str]
    timeout_s: float
    max_pixels: int
    keyframes_only: bool
    threads: int
    container: Any = None
    stream: Any = None

    @property
    def is_live(self) -> bool:
        """Whether the source has no end."""
        is_live = self.source.is_live
        return not self.container.duration if is_live is None else is_live

    def open(self, *, again: bool = False) -> None:
        """Open the source; `again` does not wait for frames to find out their rate.

        Raises:
            VideoError: It cannot be opened, or is not a video.
        """
        av = import_av()
        # Before the streams are known FFmpeg looks at frames by itself: the limit is for that, too.
        all_options = {
            "max_pixels": str(_limit_coded_pixels(self.max_pixels)),
            "protocol_whitelist": self.source.protocols,
            "format_whitelist": self.source.formats,
            **({"fpsprobesize": "0"} if again else {}),
            **self.source.options,
            **self.options,
        }
        began = time.monotonic()
        try:
            container = av.open(
                self.source.target,
                "r",
                format=self.source.format,
                options=all_options,
                timeout=self.timeout_s,
                buffer_size=_BUFFER_BYTES,
                metadata_errors="replace",
            )
        except (av.error.FFmpegError, RuntimeError, ValueError) as error:
            # FFmpeg reads the silence of an RTSP server as wrong data.
            is_late = time.monotonic() - began >= self.timeout_s or isinstance(
                error, av.error.ExitError
            )
            silence = f"nothing came within {self.timeout_s:g} seconds (timeout_s)"
            reason = silence if is_late else _describe_failure(av, error)
            raise VideoError(f"{self.source.name} cannot be opened: {reason}") from error
        # Time stamps are those of the file; what it has none for is for the reader to guess.
        container.flags &= ~int(av.container.Flags.gen_pts.value)
        self.container = container
        try:
            self._choose_stream()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the container."""
        if self.container is not None:
            self.container.close()
            self.container = None

    def _choose_stream(self) -> None:
        streams = self.container.streams
        self.stream = streams.best("video")
        name = self.source.name
        if self.stream is None:
            raise VideoError(f"{name} holds no video: give a file that does")
        for stream in streams:
            if stream is not self.stream:
                stream.discard = type(stream.discard).all
        context = self.stream.codec_context
        if context is None:
            raise VideoError(f"{name} is coded in a way that this PyAV does not decode")
        pixels = context.width * context.height
        if pixels > self.max_pixels:
            raise VideoError(
                f"{name} has frames of {context.width}x{context.height} = {pixels} pixels; "
                f"max_pixels allows {self.max_pixels}"
            )
        most = _limit_coded_pixels(self.max_pixels, context.width, context.height)
        context.options = {**self.options, "max_pixels": str(most)}
        context.thread_count = self.threads
        # Frames that several threads decode at once come later: not from a camera.
        context.thread_type = "SLICE" if self.is_live else "AUTO"
        if self.keyframes_only:
            context.skip_frame = "NONKEY"


def _limit_coded_pixels(pixels: int, width: int = 0, height: int = 0) -> int:
    """Return the most pixels of coded frames, which are whole blocks, where frames have `pixels`.

    Args:
        pixels: Of frames of about the same width and height.
        width: Of a frame with any sides.
        height: Of that frame.
    """
    side = math.isqrt(pixels) + 1
    return max((side + _BLOCK) ** 2, (width + _BLOCK) * (height + _BLOCK))


def _describe_failure(av: Any, error: Exception) -> str:
    text = str(getattr(error, "strerror", None) or error)
    if isinstance(error, (av.error.InvalidDataError, av.error.EOFError, ValueError)):
        return (
            f"it is empty, damaged at its beginning, or not a video of a supported format "
            f"({text}); give a whole file such as MP4, MKV, WebM, AVI or MPEG-TS"
        )
    return text
