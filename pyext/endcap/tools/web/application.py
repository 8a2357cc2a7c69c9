"""The page's HTTP interface: static files, samples, and images passed on to Triton."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import importlib.resources
import os
import stat
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from aiohttp import web

from endcap.client import DetectionClient
from endcap.errors import Status
from endcap.tools.web.guard import add_security_headers, guard
from endcap.tools.web.responses import (
    css_color,
    error_response,
    frame_response,
    json_response,
    result_response,
)
from endcap.tools.web.sequences import (
    BusySequenceError,
    SequenceLimits,
    Sequences,
    TooManySequencesError,
)

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler

MAX_BODY_BYTES = 64 << 20  # as the server's own default limit of an encoded image
_RETRY_AFTER_S = 1
# Neither is among the types that a script of another site may send without a CORS preflight.
_CONTENT_TYPES = ("image/jpeg", "application/octet-stream")
_LONGEST_NAME = 255
_STATIC_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, kw_only=True)
class BodyLimits:
    """Limits of the bodies of requests.

    Attributes:
        max_bytes: A larger image gets status 413.
        most: How many are read, or held until Triton has responded, at once.
        wait_s: How long a request waits for its turn before it gets status 503.
        within_s: How long its body may take to arrive before it gets status 408.
    """

    max_bytes: int = MAX_BODY_BYTES
    most: int = 4
    wait_s: float = 10.0
    within_s: float = 30.0


def make_application(
    client: DetectionClient,
    *,
    host: str,
    samples: Sequence[Path] = (),
    limits: BodyLimits | None = None,
    tracking: DetectionClient | None = None,
    sequence_limits: SequenceLimits | None = None,
) -> web.Application:
    """Return the application: `/`, its files, `/labels`, `/samples`, `POST /detect`, `/sequences`.

    A video is `POST /sequences`, which begins a sequence, `POST /sequences/ID` for each frame, and
    `DELETE /sequences/ID`.

    Args:
        client: Sends the images; it stays the caller's to close.
        host: The address that the server will listen on, see `guard`.
        samples: Picture files that the page offers.
        limits: Of the images that are sent.
        tracking: Sends the frames of sequences to a model that tracks, see `open_tracking`; without
            it `client` sends them, and they are tracked here.
        sequence_limits: Of the sequences.
    """
    application = web.Application(middlewares=[guard(host), _add_messages])
    application.on_response_prepare.append(add_security_headers)
    sequences = Sequences(client, tracking, sequence_limits)
    handlers = _Handlers(client, samples, limits or BodyLimits(), sequences)
    application.router.add_post("/detect", handlers.detect)
    application.router.add_post("/sequences", handlers.begin_sequence)
    application.router.add_post("/sequences/{id}", handlers.track)
    application.router.add_delete("/sequences/{id}", handlers.end_sequence)
    application.router.add_get("/labels", handlers.labels)
    application.router.add_get("/samples", handlers.list_samples)
    application.router.add_get("/samples/{name}", handlers.sample)
    application.router.add_get("/", handlers.static)
    application.router.add_get(r"/{name:[^/]+\.[a-z]+}", handlers.static)
    return application


class _Handlers:
    """One method for each route; all state but the sequences is fixed at the start."""

    def __init__(
        self,
        client: DetectionClient,
        samples: Sequence[Path],
        limits: BodyLimits,
        sequences: Sequences,
    ) -> None:
        self._client = client
        self._samples = _name_samples(samples)
        self._limits = limits
        self._sequences = sequences
        self._bodies = asyncio.Semaphore(limits.most)
        self._files: dict[str, StaticFile] = _read_static_files()

    async def detect(self, request: web.Request) -> web.Response:
        """Return the result for the body, an encoded image; `?name=` is its name in the result."""

        async def respond(encoded: bytes) -> web.Response:
            (result,) = await asyncio.to_thread(self._client.detect, [encoded])
            return result_response(dataclasses.replace(result, image=_name_in(request)), encoded)

        return await self._take_image(request, respond)

    async def begin_sequence(self, request: web.Request) -> web.Response:
        """Begin a sequence; return its id, and what tracks it."""
        try:
            sequence_id = self._sequences.begin()
        except TooManySequencesError as error:
            return _busy_response(str(error))
        tracker = self._sequences.tracker
        return json_response({"sequence": sequence_id, "tracker": tracker}, status=201)

    async def track(self, request: web.Request) -> web.Response:
        """Return the result for the next frame of a sequence, as `detect` does, with track ids."""
        sequence = self._sequences.find(request.match_info["id"])
        if sequence is None:
            return _closing_response(
                404, "this sequence has ended, or no frame came for a while; begin another one"
            )

        async def respond(encoded: bytes) -> web.Response:
            try:
                frame = await asyncio.to_thread(sequence.track, encoded)
            except BusySequenceError as error:
                return error_response(409, str(error))
            result = dataclasses.replace(frame.result, image=_name_in(request))
            return frame_response(result, encoded, frame.index)

        return await self._take_image(request, respond)

    async def end_sequence(self, request: web.Request) -> web.Response:
        """End a sequence; one that has ended already may be named, too."""
        self._sequences.end(request.match_info["id"])
        return web.Response(status=204)

    async def _take_image(
        self, request: web.Request, respond: Callable[[bytes], Awaitable[web.Response]]
    ) -> web.Response:
        """Return what `respond` makes of the body, an encoded image within the limits."""
        given = request.headers.get("Content-Type", "none").partition(";")[0].strip().lower()
        if given not in _CONTENT_TYPES:
            return error_response(
                415,
                f"the content type is {given}; send the file with {' or '.join(_CONTENT_TYPES)}",
            )
        if (request.content_length or 0) > self._limits.max_bytes:
            return self._too_large()
        try:
            await asyncio.wait_for(self._bodies.acquire(), self._limits.wait_s)
        except asyncio.TimeoutError:
            return _busy_response(f"{self._limits.most} images are being sent already; try again")
        try:
            return await self._read_image(request, respond)
        finally:
            self._bodies.release()

    async def _read_image(
        self, request: web.Request, respond: Callable[[bytes], Awaitable[web.Response]]
    ) -> web.Response:
        try:
            encoded = await asyncio.wait_for(self._read(request), self._limits.within_s)
        except asyncio.TimeoutError:
            return _closing_response(
                408,
                f"the image has not arrived within {self._limits.within_s:g} seconds; send it "
                "again, or a smaller one",
            )
        if encoded is None:
            return self._too_large()
        return await respond(encoded)

    async def _read(self, request: web.Request) -> bytes | None:
        """Return the body, None where it is too large.

        `request.read` would keep it for as long as the connection is open.
        """
        body = bytearray()
        while chunk := await request.content.readany():
            body += chunk
            if len(body) > self._limits.max_bytes:
                return None
        return bytes(body)

    def _too_large(self) -> web.Response:
        return error_response(
            413,
            f"the image has more than {self._limits.max_bytes} bytes, the limit of this page; send "
            "a smaller one",
            status=Status.IMAGE_LIMIT,
        )

    async def labels(self, request: web.Request) -> web.Response:
        """Return the model, its server, its classes with colours, and the largest image size."""
        labels = self._client.labels or []
        return json_response(
            {
                "model": self._client.model,
                "server": str(self._client.address),
                "max_bytes": self._limits.max_bytes,
                "labels": [
                    {"class_id": class_id, "label": label, "color": css_color(class_id)}
                    for class_id, label in enumerate(labels)
                ],
            }
        )

    async def list_samples(self, request: web.Request) -> web.Response:
        """Return the names of the samples, in their order."""
        return json_response(list(self._samples))

    async def sample(self, request: web.Request) -> web.Response:
        """Return a sample, as it is on disk."""
        path = self._samples.get(request.match_info["name"])
        if path is None:
            raise web.HTTPNotFound
        try:
            content = await asyncio.to_thread(_read_sample, path, self._limits.max_bytes)
        except OSError as error:
            return error_response(
                404, f"the sample {request.match_info['name']} cannot be read: {error.strerror}"
            )
        return web.Response(body=content, content_type=_image_type(content))

    async def static(self, request: web.Request) -> web.Response:
        """Return a file of the page."""
        file = self._files.get(request.match_info.get("name", "index.html"))
        if file is None:
            raise web.HTTPNotFound
        return web.Response(body=file.content, content_type=file.content_type, charset="utf-8")


def _name_in(request: web.Request) -> str:
    return request.query.get("name", "image")[:_LONGEST_NAME]


def _busy_response(message: str) -> web.Response:
    return _closing_response(
        503,
        message,
        status=Status.OUT_OF_MEMORY,
        headers={"Retry-After": str(_RETRY_AFTER_S)},
    )


def _closing_response(
    http_status: int,
    message: str,
    *,
    status: Status = Status.INVALID_ARGUMENT,
    headers: Mapping[str, str] | None = None,
) -> web.Response:
    """Return an error response that closes the connection without reading the rest of the body."""
    response = error_response(http_status, message, status=status, headers=headers)
    response.force_close()
    return response


@web.middleware
async def _add_messages(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPMethodNotAllowed as error:
        allowed = ", ".join(sorted(error.allowed_methods))
        return error_response(
            405,
            f"{request.path} does not take {error.method}; use {allowed}",
            headers={"Allow": allowed},
        )
    except web.HTTPNotFound:
        return error_response(404, f"{request.path} does not exist; the page is at /")


def _name_samples(paths: Iterable[Path]) -> dict[str, Path]:
    """Return the files by unique names: the file's, with a number where two are equal.

    Links are followed here, once: `_read_sample` follows none.
    """
    named: dict[str, Path] = {}
    for path in paths:
        name = path.name
        number = 2
        while name in named:
            name = f"{path.stem}_{number}{path.suffix}"
            number += 1
        named[name] = path.resolve()
    return named


_IMAGE_TYPES = {
    b"\xff\xd8\xff": "image/jpeg",
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"GIF8": "image/gif",
    b"BM": "image/bmp",
}


def _read_sample(path: Path, max_bytes: int) -> bytes:
    """Return the content of a file, which may have been replaced since the start.

    Raises:
        OSError: The file is a link, no regular file, larger than `max_bytes`, or no image.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe is not waited for
    with open(os.open(path, flags), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise OSError(errno.EFBIG, f"it has more than {max_bytes} bytes")
    if _image_type(content) is None:  # where a link leads to, perhaps
        raise OSError(errno.EINVAL, "it is no image")
    return content


def _image_type(content: bytes) -> str | None:
    """Return the content type of an image file by its first bytes, None for another file."""
    for start, content_type in _IMAGE_TYPES.items():
        if content.startswith(start):
            return content_type
    is_webp = content.startswith(b"RIFF") and content[8:12] == b"WEBP"
    return "image/webp" if is_webp else None


class StaticFile(NamedTuple):
    """A file and its content type."""

    content: bytes
    content_type: str


def _read_static_files() -> dict[str, StaticFile]:
    """Return the files of the page by name; index.html is among them."""
    folder = importlib.resources.files("endcap.tools.web") / "static"
    files: dict[str, StaticFile] = {}
    for file in folder.iterdir():
        suffix = "." + file.name.rpartition(".")[2]
        if suffix in _STATIC_TYPES:
            files[file.name] = StaticFile(file.read_bytes(), _STATIC_TYPES[suffix])
    return files
