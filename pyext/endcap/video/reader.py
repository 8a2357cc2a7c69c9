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
from types import TracebackType
from typing import Any, Literal, TypeAlias

from endcap.errors import InvalidArgumentError, VideoError
from endcap.parameters import preprocess_defaults
from endcap.video.frames import VideoFrame, read_rotation, to_image
from endcap.video.source import (
    Source,
    VideoSource,
    coded_pixels,
    find_source,
    import_av,
    open_source,
)

OnFull: TypeAlias = Literal["wait", "drop_oldest"]

_POLICIES = ("wait", "drop_oldest")
# Reads in a row that may fail before a file counts as ended: FFmpeg skips over some damage.
_MOST_BAD_READS = 64
_CLOSE_MARGIN_S = 5.0
_MAX_RECONNECT_INTERVAL_S = 30.0


@dataclass(frozen=True)
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

    state: str
    decoded: int
    sampled_out: int
    dropped: int
    damaged: int
    reconnects: int
    error: str | None


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
        every: The first of so many frames, and so on; not with `rate`.
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
        FileNotFoundError: There is no such file or camera.
        InvalidArgumentError: A parameter or source that cannot be used.
    """

    def __init__(
        self,
        source: VideoSource | Source,
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
        _check(
            rate,
            every,
            on_full,
            {
                "every": (every, 1),
                "queue_size": (queue_size, 1),
                "max_pixels": (max_pixels, 1),
                "threads": (threads, 0),
            },
            {"timeout_s": timeout_s, "reconnect_interval_s": reconnect_interval_s},
        )
        found = source if isinstance(source, Source) else find_source(source)
        if reconnect and not found.can_reconnect:
            raise InvalidArgumentError(
                "reconnect is for addresses and cameras: a file is read once, leave it out"
            )
        opened = _Opened(
            found,
            dict(options or {}),
            timeout_s=timeout_s,
            max_pixels=max_pixels,
            keyframes_only=keyframes_only,
            threads=threads,
        )
        self.name, self.codec = found.name, opened.codec
        self.width, self.height = opened.width, opened.height
        self.frame_rate, self.duration_s = opened.frame_rate, opened.duration_s
        self.is_live = opened.is_live
        is_reopened = self.is_live if reconnect is None else reconnect
        self._work = _Decoding(
            opened,
            sampling=_Sampling(rate, every, opened),
            queue=_FrameQueue(queue_size, on_full or ("drop_oldest" if self.is_live else "wait")),
            reconnect_interval_s=reconnect_interval_s if is_reopened else None,
        )
        self._timeout_s = timeout_s
        self._finalizer = weakref.finalize(self, self._work.stop)
        self._thread = threading.Thread(
            target=self._work.run, name=f"endcap video {found.name}", daemon=True
        )
        self._thread.start()

    @property
    def status(self) -> SourceStatus:
        """State and counts at this time."""
        return self._work.status()

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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the reader."""
        self.close()


def _check(
    rate: float | None,
    every: int,
    on_full: str | None,
    counts: Mapping[str, tuple[int, int]],
    seconds: Mapping[str, float],
) -> None:
    """Raise InvalidArgumentError for a value that cannot be used; counts have their minimum."""
    if rate is not None and not 0 < rate < math.inf:
        raise InvalidArgumentError(f"rate is {rate}: give frames a second, above 0")
    if rate is not None and every != 1:
        raise InvalidArgumentError(f"rate is {rate} and every is {every}: give one of them")
    if on_full is not None and on_full not in _POLICIES:
        raise InvalidArgumentError(f"on_full is {on_full!r}: give one of {', '.join(_POLICIES)}")
    for name, (value, least) in counts.items():
        if value < least:
            raise InvalidArgumentError(f"{name} is {value}: give a number from {least} on")
    for name, each in seconds.items():
        if not 0 < each < math.inf:
            raise InvalidArgumentError(f"{name} is {each}: give seconds above 0")


class _Opened:
    """An opened source, which can be opened again, and what is known of it."""

    container: Any = None
    stream: Any = None

    def __init__(
        self,
        source: Source,
        options: Mapping[str, str],
        *,
        timeout_s: float,
        max_pixels: int,
        keyframes_only: bool,
        threads: int,
    ) -> None:
        self.source = source
        self.timeout_s = timeout_s
        self.max_pixels = max_pixels
        self.keyframes_only = keyframes_only
        self._options = options
        self._threads = threads
        self.open()
        stream, context = self.stream, self.stream.codec_context
        self.codec = context.name if stream.codec is None else stream.codec.canonical_name
        self.width, self.height = context.width, context.height
        self.time_base: Fraction = stream.time_base
        rate = stream.guessed_rate or stream.average_rate
        self.frame_rate = Fraction(rate) if rate else None
        duration = self.container.duration
        self.duration_s = duration / 1_000_000 if duration and duration > 0 else None
        self.is_live = self._is_live()

    def open(self, *, again: bool = False) -> None:
        """Open the source."""
        self.container = open_source(
            self.source,
            self._options,
            timeout_s=self.timeout_s,
            max_pixels=self.max_pixels,
            again=again,
        )
        try:
            self._set_up()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the container."""
        if self.container is not None:
            self.container.close()
            self.container = None

    def _set_up(self) -> None:
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
        most = coded_pixels(self.max_pixels, context.width, context.height)
        context.options = {**self._options, "max_pixels": str(most)}
        context.thread_count = self._threads
        # Frames that several threads decode at once come later: not from a camera.
        context.thread_type = "SLICE" if self._is_live() else "AUTO"
        if self.keyframes_only:
            context.skip_frame = "NONKEY"

    def _is_live(self) -> bool:
        if self.source.is_live is not None:
            return self.source.is_live
        return not self.container.duration


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

    def __init__(self, rate: float | None, every: int, opened: _Opened) -> None:
        self._rate = None if rate is None else Fraction(rate).limit_denominator(1_000_000)
        self._every = every
        # Time stamps are rounded, and cameras vary: the frame nearest to a time is taken.
        frame_s = 1 / opened.frame_rate if opened.frame_rate else opened.time_base
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
    """What the thread does: packets to frames, until the end or `stop`."""

    def __init__(
        self,
        opened: _Opened,
        *,
        sampling: _Sampling,
        queue: _FrameQueue,
        reconnect_interval_s: float | None,
    ) -> None:
        self._opened = opened
        self._sampling = sampling
        self._interval_s = reconnect_interval_s
        self._attempts = 0  # in a row
        self._clock = _Clock()
        self._lock = threading.Lock()
        self._status = SourceStatus("reading", 0, 0, 0, 0, 0, None)
        self.queue = queue

    def status(self) -> SourceStatus:
        with self._lock:
            status = replace(self._status, dropped=self.queue.dropped)
        is_cut_off = self.queue.is_closed and status.state in ("reading", "reconnecting")
        return replace(status, state="closed") if is_cut_off else status

    def stop(self) -> None:
        self.queue.close()

    def run(self) -> None:
        error: BaseException | None = None
        try:
            self._read_all()
        except BaseException as raised:
            error = raised
        finally:
            self._opened.close()
        is_cut_off = error is None and self.queue.is_closed
        state = "closed" if is_cut_off else "ended" if error is None else "failed"
        self._update(state=state, error=error)
        self.queue.end(error)

    def _update(self, *, error: BaseException | None = None, **changes: Any) -> None:
        if error is not None:
            changes["error"] = str(error)
        with self._lock:
            self._status = replace(self._status, **changes)

    def _count(self, name: str) -> None:
        with self._lock:
            self._status = replace(self._status, **{name: getattr(self._status, name) + 1})

    def _read_all(self) -> None:
        name = self._opened.source.name
        while True:
            try:
                self._read_once()
                error = VideoError(f"{name} ended")
            except VideoError as raised:
                if self._interval_s is None:
                    raise
                error = raised
            if self.queue.is_closed:
                return
            if self._interval_s is None:
                if self._status.decoded == 0:
                    raise VideoError(f"{name} holds no frame that can be decoded")
                return
            self._opened.close()
            self._reconnect(error, self._interval_s)
            if self.queue.is_closed:
                return

    def _reconnect(self, error: VideoError, interval_s: float) -> None:
        """Open the source again, until that succeeds or the reader is closed."""
        while not self.queue.is_closed:
            self._update(state="reconnecting", error=error)
            wait_s = min(interval_s * 2.0 ** min(self._attempts, 60), _MAX_RECONNECT_INTERVAL_S)
            self._attempts += 1
            self.queue.sleep(wait_s)
            if self.queue.is_closed:
                return
            try:
                self._opened.open(again=True)
            except (VideoError, FileNotFoundError) as raised:
                error = VideoError(str(raised))
                continue
            self._clock.restart()
            self._count("reconnects")
            self._update(state="reading")
            return

    def _read_once(self) -> None:
        """Read an opened source to its end."""
        av, name = import_av(), self._opened.source.name
        bad_reads = 0
        while not self.queue.is_closed:
            try:
                for packet in self._opened.container.demux():
                    bad_reads = 0
                    if packet.stream is self._opened.stream:
                        self._decode(av, packet)
                    if self.queue.is_closed:
                        return
                return
            except IndexError:  # PyAV's at the end of a file in which streams appeared, after ours
                return
            except (av.error.InvalidDataError, av.error.MemoryError) as error:
                # Of memory: a damaged packet says that it is of some gigabytes.
                self._count("damaged")
                self._update(error=error)
                bad_reads += 1
                if bad_reads > _MOST_BAD_READS:
                    return
            except av.error.ExitError as error:
                seconds = self._opened.timeout_s
                raise VideoError(f"{name}: nothing came within {seconds:g} seconds") from error
            except av.error.FFmpegError as error:
                raise VideoError(f"{name}: {error.strerror}") from error

    def _decode(self, av: Any, packet: Any) -> None:
        try:
            frames = packet.decode()
        except (av.error.FFmpegError, ValueError) as error:
            self._count("damaged")
            self._update(error=error)
            return
        for frame in frames:
            if frame.width * frame.height > self._opened.max_pixels:
                self._count("damaged")
                self._update(error=VideoError(f"a frame has {frame.width}x{frame.height} pixels"))
                continue
            self._add(frame)

    def _add(self, frame: Any) -> None:
        if self._opened.keyframes_only and not frame.key_frame:
            return
        index = self._status.decoded
        self._count("decoded")
        if frame.is_corrupt:
            self._count("damaged")
        self._attempts = 0
        time_base = frame.time_base or self._opened.time_base
        rate = self._opened.frame_rate
        seconds = self._clock.seconds(frame.pts, time_base, 1 / rate if rate else Fraction(1, 30))
        if not self._sampling.takes(index, seconds):
            self._count("sampled_out")
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
