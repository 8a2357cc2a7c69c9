"""Writer of MP4 files."""

from __future__ import annotations

import contextlib
import os
from contextlib import AbstractContextManager
from fractions import Fraction
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from endcap._files import whole_file
from endcap.errors import InvalidArgumentError, VideoError
from endcap.video.source import import_av

if TYPE_CHECKING:
    import av.container
    import av.video.stream

_ENCODER = "libx264"
_ENCODER_OPTIONS = {"preset": "veryfast", "crf": "23"}
_TICKS = 90_000  # a second; frame times are multiples of a tick
_BT709, _LIMITED = 1, 1  # as H.273 numbers them
_MAX_RATE = 1000
_MAX_SIDE = 16_384
# The index at the beginning: players begin before the end of the download.
_WHOLE_OPTIONS = {"movflags": "+faststart"}
_FRAGMENTED_OPTIONS = {
    "movflags": "+frag_keyframe+empty_moov+default_base_moof",
    "flush_packets": "1",
}


class VideoWriter:
    """Writes pictures with their times to an MP4 file that browsers play.

    The video is H.264 (yuv420p, BT.709, limited range). It is a temporary file next to `path` until
    the writer is closed, and replaces `path` then. A `with` block closes it however it ends, so
    that a video that was interrupted plays until there. Without any picture no file is written. Not
    thread-safe.

    Args:
        path: The file.
        frame_rate: Frames a second, for `write` without times and for the last picture's duration.
        in_pieces: Whether the index is written piece by piece: memory then does not grow with the
            file, and the temporary file of a process that was killed plays. Players show no
            duration for it.
        comment: Text among the file's metadata.
        follow_links: Whether a link at `path` is written through; else it is refused.

    Raises:
        VideoError: PyAV is not installed, or has no encoder of H.264.
        InvalidArgumentError: The file cannot be made, or a value is impossible.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        frame_rate: float | Fraction = 30,
        in_pieces: bool = False,
        comment: str = "",
        follow_links: bool = True,
    ) -> None:
        if not 0 < frame_rate <= _MAX_RATE:
            raise InvalidArgumentError(
                f"frame_rate is {frame_rate}: give frames a second, above 0, up to {_MAX_RATE}"
            )
        self._path = Path(path)
        self._rate = Fraction(frame_rate).limit_denominator(1001)
        self._av = _import_encoder()
        self._in_pieces = in_pieces
        self._comment = comment
        self._last_tick = -1
        self._container: av.container.OutputContainer | None = None
        self._closed = False
        self._pictures = 0
        if self._path.exists() and not self._path.is_file() and not self._path.is_dir():
            raise InvalidArgumentError(f"{path} is a pipe or a device; give a file for a video")
        self._opened: AbstractContextManager[IO[bytes]] = whole_file(
            self._path, follow_links=follow_links
        )
        self._file = self._opened.__enter__()

    def __enter__(self) -> VideoWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def pictures(self) -> int:
        """The number of pictures until now; none after an error."""
        return self._pictures

    def write(
        self, picture: npt.NDArray[np.uint8] | Image.Image, seconds: float | Fraction | None = None
    ) -> None:
        """Append a picture.

        The first one gives the video's size; a side of odd length is padded by one column or row,
        its last one again. Later pictures of another size are stretched to it.

        Args:
            picture: RGB, uint8 [H,W,3], or a Pillow image.
            seconds: From the beginning of the video, to 1/90000 s; one that is not later than the
                one before is put right after it. None: by `frame_rate`.

        Raises:
            InvalidArgumentError: No such array, a side beyond 16384, or a negative time.
            VideoError: The encoder failed, or the writer is closed.
            OSError: The file cannot be written; nothing is left of it.
        """
        if self._closed:
            raise VideoError(f"the writer of {self._path} is closed; make another one")
        pixels = _pad_to_even(_to_rgb(picture))
        tick = self._tick(seconds)
        with self._failing():
            if self._container is None:
                self._open(pixels.shape[1], pixels.shape[0])
            frame = self._av.VideoFrame.from_ndarray(pixels, format="rgb24").reformat(
                width=self._stream.width,
                height=self._stream.height,
                format="yuv420p",
                dst_colorspace=self._av.video.reformatter.Colorspace.ITU709,
                dst_color_range=self._av.video.reformatter.ColorRange.MPEG,
            )
            frame.pts, frame.time_base = tick, Fraction(1, _TICKS)
            self._mux(frame)
        self._last_tick = tick
        self._pictures += 1

    def close(self) -> None:
        """Finish the file, and put it in its place; nothing happens the second time.

        Raises:
            VideoError: The encoder failed.
            OSError: The file cannot be written; nothing is left of it.
        """
        if self._closed:
            return
        if self._container is None:
            self._discard()
            return
        with self._failing():
            self._mux(None)
            self._container.close()
        self._closed = True
        self._opened.__exit__(None, None, None)

    def _discard(self) -> None:
        """Write nothing: what was at `path` stays."""
        if self._closed:
            return
        self._closed = True
        self._pictures = 0
        if self._container is not None:
            with contextlib.suppress(Exception):
                self._container.close()
        self._opened.__exit__(_DiscardedError, _DiscardedError(), None)

    @contextlib.contextmanager
    def _failing(self) -> Any:
        """Discard the file after an error, which names its path."""
        try:
            yield
        except self._av.error.FFmpegError as error:
            self._discard()
            if isinstance(error, OSError):
                raise OSError(error.errno, error.strerror, str(self._path)) from error
            raise VideoError(f"video {self._path} cannot be written: {error}") from error
        except OSError:
            self._discard()
            raise

    def _tick(self, seconds: float | Fraction | None) -> int:
        if seconds is None:
            return max(round(self._pictures * _TICKS / self._rate), self._last_tick + 1)
        if not 0 <= seconds < float("inf"):
            raise InvalidArgumentError(f"seconds is {seconds}: give a time from 0 on")
        return max(round(seconds * _TICKS), self._last_tick + 1)

    def _open(self, width: int, height: int) -> None:
        # By its descriptor: nobody can put another file into its place meanwhile.
        container = self._av.open(
            f"file:/proc/self/fd/{self._file.fileno()}",
            "w",
            format="mp4",
            options=_FRAGMENTED_OPTIONS if self._in_pieces else _WHOLE_OPTIONS,
        )
        self._container = container
        if self._comment:
            container.metadata["comment"] = self._comment
        stream: av.video.stream.VideoStream = container.add_stream(_ENCODER, rate=self._rate)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.time_base = Fraction(1, _TICKS)
        context = stream.codec_context
        context.time_base = stream.time_base
        # Frames that refer to later ones make a track whose duration is wrong where times vary.
        context.max_b_frames = 0
        context.thread_type = "FRAME"
        context.colorspace = context.color_primaries = context.color_trc = _BT709
        context.color_range = _LIMITED
        stream.options = dict(_ENCODER_OPTIONS)
        self._stream = stream

    def _mux(self, frame: Any) -> None:
        assert self._container is not None
        for packet in self._stream.encode(frame):
            self._container.mux(packet)


class _DiscardedError(Exception):
    """Ends the block of a file that is not to be written."""


def _import_encoder() -> Any:
    """Return PyAV's module; raise VideoError where it cannot encode H.264."""
    package = import_av()
    try:
        package.Codec(_ENCODER, "w")
    except (package.error.FFmpegError, ValueError) as error:
        raise VideoError(
            f"PyAV has no H.264 encoder ({_ENCODER}); install PyAV's wheel from PyPI"
        ) from error
    return package


def _to_rgb(picture: npt.NDArray[np.uint8] | Image.Image) -> npt.NDArray[np.uint8]:
    if isinstance(picture, Image.Image):
        picture = np.asarray(picture.convert("RGB"))
    is_right = picture.dtype == np.uint8 and picture.ndim == 3 and picture.shape[2] == 3
    if not is_right or not picture.size:
        raise InvalidArgumentError(
            f"a picture is {picture.dtype} {list(picture.shape)}: give RGB pixels, uint8 [H,W,3]"
        )
    if max(picture.shape) > _MAX_SIDE:
        height, width = picture.shape[:2]
        raise InvalidArgumentError(
            f"a picture is {width} x {height}: shrink it to sides of at most {_MAX_SIDE} pixels"
        )
    return picture


def _pad_to_even(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return pixels with sides of even length, as yuv420p has them."""
    odd = pixels.shape[0] % 2, pixels.shape[1] % 2
    return np.pad(pixels, ((0, odd[0]), (0, odd[1]), (0, 0)), "edge") if any(odd) else pixels
