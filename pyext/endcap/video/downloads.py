"""Videos at http:// and https:// URLs of clients, read as files.

FFmpeg opens no connection: it reads from a file object, whose bytes come over a connection to an
address that was checked, and redirects are checked like the URL itself.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import io
import socket
import ssl
import tempfile
import urllib.parse

from endcap import __version__
from endcap.errors import EndcapError, ImageLimitError, InvalidArgumentError
from endcap.triton.url_patterns import Url, redirected
from endcap.video.addresses import UrlRules

_REDIRECTS = (301, 302, 303, 307, 308)
_MOST_REDIRECTS = 5
_PART = 1 << 18
_MOST_MEMORY_BYTES = 8 << 20  # more of a file lies on disk


class DownloadedFile(io.RawIOBase):
    """The file at a URL, read as far as it is needed, and kept for the time that it is open.

    Args:
        url: Where it is.
        rules: Which URLs may be opened; redirects, too.
        max_bytes: A larger file is refused, as soon as that is known.
        timeout_s: The longest silence of the server.
    """

    def __init__(self, url: Url, rules: UrlRules, *, max_bytes: int, timeout_s: float) -> None:
        super().__init__()
        self.name = str(url)
        self._url = url
        self._rules = rules
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s
        self._is_aborted = False
        self.error: EndcapError | None = None  # why it could not be read to its end
        self._position = 0
        self._kept = tempfile.SpooledTemporaryFile(max_size=_MOST_MEMORY_BYTES)  # noqa: SIM115
        self._kept_bytes = 0
        self._size: int | None = None  # as the server says
        self._ended = False
        self._socket: socket.socket | None = None
        self._response: http.client.HTTPResponse | None = None

    def request(self) -> None:
        """Request the file, before it is read.

        Raises:
            InvalidArgumentError: The URL is not allowed or leads nowhere.
            ImageLimitError: The file is too large.
        """
        self._response = self._follow()
        self._size = self._response.length
        if self._size is not None and self._size > self._max_bytes:
            raise self._too_large()

    def abort(self) -> None:
        """End a read, which then raises, in another thread."""
        self._is_aborted = True
        connected = self._socket
        if connected is not None:
            with contextlib.suppress(OSError):
                connected.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection, and forget the file."""
        if not self.closed:
            self.abort()
            if self._response is not None:
                self._response.close()
            if self._socket is not None:
                self._socket.close()
            self._kept.close()
        super().close()

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return whether the end is known; streams without an end are read forwards."""
        return self._size is not None

    def tell(self) -> int:
        """Return the position of the next byte that is read."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a position."""
        if self._size is None:
            raise io.UnsupportedOperation("the server has not said how long the file is")
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}
        if start[whence] + offset < 0:
            raise ValueError("a position before the beginning of the file")
        self._position = start[whence] + offset
        return self._position

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Read into a buffer; wait for the bytes that have not come yet."""
        view = memoryview(buffer).cast("B")
        while self._kept_bytes < self._position + len(view) and self._take_part():
            pass
        self._kept.seek(self._position)
        content = self._kept.read(len(view))
        view[: len(content)] = content
        self._position += len(content)
        return len(content)

    def _take_part(self) -> bool:
        """Keep the next part; return False where there is none."""
        if self._ended or self._response is None:
            return False
        try:
            content = self._receive(self._response)
        except EndcapError as error:
            self.error = self.error or error.with_traceback(None)
            raise
        if not content:
            self._ended = True
            return False
        self._kept.seek(0, io.SEEK_END)
        self._kept.write(content)
        self._kept_bytes += len(content)
        return True

    def _receive(self, response: http.client.HTTPResponse) -> bytes:
        self._check_aborted()
        try:
            content = response.read1(_PART)
        except (OSError, http.client.HTTPException) as error:
            raise InvalidArgumentError(f"{self.name} broke off: {_reason(error)}") from error
        size = self._kept_bytes + len(content)
        if not content and self._size is not None and size < self._size:
            raise InvalidArgumentError(f"{self.name} broke off after {size} of {self._size} bytes")
        if size > self._max_bytes:
            raise self._too_large()
        return content

    def _follow(self) -> http.client.HTTPResponse:
        """Request the URL, and those that the responses redirect to."""
        url = self._url
        for _ in range(_MOST_REDIRECTS + 1):
            if url.scheme not in ("http", "https"):
                raise InvalidArgumentError(f"{self.name} leads to a URL of {url.scheme}")
            response = self._send(url)
            location = response.headers.get("Location")
            if response.status not in _REDIRECTS or location is None:
                if response.status == 200:
                    return response
                raise InvalidArgumentError(f"{url}: the server responded with {response.status}")
            response.close()
            url = redirected(url, location)
        raise InvalidArgumentError(f"{self.name} leads from one URL to the next, without an end")

    def _send(self, url: Url) -> http.client.HTTPResponse:
        """Send the request for one URL, and return the response's head."""
        self._check_aborted()
        if self._socket is not None:
            self._socket.close()
        addresses = self._rules.addresses(url)
        self._socket = connect(url, addresses, self._timeout_s, with_tls=url.scheme == "https")
        self._check_aborted()
        connection = http.client.HTTPConnection(url.host, url.port)
        connection.sock = self._socket
        headers = {
            "Host": url.authority,
            "User-Agent": f"endcap/{__version__}",
            "Accept-Encoding": "identity",
            "Connection": "close",
        }
        if url.user is not None:
            user = urllib.parse.unquote_to_bytes(url.user)
            headers["Authorization"] = f"Basic {base64.b64encode(user).decode()}"
        try:
            connection.request("GET", url.target, headers=headers)
            return connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise InvalidArgumentError(f"{url} cannot be read: {_reason(error)}") from error

    def _check_aborted(self) -> None:
        if self._is_aborted:
            raise InvalidArgumentError(f"reading {self.name} was given up")

    def _too_large(self) -> ImageLimitError:
        return ImageLimitError(
            f"{self.name} has more than {self._max_bytes} bytes, the limit of the parameter "
            "max_file_bytes"
        )


def connect(url: Url, addresses: list[str], timeout_s: float, *, with_tls: bool) -> socket.socket:
    """Return a connection to one of the addresses, which are not looked up again.

    Its certificate has to be that of the URL's host.

    Raises:
        InvalidArgumentError: No connection comes about.
    """
    failure: OSError | None = None
    for address in addresses:
        try:
            raw = socket.create_connection((address, url.port), timeout_s)
        except OSError as error:
            failure = error
            continue
        if not with_tls:
            return raw
        try:
            return ssl.create_default_context().wrap_socket(raw, server_hostname=url.host)
        except OSError as error:
            raw.close()
            failure = error
    raise InvalidArgumentError(f"{url} cannot be reached: {_reason(failure)}")


def _reason(error: BaseException | None) -> str:
    strerror = getattr(error, "strerror", None)
    return strerror or str(error) or type(error).__name__
