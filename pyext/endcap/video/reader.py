"""Reader of videos and cameras."""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal, TypeAlias, get_args

from endcap.errors import InvalidArgumentError, VideoError
from endcap.parameters import preprocess_defaults
from endcap.video.frames import VideoFrame, read_rotation, to_image
from endcap.video.source import Input, VideoSource, find_source, import_av

OnFull: TypeAlias = Literal["wait", "drop_oldest"]

# Reads in a row that may fail before a file counts as ended: FFmpeg skips over some damage.
_MAX_BAD_READS = 64
_CLOSE_MARGIN_S = 5.0
_MAX_RECONNECT_INTERVAL_S = 30.0


@dataclass
class SourceStatus:
    """State and counts of a source.

    Attributes:
        state: "reading", "reconnecting", "ended", "failed" or "closed".
        decoded: Frames that the decoder returned.
        sampled_out: Those that `rate` or `every` left out.
        dropped: Those that the queue dropped.
        damaged: Parts that the file or the decoder refused, and frames that lacked some and are
            given with what FFmpeg put there.
        reconnects: Times that a live source was opened again.
        error: The last error's message.
    """

    state: str = "reading"
    decoded: int = 0
    sampled_out: int = 0
    dropped: int = 0
    damaged: int = 0
    reconnects: int = 0
    error: str | None = None


class VideoReader:
    """Reads the frames of a video or a camera, which a thread decodes.

    An iterator of `VideoFrame`, and a context manager that ends the thread. Frames may be taken by
    several threads; each is given once::

        with VideoReader("clip.mp4", rate=5) as reader:
            for frame in reader:
                result = endcap.preprocess(frame.image, size=640)

    Args:
        source: Path of a file, its bytes, a file object opened in binary mode, an address of http,
            https, rtsp or rtsps, or the number of a camera (0 for /dev/video0).
        rate: Frames a second, chosen by their time stamps; None for all.
        every: The first of that many frames, and so on; not with `rate`.
        keyframes_only: Whether only key frames are decoded; `rate` and `every` choose among them.
        queue_size: Decoded frames that wait.
        on_full: What happens when the queue is full: "wait" for room, or "drop_oldest" of the
            queue. None: wait for files, drop the oldest of live sources.
        reconnect: Whether the source is opened again after an error or its end. None: rtsp,
            cameras, and addresses of http without a duration.
        reconnect_interval_s: Time before the first attempt; it doubles with each that fails, up to
            30 seconds.
        timeout_s: For opening the source, and the longest silence of it.
        threads: The decoder's, 0 for as many as there are cores.
        options: FFmpeg's, of the format and the decoder.
        max_pixels: Most pixels of a frame (89478485, as for image files).

    Attributes:
        name: The path or address, without a password.
        codec: FFmpeg's name of the coding, for example "h264".
        width: Of the decoded frames as the file declares it, before rotation.
        height: In the same way.
        frame_rate: Frames a second as the file declares them, or FFmpeg's guess, None where
            unknown.
        duration_s: Seconds, None where that is unknown.
        is_live: Whether the source has no end, as cameras, rtsp and http without a duration.

    Raises:
        VideoError: The source cannot be opened or holds no video, or PyAV is not installed.
        FileNotFoundError: The file or camera does not exist.
        InvalidArgumentError: A parameter or source that cannot be used.
    """

    def __init__(
        self,
        source: VideoSource,
        *,
        rate: float | None = None,
        every: int = 1,
        keyframes_only: bool = False,
        queue_size: int = 4,
        on_full: OnFull | None = None,
        reconnect: bool | None = None,
        reconnect_interval_s: float = 1.0,
        timeout_s: float = 10.0,
        threads: int = 0,
        options: Mapping[str, str] | None = None,
        max_pixels: int | None = None,
    ) -> None:
        if max_pixels is None:
            max_pixels = int(preprocess_defaults()["max_pixels"])
        _check(rate, every, on_full, timeout_s, reconnect_interval_s)
        for name, value, least in (
            ("every", every, 1),
            ("queue_size", queue_size, 1),
            ("max_pixels", max_pixels, 1),
            ("threads", threads, 0),
        ):
            if value < least:
                raise InvalidArgumentError(f"{name} is {value}: give a number from {least} on")
        found = find_source(source)
        if reconnect and found.is_live is False:
            raise InvalidArgumentError(
                "reconnect is for addresses and cameras: a file is read once, leave it out"
            )
        opened = Input(found, options or {}, timeout_s, max_pixels, keyframes_only, threads)
        opened.open()
        stream, context = opened.stream, opened.stream.codec_context
        rate_of_file = stream.guessed_rate or stream.average_rate
        duration = opened.container.duration
        self.name, self.is_live = found.name, opened.is_live
        self.codec = context.name if stream.codec is None else stream.codec.canonical_name
        self.width, self.height = context.width, context.height
        self.frame_rate = Fraction(rate_of_file) if rate_of_file else None
        self.duration_s = duration / 1_000_000 if duration and duration > 0 else None
        is_reopened = self.is_live if reconnect is None else reconnect
        self._work = _Decoding(
            opened,
            sampling=_Sampling(rate, every, self.frame_rate, stream.time_base),
            queue=_FrameQueue(queue_size, on_full or ("drop_oldest" if self.is_live else "wait")),
            frame_s=1 / self.frame_rate if self.frame_rate else Fraction(1, 30),
            reconnect_interval_s=reconnect_interval_s if is_reopened else None,
        )
        self._timeout_s = timeout_s
        self._finalizer = weakref.finalize(self, self._work.queue.close)
        self._thread = threading.Thread(
            target=self._work.run, name=f"endcap video {found.name}", daemon=True
        )
        self._thread.start()

    @property
    def status(self) -> SourceStatus:
        """State and counts at this time."""
        work = self._work
        is_cut_off = work.queue.is_closed and work.status.state in ("reading", "reconnecting")
        state = "closed" if is_cut_off else work.status.state
        return replace(work.status, state=state, dropped=work.queue.dropped)

    def __iter__(self) -> Iterator[VideoFrame]:
        """Return the reader."""
        return self

    def __next__(self) -> VideoFrame:
        """Return the next frame, and wait for it.

        Raises:
            StopIteration: The end of the video, or the reader is closed.
            VideoError: The source failed, or held no frame that could be decoded.
        """
        entry = self._work.queue.get()
        if entry is None:
            raise StopIteration
        image = to_image(entry.frame, entry.rotation)
        height, width = image.shape[:2] if hasattr(image, "shape") else image.planes[0].shape[:2]
        return VideoFrame(
            **entry.fields,
            image=image,
            width=width,
            height=height,
            rotation=entry.rotation,
            dropped=entry.dropped,
        )

    def close(self) -> None:
        """End the thread. Iterators end at once; the frames of the queue are given up.

        Safe to call from any thread, at any time, and more than once. A read that is waiting for a
        silent source is waited for, up to `timeout_s`.
        """
        self._finalizer()
        if self._thread is not threading.current_thread():
            self._thread.join(self._timeout_s + _CLOSE_MARGIN_S)

    def __enter__(self) -> VideoReader:
        """Return the reader."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the reader."""
        self.close()


def _check(rate: float | None, every: int, on_full: str | None, *seconds: float) -> None:
    """Raise InvalidArgumentError for a value that cannot be used."""
    if rate is not None and not 0 < rate < math.inf:
        raise InvalidArgumentError(f"rate is {rate}: give frames a second, above 0")
    if rate is not None and every != 1:
        raise InvalidArgumentError(f"rate is {rate} and every is {every}: give one of them")
    policies = get_args(OnFull)
    if on_full not in (None, *policies):
        raise InvalidArgumentError(f"on_full is {on_full!r}: give one of {', '.join(policies)}")
    for name, each in zip(("timeout_s", "reconnect_interval_s"), seconds, strict=True):
        if not 0 < each < math.inf:
            raise InvalidArgumentError(f"{name} is {each}: give seconds above 0")


@dataclass
class _Entry:
    """A decoded frame that waits, and the fields of its VideoFrame that do not need its pixels."""

    frame: Any
    rotation: int
    fields: dict[str, Any]
    dropped: int = 0


class _FrameQueue:
    """Frames from a thread that decodes, for those that take them."""

    def __init__(self, size: int, on_full: str) -> None:
        self._size = size
        self._on_full = on_full
        self._changed = threading.Condition()
        self._entries: deque[_Entry] = deque()
        self._error: BaseException | None = None
        self._is_ended = False
        self.is_closed = False
        self.dropped = 0

    def put(self, entry: _Entry) -> None:
        """Add a frame, as the policy says."""
        with self._changed:
            if self._on_full == "wait":
                self._changed.wait_for(lambda: self.is_closed or len(self._entries) < self._size)
            if self.is_closed:
                return
            if len(self._entries) >= self._size:
                self.dropped += 1
                oldest = self._entries.popleft()
                next_one = self._entries[0] if self._entries else entry
                next_one.dropped += oldest.dropped + 1
            self._entries.append(entry)
            self._changed.notify_all()

    def get(self) -> _Entry | None:
        """Return the next frame, None at the end; raise the error that ended the source, once."""
        with self._changed:
            self._changed.wait_for(lambda: self._entries or self._is_ended or self.is_closed)
            if self.is_closed:
                return None
            if self._entries:
                entry = self._entries.popleft()
                self._changed.notify_all()
                return entry
            error, self._error = self._error, None
        if error is not None:
            raise error
        return None

    def end(self, error: BaseException | None) -> None:
        """Let the takers end when they have the frames that wait."""
        with self._changed:
            self._error = error
            self._is_ended = True
            self._changed.notify_all()

    def close(self) -> None:
        """Let the takers and the thread that decodes end now."""
        with self._changed:
            self.is_closed = True
            self._entries.clear()
            self._changed.notify_all()

    def sleep(self, seconds: float) -> None:
        """Wait for a time, or until the queue is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self.is_closed, seconds)


class _Sampling:
    """Choice of frames by number or time."""

    def __init__(
        self, rate: float | None, every: int, frame_rate: Fraction | None, time_base: Fraction
    ) -> None:
        self._rate = None if rate is None else Fraction(rate).limit_denominator(1_000_000)
        self._every = every
        # Time stamps are rounded, and cameras vary: the frame nearest to a time is taken.
        frame_s = 1 / frame_rate if frame_rate else time_base
        self._early = min(frame_s * (self._rate or 0) / 2, Fraction(1, 4))  # intervals
        self._slot: int | None = None

    def takes(self, index: int, seconds: Fraction) -> bool:
        """Tell whether a frame is one of those that were asked for."""
        if self._rate is None:
            return index % self._every == 0
        slot = math.floor(seconds * self._rate + self._early)
        if slot == self._slot:
            return False
        self._slot = slot
        return True


class _Clock:
    """Seconds of frames since the first one, over gaps of the source."""

    def __init__(self) -> None:
        self._began: float | None = None
        self._offset = Fraction(0)  # seconds of the frame with the time stamp `_first`
        self._first: int | None = None
        self._last = Fraction(0)
        self._is_new = True

    def restart(self) -> None:
        """Begin a new numbering of time stamps, as a source has after it was opened again."""
        self._first = None
        self._is_new = True

    def seconds(self, pts: int | None, time_base: Fraction, step: Fraction) -> Fraction:
        """Return the seconds of a frame, a step after the one before where it has no pts."""
        now = time.monotonic()
        if self._began is None:
            self._began = now
            start = Fraction(0)
        elif self._is_new:
            start = max(self._last + step, Fraction(now - self._began).limit_denominator(1000))
        else:
            start = self._last + step
        if pts is None:
            self._last = start
        else:
            if self._first is None:
                self._first, self._offset = pts, start
            self._last = self._offset + (pts - self._first) * time_base
        self._is_new = False
        return self._last


class _Decoding:
    """What the thread does: packets to frames, until the end or until the queue is closed."""

    def __init__(
        self,
        opened: Input,
        *,
        sampling: _Sampling,
        queue: _FrameQueue,
        frame_s: Fraction,
        reconnect_interval_s: float | None,
    ) -> None:
        self._input = opened
        self._sampling = sampling
        self._frame_s = frame_s
        self._interval_s = reconnect_interval_s
        self._attempts = 0  # to open the source, in a row
        self._clock = _Clock()
        self.queue = queue
        self.status = SourceStatus()

    def run(self) -> None:
        """Read, and end the queue."""
        error: BaseException | None = None
        try:
            self._read_all()
        except BaseException as raised:
            error = raised
            self.status.error = str(raised)
        finally:
            self._input.close()
        is_cut_off = error is None and self.queue.is_closed
        self.status.state = "closed" if is_cut_off else "ended" if error is None else "failed"
        self.queue.end(error)

    def _read_all(self) -> None:
        """Read the source to its end; one that is opened again, until the queue is closed."""
        name = self._input.source.name
        while not self.queue.is_closed:
            try:
                if self._input.container is None:
                    self._input.open(again=True)
                    self._clock.restart()
                    self.status.reconnects += 1
                    self.status.state = "reading"
                self._read()
                error: Exception = VideoError(f"{name} ended")
            except (VideoError, FileNotFoundError) as raised:
                if self._interval_s is None:
                    raise
                error = raised
            if self.queue.is_closed:
                return
            if self._interval_s is None:
                if self.status.decoded == 0:
                    raise VideoError(f"no frame of {name} can be decoded; try it in a player")
                return
            self._input.close()
            self.status.state, self.status.error = "reconnecting", str(error)
            wait_s = self._interval_s * 2.0 ** min(self._attempts, 60)
            self._attempts += 1
            self.queue.sleep(min(wait_s, _MAX_RECONNECT_INTERVAL_S))

    def _read(self) -> None:
        """Read an opened source to its end."""
        av, name = import_av(), self._input.source.name
        bad_reads = 0
        while not self.queue.is_closed:
            try:
                for packet in self._input.container.demux():
                    bad_reads = 0
                    if packet.stream is self._input.stream:
                        self._decode(av, packet)
                    if self.queue.is_closed:
                        return
                return
            except IndexError:  # PyAV's at the end of a file in which streams appeared, after ours
                return
            except (av.error.InvalidDataError, av.error.MemoryError) as error:
                # Of memory: a damaged packet says that it is of some gigabytes.
                self._damage(error)
                bad_reads += 1
                if bad_reads > _MAX_BAD_READS:
                    return
            except av.error.ExitError as error:
                seconds = self._input.timeout_s
                raise VideoError(f"{name}: nothing came within {seconds:g} seconds") from error
            except av.error.FFmpegError as error:
                raise VideoError(f"{name}: {error.strerror}") from error

    def _decode(self, av: Any, packet: Any) -> None:
        try:
            frames = packet.decode()
        except (av.error.FFmpegError, ValueError) as error:
            self._damage(error)
            return
        for frame in frames:
            if frame.width * frame.height > self._input.max_pixels:
                self._damage(VideoError(f"a frame has {frame.width}x{frame.height} pixels"))
            else:
                self._add(frame)

    def _damage(self, error: Exception) -> None:
        self.status.damaged += 1
        self.status.error = str(error)

    def _add(self, frame: Any) -> None:
        if self._input.keyframes_only and not frame.key_frame:
            return
        index = self.status.decoded
        self.status.decoded += 1
        self.status.damaged += bool(frame.is_corrupt)
        self._attempts = 0
        time_base = frame.time_base or self._input.stream.time_base
        seconds = self._clock.seconds(frame.pts, time_base, self._frame_s)
        if not self._sampling.takes(index, seconds):
            self.status.sampled_out += 1
            return
        fields = {
            "index": index,
            "pts": frame.pts,
            "time_base": time_base,
            "seconds": float(seconds),
            "wall_time": time.time(),
            "is_key": bool(frame.key_frame),
        }
        self.queue.put(_Entry(frame, read_rotation(frame), fields))
