"""One look at a server's metrics."""

from __future__ import annotations

import functools
import http.client
import importlib
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from endcap.client.wire.http_socket import DeadlineSource, time_left
from endcap.monitor.errors import MetricsError

if TYPE_CHECKING:
    from prometheus_client import Metric

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

    at_s: of a clock that only goes forward, seconds.
    """

    at_s: float
    counters: list[Sample]
    gauges: list[Sample]


def scrape(url: str, *, timeout_s: float = 5.0) -> Scrape:
    """Reads the metrics at `url`, as http://127.0.0.1:8002/metrics.

    timeout_s: for the whole answer, redirects included, but for the look-up of the host's name.
    Raises MetricsError when nothing answers there in time, or something else than metrics.
    """
    # Metrics are read from where the user says, not through the proxy for other traffic.
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), _Handler(time.monotonic() + timeout_s)
    )
    try:
        with opener.open(url, timeout=timeout_s) as answer:
            body = answer.read(_MOST_BYTES + 1)
    except urllib.error.HTTPError as error:
        error.close()  # it holds the connection
        reason = " ".join(str(error.reason).split())
        raise MetricsError(f"{url} answers {error.code} {reason}; {_ADVICE}") from error
    except http.client.HTTPException as error:
        raise MetricsError(
            f"no metrics at {url}: what answers does not speak HTTP; {_ADVICE}"
        ) from error
    except OSError as error:
        raise MetricsError(f"no metrics at {url} ({_reason(error)}); {_ADVICE}") from error
    at_s = time.monotonic()
    if len(body) > _MOST_BYTES:
        raise MetricsError(
            f"{url} answers more than {_MOST_BYTES >> 20} MiB, as no metrics do; {_ADVICE}"
        )
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
    """Raises MetricsError where what reads metrics is not installed."""
    try:
        importlib.import_module("prometheus_client.parser")
    except ImportError as error:
        raise MetricsError(
            f"reading metrics needs prometheus-client, which is not installed ({error}); run "
            "`pip install 'endcap[client]'`"
        ) from error


def parse_metrics(text: str, at_s: float) -> Scrape:
    """Reads Prometheus' text format; values that are no finite numbers are left out.

    Raises ValueError for a text in another format.
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


class _Handler(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    """Opens connections whose answers have to come until `deadline`, of time.monotonic()."""

    def __init__(self, deadline: float) -> None:
        super().__init__()
        self._deadline = deadline

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self._open(http.client.HTTPConnection, req)

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self._open(http.client.HTTPSConnection, req)

    def _open(
        self, kind: type[http.client.HTTPConnection], request: urllib.request.Request
    ) -> http.client.HTTPResponse:
        def connect(host: str, **options: Any) -> http.client.HTTPConnection:
            connection = kind(host, **{**options, "timeout": time_left(self._deadline)})
            connection.response_class = functools.partial(_Response, self._deadline)  # type: ignore[assignment]
            return connection

        return self.do_open(connect, request)


class _Response(http.client.HTTPResponse):
    """An answer each read of which has but the time that is left."""

    def __init__(self, deadline: float, wire: socket.socket, *arguments: Any, **options: Any):
        self._held = wire.makefile("rb", buffering=0)  # urllib closes `wire`, which this keeps open
        source = cast(socket.socket, DeadlineSource(wire, deadline))
        super().__init__(source, *arguments, **options)

    def close(self) -> None:
        super().close()
        self._held.close()


def _reason(error: OSError) -> str:
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, TimeoutError):
        return "no answer in time"
    return str(getattr(cause, "strerror", None) or cause)
