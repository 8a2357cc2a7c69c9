"""Images and videos as arguments of commands: files, folders, glob patterns, cameras, addresses."""

from __future__ import annotations

import glob
import os
import re
import urllib.parse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from endcap._images import IMAGE_SUFFIXES, is_address
from endcap.cli.console import count, say
from endcap.errors import InvalidArgumentError

VIDEO_SUFFIXES = (
    ".avi", ".flv", ".h264", ".h265", ".m4v", ".mjpeg", ".mjpg", ".mkv", ".mov", ".mp4", ".mpeg",
    ".mpg", ".ogv", ".ts", ".webm", ".wmv", ".y4m",
)  # fmt: skip
_CAMERA = re.compile(r"/dev/video\d+")
_MAX_NAMES_SHOWN = 5
_FRAMES_ADVICE = (
    "a video is read by `endcap infer` alone: take frames out of it first, for example with "
    "`ffmpeg -i IN frame_%06d.jpg`"
)


def expand_images(arguments: Iterable[str], *, recursive: bool = False) -> list[Path]:
    """Return the files that files, folders and glob patterns name, in that order.

    The files of a folder that are left out are counted and named on standard error, and so are the
    videos of a pattern.

    Args:
        arguments: A folder stands for its files of an image format that can be decoded, by their
            suffix, sorted by name.
        recursive: Whether to take those of its subfolders, too; links are not followed.

    Raises:
        InvalidArgumentError: For an argument that names no file, a video or an address.
        OSError: For a folder that cannot be read.
    """
    return [path for argument in arguments for path in _expand(argument, recursive)]


@dataclass(frozen=True)
class VideoInput:
    """A video of a command.

    Attributes:
        name: As reports have it: the path, or the address without a password.
        source: What a `VideoReader` takes.
        file: Its file; None of a camera or an address.
    """

    name: str
    source: str
    file: Path | None = None

    @property
    def stem(self) -> str:
        """A name for files that are made of it."""
        return (self.file or Path(urllib.parse.urlsplit(self.source).path)).stem or "video"


def find_videos(arguments: Sequence[str], *, recursive: bool = False) -> list[VideoInput]:
    """Return the videos that arguments name, none where all are of images.

    Files are told apart by their suffixes; folders and patterns with images among their files are
    those of images. An address is a video unless it ends as an image does.

    Args:
        arguments: Files, folders, patterns, cameras such as /dev/video0, and addresses.
        recursive: Whether to take the files of folders' subfolders, too.

    Raises:
        InvalidArgumentError: Videos and images are named together.
        OSError: A folder that cannot be read.
    """
    found = [(argument, _find_videos(argument, recursive)) for argument in arguments]
    videos = [video for _, each in found for video in each]
    images = [argument for argument, each in found if not each]
    if videos and images:
        expand_images(images[:1], recursive=recursive)  # raises where it is nothing at all
        raise InvalidArgumentError(
            f"{videos[0].name} is a video and {images[0]} is not: give videos and images to "
            "separate commands"
        )
    return videos


def _find_videos(argument: str, recursive: bool) -> list[VideoInput]:
    if is_address(argument) or argument.lower().startswith(("rtsp://", "rtsps://")):
        from endcap.video.source import hide_password

        is_image = urllib.parse.urlsplit(argument).path.lower().endswith(IMAGE_SUFFIXES)
        return [] if is_image else [VideoInput(hide_password(argument), argument)]
    if _CAMERA.fullmatch(argument) and Path(argument).exists():
        return [VideoInput(argument, argument)]
    files = _find_files(argument, recursive)
    if any(_is_image(path) for path in files):
        return []
    return [VideoInput(str(path), str(path), path) for path in files if _is_video(path)]


def _find_files(argument: str, recursive: bool) -> list[Path]:
    """Return the regular files that an argument names, sorted."""
    if os.path.isdir(argument):
        found = []
        for folder, _, names in os.walk(argument, onerror=_raise):
            found += [Path(folder, name) for name in names]
            if not recursive:
                break
    elif os.path.exists(argument):
        found = [Path(argument)]
    else:
        found = list(map(Path, glob.glob(argument, recursive=True)))
    return sorted(path for path in found if path.is_file())


def _expand(argument: str, recursive: bool) -> list[Path]:
    if not argument:
        raise InvalidArgumentError("an image argument is empty: give a file, a folder or a pattern")
    files = _find_files(argument, recursive)
    images = [path for path in files if not _is_video(path)]
    if os.path.isdir(argument):
        images = [path for path in images if _is_image(path)]
    if not images:
        raise InvalidArgumentError(_why_no_image(argument, files))
    if skipped := list(map(str, sorted({*files} - {*images}))):
        more = len(skipped) - _MAX_NAMES_SHOWN
        say(
            f"endcap: skipped {count(len(skipped), 'file')} of {argument}: "
            f"{', '.join(skipped[:_MAX_NAMES_SHOWN])}{f' and {more} more' if more > 0 else ''}"
        )
    return images


def _why_no_image(argument: str, files: Sequence[Path]) -> str:
    videos = sum(map(_is_video, files))
    if os.path.isdir(argument):
        has_folders = any(path.is_dir() for path in Path(argument).iterdir())
        return (
            f"folder {argument} holds no image (no file that ends in {', '.join(IMAGE_SUFFIXES)})"
            f"{'; --recursive includes its subfolders' if has_folders else ''}"
            f"{f'; {videos} of its files are videos, and {_FRAMES_ADVICE}' if videos else ''}"
        )
    if videos:
        return f"image {argument} is a video by its name; {_FRAMES_ADVICE}"
    if os.path.exists(argument):
        return f"image {argument} is a pipe or a device: give a file"
    if "://" in argument:
        return (
            f"image {argument} is an address: download it, for example with `curl -O`, and give "
            "the file"
        )
    if glob.has_magic(argument):
        return f"image {argument} does not exist, and as a pattern matches no file"
    return f"image {argument} does not exist; check the path"


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in IMAGE_SUFFIXES


def _is_video(path: Path) -> bool:
    return path.suffix.lower() in VIDEO_SUFFIXES


def _raise(error: OSError) -> None:
    raise error
