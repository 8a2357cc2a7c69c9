"""Writer of MP4 files."""

from __future__ import annotations

import contextlib
import os
from contextlib import AbstractContextManager
from fractions import Fraction
from pathlib import Path
from types import TracebackType
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

# In order of preference: H.264 plays everywhere, MPEG-4 in programs for videos, not in browsers.
_ENCODERS = ("libx264", "libopenh264", "mpeg4")
_H264_OPTIONS = {"preset": "veryfast", "crf": "23"}
_BITS_PER_PIXEL = 0.12  # of encoders that are given a bit rate
# Ticks a second; frame times are multiples of a tick. MPEG-4 has no room for more than 65535.
_TICKS = 90_000
_FEWER_TICKS = 60_000
_BT709, _LIMITED = 1, 1  # as H.273 numbers them
_MOST_RATE = 1000
_LARGEST_SIDE = 16_384
# The index at the beginning: players begin before the end of the download.
_WHOLE_OPTIONS = {"movflags": "+faststart"}
_FRAGMENTED_OPTIONS = {
    "movflags": "+frag_keyframe+empty_moov+default_base_moof",
    "flush_packets": "1",
}


class VideoWriter:
    """Writes pictures with their times to an MP4 file that browsers play.

    The video is H.264 (yuv420p, BT.709, limited range) where PyAV has an encoder, else MPEG-4. It
    is a temporary file beside `path` until the writer is closed, and replaces `path` then. A `with`
    block closes it however it ends, so that a video that was interrupted plays until there;
    `discard` leaves what was at `path`. Without any picture there is no file. Not thread-safe.

    Args:
        path: The file.
        frame_rate: Frames a second, for `write` without times and for the last picture's duration.
        in_pieces: Whether the index is written piece by piece: memory then does not grow with the
            file, and the temporary file of a process that was killed plays. Players show no
            duration for it.
        comment: Text among the file's metadata.
        follow_links: Whether a link at `path` is written through; else it is refused.

    Raises:
        VideoError: PyAV is not installed, or has no encoder.
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
        if not 0 < frame_rate <= _MOST_RATE:
            raise InvalidArgumentError(
                f"frame_rate is {frame_rate}: give frames a second, above 0, up to {_MOST_RATE}"
            )
        self._path = Path(path)
        self._rate = Fraction(frame_rate).limit_denominator(1001)
        self._codec = _find_encoder()
        self._in_pieces = in_pieces
        self._comment = comment
        self._ticks = _FEWER_TICKS if self._codec == "mpeg4" else _TICKS
        self._last_tick = -1
        self._size: tuple[int, int] | None = None
        self._container: av.container.OutputContainer | None = None
        self._closed = False
        self._pictures = 0
        if self._path.exists() and not self._path.is_file() and not self._path.is_dir():
            raise InvalidArgumentError(f"{path} is a pipe or a device; give a file for a video")
        self._opened: AbstractContextManager[IO[bytes]] = whole_file(
            self._path, follow_links=follow_links
        )
        self._file = self._opened.__enter__()

    def __repr__(self) -> str:
        state = ", closed" if self._closed else ""
        return f"<VideoWriter {self._path}, {self._codec}, {self._pictures} pictures{state}>"

    def __enter__(self) -> VideoWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def path(self) -> Path:
        """The file that is there when the writer is closed."""
        return self._path

    @property
    def pictures(self) -> int:
        """The number of pictures until now; none after `discard`, or after an error."""
        return self._pictures

    def write(
        self, picture: npt.NDArray[np.uint8] | Image.Image, seconds: float | Fraction | None = None
    ) -> None:
        """Append a picture.

        The first one gives the video's size; a side of odd length is padded by one column or row,
        its last one again. Later pictures of another size are scaled to fit, on black.

        Args:
            picture: RGB, uint8 [H,W,3], or a Pillow image.
            seconds: From the beginning of the video, to 1/90000 s (MPEG-4: 1/60000 s); one that is
                not later than the one before is put right after it. None: by `frame_rate`.

        Raises:
            InvalidArgumentError: No such array, a side beyond 16384, or a negative time.
            VideoError: The encoder failed, or the writer is closed.
            OSError: The file cannot be written; nothing is left of it.
        """
        if self._closed:
            raise VideoError(f"the writer of {self._path} is closed; make another one")
        pixels = _even(self._fitted(_rgb(picture)))
        tick = self._tick(seconds)
        with self._failing():
            if self._container is None:
                self._open(pixels.shape[1], pixels.shape[0])
            frame = self._av.VideoFrame.from_ndarray(pixels, format="rgb24").reformat(
                format="yuv420p",
                dst_colorspace=self._av.video.reformatter.Colorspace.ITU709,
                dst_color_range=self._av.video.reformatter.ColorRange.MPEG,
            )
            frame.pts, frame.time_base = tick, Fraction(1, self._ticks)
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
            self.discard()
            return
        with self._failing():
            self._mux(None)
            self._container.close()
        self._closed = True
        self._opened.__exit__(None, None, None)

    def discard(self) -> None:
        """Write nothing: what was at `path` stays."""
        if self._closed:
            return
        self._closed = True
        self._pictures = 0
        if self._container is not None:
            with contextlib.suppress(Exception):
                self._container.close()
        self._opened.__exit__(_DiscardedError, _DiscardedError(), None)

    @property
    def _av(self) -> Any:
        return import_av()

    @contextlib.contextmanager
    def _failing(self) -> Any:
        """Discard the file after an error, which names its path."""
        try:
            yield
        except self._av.error.FFmpegError as error:
            self.discard()
            if isinstance(error, OSError):
                raise OSError(error.errno, error.strerror, str(self._path)) from error
            raise VideoError(f"video {self._path} cannot be written: {error}") from error
        except OSError:
            self.discard()
            raise

    def _tick(self, seconds: float | Fraction | None) -> int:
        if seconds is None:
            return max(round(self._pictures * self._ticks / self._rate), self._last_tick + 1)
        if not 0 <= seconds < float("inf"):
            raise InvalidArgumentError(f"seconds is {seconds}: give a time from 0 on")
        return max(round(seconds * self._ticks), self._last_tick + 1)

    def _fitted(self, pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        """Return pixels of the size of the first picture."""
        height, width = pixels.shape[:2]
        if self._size is None:
            if max(width, height) > _LARGEST_SIDE:
                raise InvalidArgumentError(
                    f"a picture is {width} x {height}: no side of a video is above {_LARGEST_SIDE}"
                )
            self._size = (width, height)
        if (width, height) == self._size:
            return pixels
        scale = min(self._size[0] / width, self._size[1] / height)
        scaled = Image.fromarray(pixels).resize(
            (max(1, round(width * scale)), max(1, round(height * scale)))
        )
        fitted = Image.new("RGB", self._size)
        left, top = (self._size[0] - scaled.width) // 2, (self._size[1] - scaled.height) // 2
        fitted.paste(scaled, (left, top))
        return np.asarray(fitted)

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
        stream: av.video.stream.VideoStream = container.add_stream(self._codec, rate=self._rate)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.time_base = Fraction(1, self._ticks)
        context = stream.codec_context
        context.time_base = stream.time_base
        # Frames that refer to later ones make a track whose duration is wrong where times vary.
        context.max_b_frames = 0
        context.thread_type = "FRAME"
        context.colorspace = context.color_primaries = context.color_trc = _BT709
        context.color_range = _LIMITED
        if self._codec == "libx264":
            stream.options = dict(_H264_OPTIONS)
        else:
            context.bit_rate = round(width * height * float(self._rate) * _BITS_PER_PIXEL)
        self._stream = stream

    def _mux(self, frame: Any) -> None:
        assert self._container is not None
        for packet in self._stream.encode(frame):
            self._container.mux(packet)


class _DiscardedError(Exception):
    """Ends the block of a file that is not to be written."""


def _find_encoder() -> str:
    """Return the name of an encoder that PyAV has. Raises VideoError."""
    package = import_av()
    for name in _ENCODERS:
        with contextlib.suppress(package.error.FFmpegError, ValueError):
            return str(package.Codec(name, "w").name)
    raise VideoError(
        f"PyAV has no encoder of H.264 or MPEG-4 (none of {', '.join(_ENCODERS)}); install the "
        "wheel of PyPI"
    )


def _rgb(picture: npt.NDArray[np.uint8] | Image.Image) -> npt.NDArray[np.uint8]:
    if isinstance(picture, Image.Image):
        return np.asarray(picture.convert("RGB"))
    is_right = picture.dtype == np.uint8 and picture.ndim == 3 and picture.shape[2] == 3
    if not is_right or not picture.size:
        raise InvalidArgumentError(
            f"a picture is {picture.dtype} {list(picture.shape)}: give RGB pixels, uint8 [H,W,3]"
        )
    return picture


def _even(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return pixels with sides of even length, as yuv420p has them."""
    odd = pixels.shape[0] % 2, pixels.shape[1] % 2
    return np.pad(pixels, ((0, odd[0]), (0, odd[1]), (0, 0)), "edge") if any(odd) else pixels
