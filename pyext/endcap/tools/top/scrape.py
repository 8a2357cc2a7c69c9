"""One look at a server's metrics."""

from __future__ import annotations

import contextlib
import importlib
import time
import urllib.parse
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from endcap.client import ConnectionOptions, parse_address
from endcap.client.address import Address
from endcap.client.wire.exchange import HttpRequest
from endcap.errors import EndcapError
from endcap.tools.top.errors import MetricsError

if TYPE_CHECKING:
    from prometheus_client import Metric

    from endcap.client._sync.http_transport import HttpTransport

_MOST_BYTES = 16 << 20
_MOST_LINES = 100_000
_GREATEST = 1e30  # sums and rates of such values are finite
_ADVICE = "give the address of the server's metrics (Triton has them at port 8002 by default)"


@dataclass(frozen=True)
class Sample:
    """One value of one metric. name: of a counter without the `_total` at its end."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True)
class Scrape:
    """All counters and gauges of a server at one time.

    Attributes:
        at_s: Of a clock that only goes forward, seconds.
    """

    at_s: float
    counters: list[Sample]
    gauges: list[Sample]


def scrape(url: str, *, timeout_s: float = 5.0) -> Scrape:
    """Read the metrics at `url`, as http://127.0.0.1:8002/metrics.

    Args:
        timeout_s: For the whole response, but for the look-up of the host's name. Raises
            MetricsError when nothing answers there in time, or something else than metrics.
    """
    try:
        address, path = _parse_url(url)
        with contextlib.closing(_open(address)) as connection:
            response = connection.send(HttpRequest("GET", path), timeout_s)
    except TimeoutError as error:
        raise MetricsError(f"no metrics at {url} (no answer in time); {_ADVICE}") from error
    except (EndcapError, OSError) as error:
        raise MetricsError(f"no metrics at {url} ({error}); {_ADVICE}") from error
    at_s = time.monotonic()
    if "location" in response.headers:
        raise MetricsError(f"{url} redirects to {response.headers['location']}; give that address")
    if response.status != 200:
        raise MetricsError(f"{url} answers with HTTP status {response.status}; {_ADVICE}")
    body = response.body
    if body.count(b"\n") > _MOST_LINES:
        raise MetricsError(
            f"{url} answers more than {_MOST_LINES:,} lines, as no metrics do; {_ADVICE}"
        )
    try:
        return parse_metrics(body.decode(), at_s)
    except ValueError as error:
        raise MetricsError(
            f"what {url} answers is not in Prometheus' text format; {_ADVICE}"
        ) from error


def check_parser() -> None:
    """Raise MetricsError where what reads metrics is not installed."""
    try:
        importlib.import_module("prometheus_client.parser")
    except ImportError as error:
        raise MetricsError(
            f"reading metrics needs prometheus-client, which is not installed ({error}); run "
            "`pip install 'endcap[client]'`"
        ) from error


def parse_metrics(text: str, at_s: float) -> Scrape:
    """Read Prometheus' text format; values that are no finite numbers are left out.

    Raises:
        ValueError: For a text in another format.
    """
    from prometheus_client.parser import text_string_to_metric_families

    families = list(text_string_to_metric_families(text))
    return Scrape(at_s, _samples(families, "counter"), _samples(families, "gauge"))


def _samples(families: Iterable[Metric], kind: str) -> list[Sample]:
    return [
        Sample(family.name, each.labels, float(each.value))
        for family in families
        if family.type == kind
        for each in family.samples
        if abs(each.value) <= _GREATEST
    ]


def _parse_url(url: str) -> tuple[Address, str]:
    parts = urllib.parse.urlsplit(url)
    path = urllib.parse.quote(parts.path or "/", safe="/%")
    query = f"?{urllib.parse.quote(parts.query, safe='=&%')}" if parts.query else ""
    return parse_address(f"{parts.scheme}://{parts.netloc}", "http"), path + query


def _open(address: Address) -> HttpTransport:
    try:
        from endcap.client._sync.http_transport import HttpTransport
    except ImportError as error:
        raise MetricsError(
            f"reading metrics needs httpcore ({error}); run `pip install 'endcap[client]'`"
        ) from error
    return HttpTransport(address, ConnectionOptions(), _MOST_BYTES)
