"""Where conda packages come from: names, addresses and folders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from endcap.errors import InvalidArgumentError

SUBDIR = "linux-64"


def resolve_channels(channels: Sequence[str], *, offline: bool) -> list[str]:
    """Return the channels as py-rattler takes them; folders as absolute paths.

    A path is a folder when it is there or is written with a slash. Raises InvalidArgumentError for
    a folder that is no channel and, offline, for what is no folder.
    """
    if not channels:
        raise InvalidArgumentError("there is no channel to take packages from; give --channel")
    return [_resolve(channel, offline=offline) for channel in channels]


def _resolve(channel: str, *, offline: bool) -> str:
    folder = folder_of(channel)
    if folder is not None:
        _check_folder(folder)
        return str(folder.resolve())
    if offline:
        raise InvalidArgumentError(
            f"channel '{channel}' is no folder, and --offline asks nothing else; "
            "give a folder by --channel PATH, or leave --offline out"
        )
    return channel


def folder_of(channel: str) -> Path | None:
    """Return the folder that a channel is, None for a name or an address."""
    address = urlsplit(channel)
    if address.scheme == "file":
        return Path(unquote(address.path))
    if address.scheme:
        return None
    path = Path(channel)
    return path if path.is_dir() or channel.startswith((".", "/", "~")) else None


def _check_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise InvalidArgumentError(
            f"channel {folder} is not there; give a folder that is a channel"
        )
    if not any((folder / part / "repodata.json").is_file() for part in ("noarch", SUBDIR)):
        raise InvalidArgumentError(
            f"folder {folder} is no channel (it has neither noarch/repodata.json nor "
            f"{SUBDIR}/repodata.json); `conda index` makes them, or `rattler-index fs`"
        )
