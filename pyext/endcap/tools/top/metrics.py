"""Metrics of a running server in Prometheus' text format: scrape, counters, increases."""

from __future__ import annotations

import contextlib
import importlib
import math
import time
import urllib.parse
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from endcap._system.pip_commands import install_command
from endcap.client import ConnectionOptions, parse_address
from endcap.client.address import Address
from endcap.client.http import HttpRequest
from endcap.errors import EndcapError

if TYPE_CHECKING:
    from prometheus_client import Metric

    from endcap.client._sync.http_transport import HttpTransport

_MOST_BYTES = 16 << 20
_MOST_LINES = 100_000
_GREATEST = 1e30  # sums and rates of such values are finite
_ADVICE = (
    "give the address of the server's metrics by --metrics-url HOST:PORT (`endcap serve` prints "
    "it; Triton has them at port 8002 by default)"
)


class MetricsError(EndcapError, ConnectionError):
    """No metrics could be read from an address; the message says what to do."""


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
        at_s: Seconds of a monotonic clock.
    """

    at_s: float
    counters: list[Sample]
    gauges: list[Sample]


def scrape(url: str, *, timeout_s: float = 5.0) -> Scrape:
    """Return the metrics at an address.

    Args:
        url: Such as http://127.0.0.1:8002/metrics.
        timeout_s: For the whole response, without the lookup of the host's name.

    Raises:
        MetricsError: No response in time, or one that is not Prometheus' text format.
    """
    try:
        address, path = _parse_url(url)
        with contextlib.closing(_open(address)) as connection:
            response = connection.send(HttpRequest("GET", path), timeout_s)
    except TimeoutError as error:
        raise MetricsError(f"no metrics at {url} (no response in time); {_ADVICE}") from error
    except (EndcapError, OSError) as error:
        raise MetricsError(f"no metrics at {url} ({error}); {_ADVICE}") from error
    at_s = time.monotonic()
    if "location" in response.headers:
        raise MetricsError(f"{url} redirects to {response.headers['location']}; give that address")
    if response.status != 200:
        raise MetricsError(f"{url} responds with HTTP status {response.status}; {_ADVICE}")
    body = response.body
    if body.count(b"\n") > _MOST_LINES:
        raise MetricsError(
            f"{url} responds with more than {_MOST_LINES:,} lines, which no metrics have; {_ADVICE}"
        )
    try:
        return parse_metrics(body.decode(), at_s)
    except ValueError as error:
        raise MetricsError(
            f"the response of {url} is not in Prometheus' text format; {_ADVICE}"
        ) from error


def check_parser() -> None:
    """Raise MetricsError where prometheus-client is not installed."""
    try:
        importlib.import_module("prometheus_client.parser")
    except ImportError as error:
        raise MetricsError(
            f"reading metrics needs prometheus-client, which is not installed ({error}); run "
            f"`{install_command('client')}`"
        ) from error


def parse_metrics(text: str, at_s: float) -> Scrape:
    """Return the samples of a text in Prometheus' format, without values that are not finite.

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
            f"reading metrics needs httpcore ({error}); run `{install_command('client')}`"
        ) from error
    return HttpTransport(address, ConnectionOptions(), _MOST_BYTES)


class ModelVersion(NamedTuple):
    """Model and version, from the labels of a metric."""

    model: str
    version: str


class Counter(NamedTuple):
    """A counter of a model; reason: of failures, else empty."""

    name: str
    reason: str = ""


Counts = Mapping[Counter, float]


@dataclass(frozen=True)
class Increase:
    """Increase of a model's counters within `seconds`.

    Attributes:
        restarted: Whether a counter decreased because the server or the model was restarted.
            The increase is not known then, and `added` is empty.
    """

    seconds: float
    added: Counts = field(default_factory=dict)
    restarted: bool = False

    def per_second(self, name: str) -> float | None:
        """Return the rate of a counter, None where the server does not have it."""
        total = self.total(name)
        return total / self.seconds if total is not None else None

    def total(self, name: str) -> float | None:
        """Return the increase of a counter over all reasons, None where there is no counter."""
        counts = [count for counter, count in self.added.items() if counter.name == name]
        return sum(counts) if counts else None

    def by_reason(self, name: str) -> dict[str, float]:
        """Return the rate for each reason, without reasons that did not occur."""
        return {
            counter.reason: count / self.seconds
            for counter, count in sorted(self.added.items())
            if counter.name == name and count > 0
        }

    def mean(self, name: str, per: float | None) -> float | None:
        """Return the increase of a counter divided by `per`; None where that is 0 or unknown."""
        total = self.total(name)
        mean = total / per if total is not None and per else math.nan
        return mean if math.isfinite(mean) else None


def counts_by_model(samples: Iterable[Sample]) -> dict[ModelVersion, dict[Counter, float]]:
    """Return counters or gauges by model, those of a model's GPUs added up."""
    counts: dict[ModelVersion, dict[Counter, float]] = defaultdict(lambda: defaultdict(float))
    for sample in samples:
        if "model" in sample.labels:
            owner = ModelVersion(sample.labels["model"], sample.labels.get("version", ""))
            counts[owner][Counter(sample.name, sample.labels.get("reason", ""))] += sample.value
    return {owner: dict(values) for owner, values in counts.items()}


def increase(before: Counts, now: Counts, seconds: float) -> Increase:
    """Return the increase from `before` to `now`; a new counter began at 0."""
    if any(now.get(counter, 0.0) < count for counter, count in before.items()):
        return Increase(seconds, restarted=True)
    return Increase(seconds, {each: count - before.get(each, 0.0) for each, count in now.items()})
