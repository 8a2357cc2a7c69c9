"""Downloads of images from http:// and https:// addresses."""

from __future__ import annotations

import contextlib
import http.client
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPResponse
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError, URLError

from endcap import __version__
from endcap._files import whole_file
from endcap.client.errors import RequestError
from endcap.errors import InvalidArgumentError

MAX_BYTES = 64 << 20  # the default of `max_bytes`, beyond which the server rejects a file
_MAX_HEAD_S = 5.0
_MAX_NAME_BYTES = 100
_CHUNK_BYTES = 1 << 16
_URL_CHARACTERS = "/%:@!$&'()*+,;=-._~?#[]"  # left unmodified, RFC 3986
FRAMES_ADVICE = (
    "a video is read by `endcap infer` alone: take frames out of it first, for example with "
    "`ffmpeg -i IN frame_%06d.jpg`"
)


def check_address(url: str) -> None:
    """Raise InvalidArgumentError for an address that cannot be downloaded from."""
    try:
        parts = urllib.parse.urlsplit(url)
        is_complete = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError as error:
        raise InvalidArgumentError(f"address {url!r} is malformed ({error})") from error
    if parts.scheme not in ("http", "https") or not is_complete:
        raise InvalidArgumentError(f"address {url!r} is not http://HOST/PATH or https://HOST/PATH")
    if parts.username is not None or parts.password is not None:
        raise InvalidArgumentError(
            f"the address of {parts.hostname} holds a user name or password, which reports would "
            "show; download it yourself, and give the file"
        )


def file_name(url: str, *, default: str = "image") -> str:
    """Return a name for the file of an address, from the last part of its path.

    It has no slashes, control characters or leading dots, and at most 100 bytes; it is `default`
    where nothing is left.
    """
    last = urllib.parse.urlsplit(url).path.rstrip("/").rpartition("/")[2]
    name = "".join(
        c if c.isprintable() and c not in '/\\:*?"<>|' else "_" for c in urllib.parse.unquote(last)
    ).strip(" .")
    path = Path(name or default)
    stem, suffix = (path.stem, path.suffix) if len(path.suffix) <= 8 else (path.name, "")
    while len(f"{stem}{suffix}".encode()) > _MAX_NAME_BYTES:
        stem = stem[:-1]
    return f"{stem}{suffix}"


def download(
    targets: Mapping[str, Path], *, timeout_s: float, on_end: Callable[[], None]
) -> dict[str, RequestError]:
    """Download the files of addresses; return the error of each that failed.

    Args:
        targets: The file to write for each address; its folder is made.
        timeout_s: For each, its redirects included.
        on_end: Called after each.
    """
    failures: dict[str, RequestError] = {}
    for url, target in targets.items():
        try:
            target.parent.mkdir(exist_ok=True)
            with whole_file(target, follow_links=False) as file, _open(url, timeout_s) as response:
                _copy(response, file, timeout_s)
        except RequestError as error:
            failures[url] = error
        on_end()
    return failures


def content_type(url: str, *, timeout_s: float) -> str:
    """Return the type that the server of an address gives, "" where it gives none."""
    try:
        with _open(url, min(timeout_s, _MAX_HEAD_S), "HEAD") as response:
            return response.headers.get_content_type() if response.headers["Content-Type"] else ""
    except RequestError:
        return ""  # the download says why


def _copy(response: HTTPResponse, file: IO[bytes], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    kind = response.headers.get_content_type() if response.headers["Content-Type"] else ""
    if kind.startswith(("text/", "video/", "audio/")):
        advice = FRAMES_ADVICE if kind.startswith("video/") else "give the address of the image"
        raise RequestError("unsupported", f"the address has {kind}, not an image; {advice}")
    size = response.length or 0
    while size <= MAX_BYTES and (chunk := response.read1(_CHUNK_BYTES)):
        size = max(response.length or 0, file.tell() + len(chunk))
        file.write(chunk)
        if time.monotonic() > deadline:
            raise TimeoutError
    if size > MAX_BYTES:
        raise RequestError("image_limit", f"larger than {MAX_BYTES >> 20} MiB; give it as a file")
    if response.length:
        raise RequestError("unreadable", "the connection ended before the whole response")


class _Redirects(urllib.request.HTTPRedirectHandler):
    max_redirections = 5

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        fp.close()
        try:
            check_address(newurl)
        except InvalidArgumentError as error:
            raise RequestError("unreadable", f"redirects: {error}") from error
        if req.type == "https" and newurl.startswith("http:"):
            raise RequestError("unreadable", f"redirects from https to {newurl}, without TLS")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


@contextlib.contextmanager
def _open(url: str, timeout_s: float, method: str = "GET") -> Iterator[HTTPResponse]:
    """Yield the response of status 200; what fails in the block is a RequestError."""
    request = urllib.request.Request(
        urllib.parse.quote(url, safe=_URL_CHARACTERS),
        headers={"User-Agent": f"endcap/{__version__}", "Accept": "image/*"},
        method=method,
    )
    try:
        with urllib.request.build_opener(_Redirects).open(request, timeout=timeout_s) as response:
            yield response
    except HTTPError as error:
        error.close()
        raise RequestError("unreadable", f"HTTP status {error.code}: {error.reason}") from error
    except (URLError, TimeoutError, http.client.HTTPException, ConnectionError) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, TimeoutError):
            message = f"no whole response within {timeout_s:g} s, the limit of --timeout"
            raise RequestError("timeout", message) from error
        raise RequestError("unreadable", f"{type(reason).__name__}: {reason}") from error
