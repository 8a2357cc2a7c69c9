"""Looks at a server's metrics again and again, whatever becomes of the server in between."""

from __future__ import annotations

import contextlib
import re
import urllib.parse
from collections.abc import Collection
from dataclasses import dataclass

from endcap.client import ClientError, Connection, ConnectionOptions
from endcap.client.address import Address, parse_address
from endcap.client.errors import RequestError
from endcap.errors import InvalidArgumentError
from endcap.tools.top import (
    Interval,
    MetricsError,
    Scrape,
    check_parser,
    compare,
    model_names,
    scrape,
)

_DEFAULT_PORT = 8002
_LIVE_WITHIN_S = 2.0


@dataclass(frozen=True)
class Look:
    """What the last look told: an interval, or why there is none; neither of the first.

    Attributes:
        unknown: Which of the models of interest are not there, and which are.
    """

    interval: Interval | None = None
    problem: str | None = None
    unknown: str | None = None


class Watch:
    """What a server does between one look and the next.

    Args:
        url: Where the server takes requests, for its host; metrics_url: where its metrics are, None
            for the usual place.
        models: Those of interest, none for all. Raises InvalidArgumentError for addresses that are
            none, and MetricsError where no metrics can be read because of what is not installed
            here.
    """

    def __init__(self, url: str, metrics_url: str | None, models: Collection[str]) -> None:
        check_parser()
        self._address = parse_address(url)
        self.url = _metrics_url(metrics_url) if metrics_url else _usual_place(self._address)
        self._models = frozenset(models)
        self._before: Scrape | None = None

    def look(self) -> Look:
        """Return what happened since the look before; nothing is raised."""
        before, self._before = self._before, None
        try:
            self._before = now = scrape(self.url)
        except MetricsError as error:
            return Look(problem=f"{error}{self._hint()}")
        unknown = self._unknown(now)
        if before is None:
            return Look(unknown=unknown)
        return Look(compare(before, now, only=self._models), unknown=unknown)

    def _unknown(self, now: Scrape) -> str | None:
        known = model_names(now)
        missing = sorted(self._models - known)
        if not missing:
            return None
        named = " or ".join(repr(name) for name in missing)
        there = f"there are {', '.join(sorted(known))}" if known else "there is none"
        return f"{self.url} has no model {named}; {there}"

    def _hint(self) -> str:
        """What to look at where the server itself is there."""
        try:
            options = ConnectionOptions(timeout_s=_LIVE_WITHIN_S, retries=0)
            with contextlib.closing(Connection(self._address, options)) as connection:
                live = connection.is_live()
        except (RequestError, ClientError):  # it is not there, or not to be asked: no hint
            return ""
        return (
            f". The server at {self._address} is live: it may run without metrics (Triton's "
            "--allow-metrics=false), or have them elsewhere (--metrics-port)"
            if live
            else ""
        )


def _usual_place(address: Address) -> str:
    host = address.authority.rpartition(":")[0]
    return f"http://{host}:{_DEFAULT_PORT}/metrics"


def _metrics_url(text: str) -> str:
    """Complete HOST:PORT to a URL."""
    url = text if re.match(r"https?://", text) else f"http://{text}"
    try:
        parts = urllib.parse.urlsplit(url)
        named = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        named = False
    if not named or " " in url:
        raise InvalidArgumentError(
            f"metrics url {text!r} is not http://HOST:PORT/metrics or HOST:PORT"
        )
    return url if parts.path.strip("/") else f"{url.rstrip('/')}/metrics"
