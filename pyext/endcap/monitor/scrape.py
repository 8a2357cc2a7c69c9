"""One look at a server's metrics."""

from __future__ import annotations

import http.client
import importlib
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from endcap.monitor.errors import MetricsError

if TYPE_CHECKING:
    from prometheus_client import Metric

_MOST_BYTES = 16 << 20
_ADVICE = "give the address of the server's metrics (Triton has them at port 8002 by default)"
# Metrics are read from where the user says, not through the proxy for other traffic.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


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

    Raises MetricsError when nothing answers there in time, or something else than metrics.
    """
    try:
        with _OPENER.open(url, timeout=timeout_s) as answer:
            body = answer.read(_MOST_BYTES + 1)
    except urllib.error.HTTPError as error:
        error.close()  # it holds the connection
        raise MetricsError(f"{url} answers {error.code} {error.reason}; {_ADVICE}") from error
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
    """Reads Prometheus' text format. Raises ValueError for a text in another."""
    from prometheus_client.parser import text_string_to_metric_families

    families = list(text_string_to_metric_families(text))
    return Scrape(at_s, _samples(families, "counter"), _samples(families, "gauge"))


def _samples(families: Iterable[Metric], kind: str) -> list[Sample]:
    return [
        Sample(family.name, each.labels, float(each.value))
        for family in families
        if family.type == kind
        for each in family.samples
    ]


def _reason(error: OSError) -> str:
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, TimeoutError):
        return "no answer in time"
    return str(getattr(cause, "strerror", None) or cause)
