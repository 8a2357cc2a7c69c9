"""Sources of videos, and what FFmpeg may open for them."""

from __future__ import annotations

import errno
import importlib
import io
import math
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from endcap._pip_commands import install_command
from endcap.errors import InvalidArgumentError, VideoError


def import_av() -> Any:
    """Return PyAV's module, which the extra `video` brings.

    Raises:
        VideoError: It is not installed, or cannot be loaded.
    """
    try:
        return importlib.import_module("av")
    except ImportError as error:
        raise VideoError(
            f"videos need the package av, which cannot be imported ({error}); run "
            f"`{install_command('video')}`"
        ) from error


class Readable(Protocol):
    """A file object opened in binary mode. With `seek` and `tell` it may hold any format."""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes, none at the end."""


VideoSource: TypeAlias = "str | os.PathLike[str] | bytes | Readable | int"

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
class OpenSettings:
    """How a source is opened.

    Attributes:
        timeout_s: For opening it, and of silence.
        max_pixels: The most of a frame.
        hardware: A device type of FFmpeg, "auto", or None.
        format: The name of one of FFmpeg's formats, in place of one that is found out.
        options: FFmpeg's.
    """

    timeout_s: float
    max_pixels: int
    hardware: str | None = None
    format: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Source:
    """Where a video comes from.

    Attributes:
        name: For messages.
        target: What FFmpeg opens; of bytes and file objects a function that returns an object for
            each attempt.
        format: FFmpeg's name of it, where only one is possible.
        protocols: That FFmpeg may use, with commas between.
        formats: That FFmpeg may read, in the same way.
        is_live: Whether it goes on without an end; None: as what was opened turns out.
        can_reconnect: Whether it is an address or a camera.
        options: FFmpeg's, before the caller's.
    """

    name: str
    target: str | Callable[[], Readable]
    format: str | None
    protocols: str
    formats: str
    is_live: bool | None
    can_reconnect: bool
    options: Mapping[str, str] = field(default_factory=dict)


def find_source(source: VideoSource) -> Source:
    """Return what a caller's source means.

    Raises:
        FileNotFoundError: A path of nothing.
        InvalidArgumentError: A path that is no file, an address of another scheme, or another type.
    """
    if isinstance(source, bool) or (isinstance(source, int) and source < 0):
        raise InvalidArgumentError(f"the source is {source}: give a camera's number, from 0 on")
    if isinstance(source, int):
        return _camera(f"/dev/video{source}")
    if isinstance(source, (bytes, bytearray, memoryview)):
        data = bytes(source)
        return _in_memory("the bytes of a video", lambda: io.BytesIO(data))
    if isinstance(source, str) and (match := _SCHEME.match(source)):
        return _address(source, match[1].lower())
    if isinstance(source, (str, os.PathLike)):
        return _file(Path(source))
    if hasattr(source, "read"):
        return _in_memory(_name_of(source), _CheckedReads(source).from_start)
    raise InvalidArgumentError(
        f"the source is of type {type(source).__name__}: give a path, an address, bytes, a file "
        "object that was opened in binary mode, or a camera's number"
    )


def _camera(device: str) -> Source:
    if not Path(device).exists():
        raise FileNotFoundError(2, "No such camera", device)
    return Source(device, device, _CAMERA_FORMAT, "file", _CAMERA_FORMAT, True, True)


def _in_memory(name: str, target: Callable[[], Readable]) -> Source:
    return Source(name, target, None, "none", _CONTAINERS, False, False)


def _file(path: Path) -> Source:
    if _CAMERA.fullmatch(str(path)):
        return _camera(str(path))
    if not path.exists():
        raise FileNotFoundError(2, os.strerror(2), str(path))
    if not path.is_file():
        raise InvalidArgumentError(f"{path} is no file: give the path of a video")
    # With the protocol in front no part of a name means anything to FFmpeg.
    return Source(str(path), f"file:{path.absolute()}", None, "file", _CONTAINERS, False, False)


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
        return Source(name, url, "rtsp", protocols, f"rtsp,{_CONTAINERS}", True, True, options)
    return Source(name, url, None, protocols, f"{_STREAMS},{_CONTAINERS}", None, True)


def make_relayed_source(name: str, url: str, *, host: str) -> Source:
    """Return a source at a relay, which nothing but a container is read from.

    Args:
        name: For messages.
        url: The relay's, of http or rtsp.
        host: The name of the server behind it.
    """
    if url.startswith("rtsp:"):
        options = {"rtsp_transport": "tcp"}
        return Source(name, url, "rtsp", "rtsp,tcp", f"rtsp,{_CONTAINERS}", True, True, options)
    # An empty proxy: FFmpeg would take the one of the environment.
    options = {"headers": f"Host: {host}\r\n", "http_proxy": ""}
    return Source(name, url, None, "http,tcp", _CONTAINERS, False, False, options)


def hide_password(url: str) -> str:
    """Return an address without the user's name and password."""
    return re.sub(r"^([^/]*//)[^/?#]*@", r"\1", url)


def _name_of(file: Any) -> str:
    name = getattr(file, "name", None)
    return name if isinstance(name, str) else "a file object"


class _CheckedReads:
    """A file object whose reads FFmpeg can rely on: bytes, and no more than it asked for."""

    def __init__(self, file: Any) -> None:
        self._file = file
        seekable = getattr(file, "seekable", None)
        self._start: int | None = None
        if hasattr(file, "seek") and hasattr(file, "tell") and (seekable is None or seekable()):
            self.seek = file.seek
            self.tell = file.tell
            self._start = file.tell()

    def from_start(self) -> _CheckedReads:
        """Return itself, before the first byte where the file can be read again."""
        if self._start is not None:
            self.seek(self._start)
        return self

    def read(self, size: int) -> bytes:
        part = self._file.read(size)
        if not isinstance(part, (bytes, bytearray, memoryview)):
            raise InvalidArgumentError(
                f"the file object returned {type(part).__name__}: open it in binary mode ('rb')"
            )
        if len(part) > size:
            raise InvalidArgumentError(
                f"the file object returned {len(part)} bytes where {size} were asked for"
            )
        return bytes(part)


def open_source(source: Source, settings: OpenSettings, *, again: bool = False) -> Any:
    """Open a source.

    Args:
        source: The source.
        settings: Their time limit is for each attempt.
        again: Whether it was open before: frames are not waited for to find out their rate.

    Returns:
        PyAV's container.

    Raises:
        VideoError: It cannot be opened, or is no video.
        InvalidArgumentError: An option or a type of hardware that there is not.
    """
    av = import_av()
    format_name = settings.format or source.format
    formats = source.formats if settings.format is None else f"{settings.format},{source.formats}"
    # Before the streams are known FFmpeg looks at frames by itself: the limit is for that, too.
    options = {
        "max_pixels": str(coded_pixels(settings.max_pixels)),
        "protocol_whitelist": source.protocols,
        "format_whitelist": formats,
        **({"fpsprobesize": "0"} if again else {}),
        **source.options,
        **settings.options,
    }
    errors: list[str] = []
    for hardware in _hardware_choices(settings.hardware):
        target = source.target if isinstance(source.target, str) else source.target()
        began = time.monotonic()
        try:
            container = av.open(
                target,
                "r",
                format=format_name,
                options=options,
                hwaccel=hardware,
                timeout=settings.timeout_s,
                buffer_size=_BUFFER_BYTES,
                metadata_errors="replace",
            )
            # Time stamps are those of the file; what it has none for is for the reader to guess.
            container.flags &= ~int(av.container.Flags.gen_pts.value)
            return container
        except (av.error.FFmpegError, NotImplementedError, RuntimeError, ValueError) as error:
            if isinstance(error, InvalidArgumentError):
                raise
            # FFmpeg reads the silence of an RTSP server as wrong data.
            is_late = time.monotonic() - began >= settings.timeout_s
            errors.append(_reason(av, error, source, settings, hardware, is_late=is_late))
    raise VideoError(f"{source.name} cannot be opened: {errors[0]}")


def coded_pixels(pixels: int, width: int = 0, height: int = 0) -> int:
    """Return the most pixels of coded frames, which are whole blocks, where frames have `pixels`.

    Args:
        pixels: Of frames of about the same width and height.
        width: Of a frame with any sides.
        height: Of that frame.
    """
    side = math.isqrt(pixels) + 1
    return max((side + _BLOCK) ** 2, (width + _BLOCK) * (height + _BLOCK))


def _reason(
    av: Any,
    error: Exception,
    source: Source,
    settings: OpenSettings,
    hardware: Any,
    *,
    is_late: bool,
) -> str:
    if is_late or isinstance(error, av.error.ExitError):
        return f"nothing came within {settings.timeout_s:g} seconds"
    text = str(getattr(error, "strerror", None) or error)
    # FFmpeg adds six bytes to EINVAL, which it returns for the size of a Y4M file's frames.
    if getattr(error, "errno", None) == errno.EBUSY and source.format != _CAMERA_FORMAT:
        return (
            "its header gives a width or height that is not positive, or too large; write the "
            "file again"
        )
    if hardware is not None:
        return f"hardware {settings.hardware!r} does not decode it here ({text}); leave it out"
    if isinstance(error, (av.error.InvalidDataError, av.error.EOFError, ValueError)):
        return (
            f"it is empty, damaged at its beginning, or no video that is read here ({text}); give "
            "a file such as MP4, MKV, WebM, AVI or MPEG-TS, whole"
        )
    return text


def _hardware_choices(hardware: str | None) -> Iterator[Any]:
    """Yield the HWAccel objects to try, None for decoding in software."""
    if hardware is None:
        yield None
        return
    try:
        accelerators = importlib.import_module("av.codec.hwaccel")
    except ImportError as error:
        raise VideoError(
            "this PyAV does not decode by hardware: install a later one, or leave hardware out"
        ) from error
    available = list(accelerators.hwdevices_available())
    if hardware == "auto":
        for name in available:
            yield accelerators.HWAccel(name, allow_software_fallback=False)
        yield None
        return
    if hardware not in available:
        raise InvalidArgumentError(
            f"hardware is {hardware!r}: give auto or one that PyAV has, {', '.join(available)}"
        )
    yield accelerators.HWAccel(hardware, allow_software_fallback=False)
