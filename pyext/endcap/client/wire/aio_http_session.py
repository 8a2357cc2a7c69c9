"""HTTP connections that the tasks of an event loop share."""

from __future__ import annotations

import asyncio
import importlib
import io
import os
from typing import Any

from endcap.client.address import Address
from endcap.client.errors import ClientError
from endcap.client.options import ConnectionOptions, Tls
from endcap.client.wire.exchange import HttpAnswer, HttpQuestion
from endcap.client.wire.forks import check_process
from endcap.client.wire.http_bodies import check_size
from endcap.client.wire.tls import ssl_context
from endcap.client.wire.translate import broken, closed, cut_short, from_os_error, not_triton

_LARGE_BYTES = 1 << 20  # aiohttp warns of larger bodies that are bytes


class AioHttpSession:
    """As many connections to one server as there are requests at once.

    The first request opens them, in whose event loop and process they stay.
    """

    def __init__(self, address: Address, options: ConnectionOptions) -> None:
        self._aiohttp: Any = _import("aiohttp")
        self._url: Any = _import("yarl").URL
        self._origin = f"{'https' if address.secure else 'http'}://{address.authority}"
        self._headers = dict(options.headers)
        self._context = ssl_context(options.tls or Tls()) if address.secure else None
        self._session: Any = None
        self._process = 0  # which has opened it
        self._closed = False

    async def send(self, question: HttpQuestion, timeout_s: float) -> HttpAnswer:
        """Returns the response of any status; RequestError or TimeoutError where none comes.

        A task that is cancelled here drops its connection.
        """
        if self._closed:
            raise closed()
        if timeout_s <= 0:  # of which aiohttp would make no limit at all
            raise TimeoutError
        session = self._opened()
        try:
            return await self._exchange(session, question, timeout_s)
        except asyncio.TimeoutError as error:  # before Python 3.11 not the built-in one
            raise TimeoutError from error
        except (OSError, self._aiohttp.ClientError) as error:
            if self._closed:
                raise closed() from error
            if isinstance(error, OSError):
                raise from_os_error(_reason(error)) from error
            if isinstance(error, self._aiohttp.ClientResponseError):
                raise not_triton("http") from error
            raise broken(str(error)) from error

    async def close(self) -> None:
        """Closes the connections; requests in flight end as cancelled."""
        self._closed = True
        if self._session is not None and self._process == os.getpid():
            await self._session.close()

    async def _exchange(self, session: Any, question: HttpQuestion, timeout_s: float) -> HttpAnswer:
        large = len(question.body) > _LARGE_BYTES
        async with session.request(
            question.method,
            self._url(self._origin + question.path, encoded=True),
            data=io.BytesIO(question.body) if large else question.body or None,
            headers={**self._headers, **question.headers},
            timeout=self._aiohttp.ClientTimeout(total=timeout_s),
            allow_redirects=False,
        ) as response:
            fields = {name.lower(): value for name, value in response.headers.items()}
            try:
                return HttpAnswer(response.status, fields, await _body(response))
            except (ConnectionError, self._aiohttp.ClientError) as error:
                raise (closed() if self._closed else cut_short()) from error

    def _opened(self) -> Any:
        if self._session is None:
            self._process = os.getpid()
            tls = {} if self._context is None else {"ssl": self._context}
            self._session = self._aiohttp.ClientSession(
                connector=self._aiohttp.TCPConnector(limit=0, **tls),
                cookie_jar=self._aiohttp.DummyCookieJar(),
                auto_decompress=False,
                # What aiohttp says of itself there makes Triton compress every answer.
                skip_auto_headers=["Accept-Encoding"],
            )
        check_process(self._process)
        return self._session


async def _body(response: Any) -> bytes:
    check_size(response.content_length or 0)
    parts: list[bytes] = []
    byte_size = 0
    async for part in response.content.iter_any():
        parts.append(part)
        byte_size += len(part)
        check_size(byte_size)
    return b"".join(parts)


def _reason(error: OSError) -> OSError:
    """Returns what the system said, which aiohttp's own errors wrap in one way or the other."""
    wrapped = getattr(error, "os_error", error.__cause__)
    return wrapped if isinstance(wrapped, OSError) else error


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ClientError(
            f"asyncio over HTTP needs {name}, which is not installed; "
            "run `pip install 'endcap[client]'`"
        ) from error
