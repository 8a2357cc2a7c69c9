"""Images as arguments of commands: files, folders, glob patterns and addresses."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import glob
import os
import stat
import tempfile
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from endcap._images import IMAGE_SUFFIXES, is_address
from endcap.cli.console import count, progress_bar, say
from endcap.cli.downloads import FRAMES_ADVICE, check_address, download, file_name
from endcap.client.errors import RequestError
from endcap.detections import ImageResult, Task
from endcap.errors import InvalidArgumentError

VIDEO_SUFFIXES = (".avi", ".flv", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".webm", ".wmv")
_FORMATS = (
    "JPEG, PNG and WebP are read, and BMP and GIF where the model's parameter `formats` has them"
)
# Statuses of a file that may be no image.
_MAY_BE_NONE = ("corrupt_image", "unsupported")
_NAMES_SHOWN = 5


def expand_images(arguments: Iterable[str], *, recursive: bool = False) -> list[Path]:
    """Return the files that files, folders and glob patterns name, in that order.

    The files of a folder that are left out are counted and named on standard error, and so are the
    videos of a pattern.

    Args:
        arguments: A folder stands for its files of an image format that can be decoded, by their
            suffix, sorted by name.
        recursive: Whether to take those of its subfolders, too; links are not followed.

    Raises:
        InvalidArgumentError: For an argument that names no file, or a video.
        OSError: For a folder that cannot be read.
    """
    return [path for argument in arguments for path in _expand(argument, recursive)]


class ImageInputs:
    """The images of a command, those of http:// and https:// addresses among them.

    Attributes:
        names: Of the images in order, as reports have them: paths, and addresses as given.
        files: By address the file that it is downloaded to.
        folder: The folder that all of them lie in, those of addresses left out; None without any.
        failures: By address why it could not be downloaded.
    """

    def __init__(
        self, names: Sequence[str], files: Mapping[str, Path], folder: Path | None = None
    ) -> None:
        self.names = list(names)
        self.folder = folder
        self.files = dict(files)
        self.failures: dict[str, RequestError] = {}
        self._addresses = {str(path): url for url, path in files.items()}

    def __len__(self) -> int:
        return len(self.names)

    @property
    def paths(self) -> list[Path]:
        """The files of all images; those of addresses are there after `download`."""
        return self._paths_of(self.names)

    @property
    def readable(self) -> list[Path]:
        """The files, without those of addresses that could not be downloaded."""
        return self._paths_of(name for name in self.names if name not in self.failures)

    def download(self, *, timeout_s: float) -> None:
        """Download the files of the addresses, with a progress bar; fill `failures`."""
        if self.files:
            with progress_bar("downloads", len(self.files)) as advance:
                self.failures = download(self.files, timeout_s=timeout_s, on_end=advance)

    def named(self, result: ImageResult) -> ImageResult:
        """Return the result of a downloaded file as that of its address."""
        url = self._addresses.get(result.image)
        return result if url is None else dataclasses.replace(result, image=url)

    def in_order(self, results: Iterable[ImageResult], task: Task) -> list[ImageResult]:
        """Return named results in the order of the images, and those of failed downloads."""
        waiting: defaultdict[str, deque[ImageResult]] = defaultdict(deque)
        for result in results:
            waiting[result.image].append(result)
        ordered = []
        for name in self.names:
            error = self.failures.get(name)
            if error is not None:
                ordered.append(ImageResult(name, error.status_name, error=str(error), task=task))
            elif waiting[name]:
                ordered.append(waiting[name].popleft())
        return ordered

    def _paths_of(self, names: Iterable[str]) -> list[Path]:
        return [self.files.get(name, Path(name)) for name in names]


@contextlib.contextmanager
def image_inputs(arguments: Sequence[str], *, recursive: bool = False) -> Iterator[ImageInputs]:
    """Yield the images that arguments name; files of addresses are gone after the block.

    Args:
        arguments: As for `expand_images`, and addresses.
        recursive: As for `expand_images`.

    Raises:
        InvalidArgumentError: For an argument that names no file, a video, or an address that
            cannot be downloaded from.
        OSError: For a folder that cannot be read.
    """
    names: list[str] = []
    folders: set[str] = set()
    for argument in arguments:
        if is_address(argument):
            check_address(argument)
            names.append(argument)
        else:
            paths = _expand(argument, recursive)
            names += map(str, paths)
            given = [argument] if os.path.isdir(argument) else [path.parent for path in paths]
            folders.update(map(os.path.abspath, given))
    addresses = [*dict.fromkeys(filter(is_address, names))]
    with contextlib.ExitStack() as resources:
        folder = Path()
        if addresses:
            folder = Path(
                resources.enter_context(
                    tempfile.TemporaryDirectory(prefix="endcap-", ignore_cleanup_errors=True)
                )
            )
        files = {url: folder / str(n) / file_name(url) for n, url in enumerate(addresses, start=1)}
        yield ImageInputs(names, files, Path(os.path.commonpath(folders)) if folders else None)


def describe_no_images(results: Iterable[ImageResult]) -> str | None:
    """Return a message about failed files whose names are not those of images, None without any."""
    others = [
        result.image
        for result in results
        if result.status in _MAY_BE_NONE
        and not is_address(result.image)
        and not result.image.lower().endswith(IMAGE_SUFFIXES)
    ]
    if not others:
        return None
    which = f"{others[0]} seems" if len(others) == 1 else f"{len(others)} files seem"
    return f"{which} to be of another type than an image's: {_FORMATS}"


def _expand(argument: str, recursive: bool) -> list[Path]:
    if not argument:
        raise InvalidArgumentError("an image argument is empty: give a file, a folder or a pattern")
    scheme, separator, rest = argument.partition("://")
    if separator and scheme.isalnum() and not os.path.exists(argument):
        advice = f"give the path {rest}" if scheme == "file" else "download it, and give the file"
        raise InvalidArgumentError(
            f"image {argument} has the scheme {scheme}; of addresses http:// and https:// are "
            f"read: {advice}"
        )
    path = Path(argument)
    mode = _mode(argument)
    if mode is None:
        return _matches(argument)
    if stat.S_ISDIR(mode):
        return _images_in(path, recursive)
    if not stat.S_ISREG(mode):
        raise InvalidArgumentError(f"image {argument} is a pipe or a device: give a file")
    if _is_video(path):
        raise InvalidArgumentError(f"image {argument} is a video by its name; {FRAMES_ADVICE}")
    return [path]


def _mode(argument: str) -> int | None:
    """Return the kind of a file; None where there is none.

    Raises:
        InvalidArgumentError: For one that cannot be looked at.
    """
    try:
        return os.stat(argument).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:  # ValueError: a zero byte
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidArgumentError(
            f"image {argument} cannot be read: {reason}; check the path and its permissions"
        ) from error


def _matches(pattern: str) -> list[Path]:
    """Return the files that a pattern matches, without videos. Raises InvalidArgumentError."""
    found = sorted(map(Path, glob.glob(pattern, recursive=True)))
    files = [path for path in found if path.is_file()]
    if not files:
        raise InvalidArgumentError(
            _why_missing(pattern, folders=sum(path.is_dir() for path in found))
        )
    images = [path for path in files if not _is_video(path)]
    if not images:
        raise InvalidArgumentError(f"pattern {pattern} matches videos only; {FRAMES_ADVICE}")
    videos = [path for path in files if _is_video(path)]
    _name_skipped(f"{count(len(videos), 'video')} that {pattern} matches", map(str, videos))
    return images


def _why_missing(argument: str, *, folders: int) -> str:
    if folders:
        return f"pattern {argument} matches no file, only {count(folders, 'folder')}: give these"
    if glob.has_magic(argument):
        return f"image {argument} does not exist, and as a pattern matches no file"
    if os.path.islink(argument):
        return f"image {argument} does not exist: it is a link to {os.readlink(argument)}"
    path = Path(argument)
    if not path.parent.is_dir():
        return f"image {argument} does not exist: there is no folder {path.parent}"
    with contextlib.suppress(OSError):
        similar = difflib.get_close_matches(path.name, os.listdir(path.parent), n=1)
        if similar:
            return f"image {argument} does not exist; did you mean {path.with_name(similar[0])}?"
    return f"image {argument} does not exist; check the path"


def _images_in(folder: Path, recursive: bool) -> list[Path]:
    images: list[Path] = []
    others: list[Path] = []
    below = False
    for parent, folders, names in os.walk(folder, onerror=_raise):
        for name in names:
            path = Path(parent, name)
            is_image = name.lower().endswith(IMAGE_SUFFIXES) and path.is_file()
            (images if is_image else others).append(path)
        if not recursive:
            below = bool(folders)
            break
    if not images:
        videos = sum(map(_is_video, others))
        advice = "; --recursive includes its subfolders" if below else ""
        advice += f"; it holds {count(videos, 'video')}, and {FRAMES_ADVICE}" if videos else ""
        raise InvalidArgumentError(
            f"folder {folder} holds no image (no file that ends in "
            f"{', '.join(IMAGE_SUFFIXES)}){advice}"
        )
    _name_skipped(
        f"{count(len(others), 'file')} in {folder}, which end in none of "
        f"{', '.join(IMAGE_SUFFIXES)}",
        (str(path.relative_to(folder)) for path in sorted(others)),
    )
    return sorted(images)


def _is_video(path: Path) -> bool:
    return path.suffix.lower() in VIDEO_SUFFIXES


def _name_skipped(what: str, names: Iterable[str]) -> None:
    skipped = list(names)
    if not skipped:
        return
    shown = ", ".join(skipped[:_NAMES_SHOWN])
    more = f" and {len(skipped) - _NAMES_SHOWN} more" if len(skipped) > _NAMES_SHOWN else ""
    say(f"endcap: skipped {what}: {shown}{more}")


def _raise(error: OSError) -> NoReturn:
    raise error
