"""Videos as arguments of commands: files, folders, patterns, cameras and addresses."""

from __future__ import annotations

import glob
import re
import urllib.parse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from endcap._images import IMAGE_SUFFIXES, is_address
from endcap.cli.downloads import content_type, file_name
from endcap.cli.images import VIDEO_SUFFIXES, expand_images
from endcap.errors import EndcapError, InvalidArgumentError
from endcap.video import VideoReader
from endcap.video.source import hide_password

_LIVE = ("rtsp://", "rtsps://")
_CAMERA = re.compile(r"/dev/video(\d+)")
# Of addresses; those of files besides.
_STREAM_SUFFIXES = (".m3u8", ".mpd", ".mjpeg", ".mjpg", ".ts")
_STREAM_TYPES = (
    "application/dash+xml",
    "application/vnd.apple.mpegurl",
    "application/x-mpegurl",
    "audio/mpegurl",
    "multipart/x-mixed-replace",
)
_MOTION_JPEG = (".mjpeg", ".mjpg")  # begins as a JPEG file does
_IMAGE_SIGNATURES = (b"\xff\xd8\xff", b"\x89PNG", b"GIF8", b"BM", b"II*\0", b"MM\0*", b"YUV4MPEG2")
_VIDEO_SIGNATURES = (
    b"\x1a\x45\xdf\xa3",  # Matroska, WebM
    b"FLV\x01",
    b"OggS",
    b"\x00\x00\x01\xba",  # MPEG program stream
    b"\x30\x26\xb2\x75\x8e\x66\xcf\x11",  # ASF: WMV
)
_IMAGE_BRANDS = (b"avif", b"avis", b"heic", b"heix", b"heif", b"mif1", b"msf1")
_HEADER_BYTES = 512


@dataclass(frozen=True)
class VideoInput:
    """A video of a command.

    Attributes:
        name: As reports have it: the path, or the address without a password.
        source: What a `VideoReader` takes.
        file: Its file; None of a camera or an address.
    """

    name: str
    source: str | int
    file: Path | None = None

    @property
    def stem(self) -> str:
        """A name for files that are made of it."""
        if isinstance(self.source, int):
            return f"video{self.source}"
        return (self.file or Path(file_name(self.source, default="video"))).stem


def find_videos(
    arguments: Sequence[str], *, recursive: bool = False, timeout_s: float = 30
) -> list[VideoInput]:
    """Return the videos that arguments name, none where all are of images.

    Files are told apart by their first bytes, then by their names, and where neither is known by
    FFmpeg; addresses by the last part of their path, else by the type that their server gives.
    Folders and patterns with images among their files are those of images.

    Args:
        arguments: Files, folders, patterns, cameras such as /dev/video0, and addresses.
        recursive: Whether to take the files of folders' subfolders, too.
        timeout_s: For the type of an address.

    Raises:
        InvalidArgumentError: Videos and images are named together.
        OSError: A folder that cannot be read.
    """
    found = [(argument, _expand(argument, recursive, timeout_s)) for argument in arguments]
    videos = [video for _, each in found for video in each or ()]
    images = [argument for argument, each in found if each is None]
    if videos and images:
        expand_images(images[:1], recursive=recursive)  # raises where it is nothing at all
        raise InvalidArgumentError(
            f"{videos[0].name} is a video and {images[0]} is not: give videos and images to "
            "commands of their own"
        )
    return videos


def _expand(argument: str, recursive: bool, timeout_s: float) -> list[VideoInput] | None:
    """Return the videos of an argument, None for one of images, or of nothing."""
    if argument.lower().startswith(_LIVE):
        return [VideoInput(hide_password(argument), argument)]
    if is_address(argument):
        is_video = _is_video_address(argument, timeout_s)
        return [VideoInput(hide_password(argument), argument)] if is_video else None
    camera = _CAMERA.fullmatch(argument)
    if camera is not None and Path(argument).exists():
        return [VideoInput(argument, int(camera[1]))]
    path = Path(argument)
    try:
        if path.is_dir():
            names = path.rglob("*") if recursive else path.iterdir()
            return _files(sorted(each for each in names if each.is_file()), whole_folder=True)
        if path.exists():
            return _files([path]) if path.is_file() else None
        return _files([Path(name) for name in sorted(glob.glob(argument, recursive=True))])
    except (OSError, ValueError):  # reported by what reads images
        return None


def _files(paths: Iterable[Path], *, whole_folder: bool = False) -> list[VideoInput] | None:
    """Return the videos among files, None where there is an image among them or no video.

    Of a whole folder, files that neither their names nor their first bytes tell are left out.
    """
    videos = []
    for path in filter(Path.is_file, paths):
        kind = _kind(path)
        if kind == "unknown" and not whole_folder and _opens(path):
            kind = "video"
        if kind == "image" or (kind != "video" and not whole_folder):
            return None
        if kind == "video":
            videos.append(VideoInput(str(path), str(path), path))
    return videos or None


def _kind(path: Path) -> str:
    """Return video or image by a file's first bytes, else by its name; text or unknown for others.

    FFmpeg shows text as a terminal does: it is not asked about that.
    """
    with path.open("rb") as file:
        begin = file.read(_HEADER_BYTES)
    suffix = path.suffix.lower()
    is_image_file = begin[4:8] == b"ftyp" and begin[8:12] in _IMAGE_BRANDS
    if is_image_file or begin[8:12] == b"WEBP":
        return "image"
    if begin.startswith(_VIDEO_SIGNATURES) or begin[4:8] == b"ftyp" or begin[8:12] == b"AVI ":
        return "video"
    if begin.startswith(_IMAGE_SIGNATURES) and suffix not in _MOTION_JPEG:
        return "image"
    if suffix in IMAGE_SUFFIXES:
        return "image"
    if suffix in (*VIDEO_SUFFIXES, *_STREAM_SUFFIXES):
        return "video"
    return "unknown" if b"\0" in begin else "text"


def _opens(path: Path) -> bool:
    """Return whether FFmpeg finds a video in a file."""
    try:
        with VideoReader(path):
            return True
    except (EndcapError, OSError):
        return False


def _is_video_address(url: str, timeout_s: float) -> bool:
    suffix = Path(urllib.parse.urlsplit(url).path).suffix.lower()
    if suffix in IMAGE_SUFFIXES:
        return False
    if suffix in (*VIDEO_SUFFIXES, *_STREAM_SUFFIXES):
        return True
    kind = content_type(url, timeout_s=timeout_s)
    return kind.startswith("video/") or kind in _STREAM_TYPES
