"""Repeated scrapes of a server's metrics, and their output on a terminal or as JSON."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import json
import os
import re
import select
import socket
import sys
import termios
import time
import tty
import urllib.parse
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from endcap.client import ClientError, Connection, ConnectionOptions
from endcap.client.address import parse_address
from endcap.client.errors import RequestError
from endcap.errors import InvalidArgumentError
from endcap.terminal.console import PlainConsole, printable
from endcap.terminal.failure import check_stop, say
from endcap.tools.top.local_servers import LocalServer, find_local_servers
from endcap.tools.top.metrics import MetricsError, Scrape, check_parser, scrape
from endcap.tools.top.rates import Interval, compare, model_names
from endcap.tools.top.table import as_lines, lines_of

_DEFAULT_PORT = 8002
_LIVE_WITHIN_S = 2.0
_QUIT_KEYS = "qQ\x04"  # Ctrl-D, too


@dataclass(frozen=True)
class Update:
    """Result of one scrape: an interval, or why there is none; the first has neither.

    Attributes:
        unknown: A message about models of interest that the server does not have.
    """

    interval: Interval | None = None
    problem: str | None = None
    unknown: str | None = None


class Watch:
    """Repeated scrapes of one server, compared each with the one before.

    Args:
        url: Address of the server.
        metrics_url: Address of the metrics. None looks for a server at `url` among the processes
            of this machine, and takes http://HOST:8002/metrics where there is none.
        models: Names of the models of interest; empty for all.

    Raises:
        InvalidArgumentError: For an invalid address, and for one without a port where several
            servers run on this machine and none of them has its metrics at port 8002.
        MetricsError: prometheus-client is not installed.

    Attributes:
        url: Address of the metrics.
    """

    def __init__(self, url: str, metrics_url: str | None, models: Collection[str]) -> None:
        check_parser()
        self._address = parse_address(url)
        self._port = int(self._address.authority.rpartition(":")[2]) if _names_port(url) else None
        self._looks_for_metrics = not metrics_url
        self.url = _metrics_url(metrics_url) if metrics_url else self._find_metrics()
        self._models = frozenset(models)
        self._before: Scrape | None = None

    def update(self) -> Update:
        """Return what changed since the last call. Does not raise."""
        before, self._before = self._before, None
        try:
            self._before = now = scrape(self.url)
        except MetricsError as error:
            problem = f"{error}{self._hint()}"
            with contextlib.suppress(InvalidArgumentError):
                if self._looks_for_metrics:  # a server that was started again has other ports
                    self.url = self._find_metrics()
            return Update(problem=problem)
        unknown = self._unknown(now)
        if before is None:
            return Update(unknown=unknown)
        return Update(compare(before, now, only=self._models), unknown=unknown)

    def _find_metrics(self) -> str:
        """Return the address of the metrics by that of the server.

        Raises:
            InvalidArgumentError: It may be that of several servers.
        """
        host = self._address.authority.rpartition(":")[0]
        usual = f"http://{host}:{_DEFAULT_PORT}/metrics"
        if not _is_this_machine(host):
            return usual
        servers = find_local_servers()
        if self._port is not None:
            servers = [each for each in servers if self._port in (each.http_port, each.grpc_port)]
        return choose_metrics(servers) or usual

    def _unknown(self, now: Scrape) -> str | None:
        known = model_names(now)
        missing = sorted(self._models - known)
        if not missing:
            return None
        named = " or ".join(repr(name) for name in missing)
        there = f"there are {', '.join(sorted(known))}" if known else "there is none"
        return f"{self.url} has no model {named}; {there}"

    def _hint(self) -> str:
        """Return advice for a server that is live but has no metrics there, or for none."""
        try:
            options = ConnectionOptions(timeout_s=_LIVE_WITHIN_S, retries=0)
            with contextlib.closing(Connection(self._address, options)) as connection:
                live = connection.is_live()
        except (RequestError, ClientError):
            return self._other_servers()
        return (
            f". The server at {self._address} is live: it may run without metrics (Triton's "
            "--allow-metrics=false), or have them elsewhere (--metrics-port)"
            if live
            else ""
        )

    def _other_servers(self) -> str:
        """Return advice about the servers of this machine where the one at `url` is not live."""
        host = self._address.authority.rpartition(":")[0]
        if not self._looks_for_metrics or not _is_this_machine(host):
            return ""
        servers = find_local_servers()
        if not servers:
            return ". No Triton server was found on this machine: `endcap serve` starts one"
        listed = ", ".join(each.describe() for each in servers)
        return f". The servers on this machine are {listed}"


def choose_metrics(servers: Sequence[LocalServer]) -> str | None:
    """Return the address of the metrics of the only server, or of that at the usual port.

    None without servers.

    Raises:
        InvalidArgumentError: The only server has no metrics, or several run, none of them at the
            usual port.
    """
    if not servers:
        return None
    usual = [each for each in servers if each.metrics_port == _DEFAULT_PORT]
    chosen = usual or servers
    if len(servers) > 1 and not usual:
        listed = ", ".join(each.describe() for each in servers)
        raise InvalidArgumentError(
            f"{len(servers)} Triton servers run on this machine: give the address of one: {listed}"
        )
    if chosen[0].metrics_url is None:
        raise InvalidArgumentError(
            f"the server of process {chosen[0].pid} runs without metrics: start it without "
            "--allow-metrics=false, or give --metrics-url"
        )
    return chosen[0].metrics_url


def print_once(watch: Watch, interval: float, *, as_json: bool) -> bool:
    """Print the rates of one interval; return False where there are none, with a message."""
    update = watch.update()
    if update.problem is None and update.unknown is None:
        time.sleep(interval)
        update = watch.update()
    problem = update.problem or update.unknown
    if problem is not None:
        say(f"endcap: {problem}")
        return False
    if as_json:
        _print_json(watch, update)
    else:
        console = PlainConsole(highlight=False)
        console.print(Group(*_lines(watch, update, console.width)))
    return True


def print_json_lines(watch: Watch, interval: float) -> None:
    """Print a JSON object for each interval until a signal ends it."""
    unknown = None
    while True:
        check_stop()
        update = watch.update()
        if update.unknown not in (None, unknown):
            unknown = update.unknown
            say(f"endcap: {unknown}")
        if update.interval is not None or update.problem is not None:
            _print_json(watch, update)
        time.sleep(interval)


def show(watch: Watch, interval: float) -> None:
    """Show the tables on the whole terminal until a key or a signal ends it.

    Where standard output is no terminal they are printed one below the other.
    """
    console, has_keys = PlainConsole(highlight=False), sys.stdin.isatty()
    with contextlib.ExitStack() as resources:
        quit_within = resources.enter_context(_quit_key())
        live = None
        if console.is_terminal:
            live = resources.enter_context(Live(console=console, screen=True, auto_refresh=False))
        while True:
            check_stop()
            update = watch.update()
            width, height = console.size
            if live is not None:
                lines = _lines(watch, update, width, height, has_keys=has_keys)
                live.update(Group(*lines), refresh=True)
            else:
                console.print(Group(*_lines(watch, update, width)))
            if quit_within(interval):
                return


def _print_json(watch: Watch, update: Update) -> None:
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")
    rates = {"error": update.problem} if update.interval is None else update.interval.to_json()
    print(json.dumps({"time": now, "url": watch.url, **rates}), flush=True)


def _lines(
    watch: Watch, update: Update, width: int, height: int | None = None, *, has_keys: bool = False
) -> list[RenderableType]:
    heading = f"{printable(watch.url)}   {time.strftime('%H:%M:%S')}"
    if update.interval is not None:
        heading += f"   over {update.interval.seconds:.1f} s"
    lines: list[RenderableType] = [Text(heading + ("   q quits" if has_keys else ""), style="bold")]
    if update.unknown is not None:
        lines.append(Text(printable(update.unknown), style="yellow"))
    lines.append(Text())
    if update.problem is not None:
        lines.append(Text(printable(update.problem), style="red"))
    elif update.interval is None:
        lines.append(Text("Rates follow with the second scrape."))
    else:
        left = None if height is None else height - lines_of(lines, width)
        lines += as_lines(update.interval, width, left)
    return lines


@contextlib.contextmanager
def _quit_key() -> Iterator[Callable[[float], bool]]:
    """Yield a function that waits for seconds and returns whether a key to quit was pressed.

    Where standard input is no terminal it only waits.
    """
    if not sys.stdin.isatty():
        yield _wait
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield lambda seconds: _quit_within(descriptor, seconds)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _wait(seconds: float) -> bool:
    time.sleep(seconds)
    return False


def _quit_within(descriptor: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        ready, _, _ = select.select([descriptor], [], [], left)
        if ready:
            typed = os.read(descriptor, 64)
            if not typed or any(key in typed.decode(errors="replace") for key in _QUIT_KEYS):
                return True
    return False


def _names_port(url: str) -> bool:
    return re.search(r":\d+/*$", url.rpartition("]")[2]) is not None


def _is_this_machine(host: str) -> bool:
    name = host.strip("[]")
    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(name)
        return address.is_loopback or address.is_unspecified
    return name.lower() in ("localhost", socket.gethostname().lower())


def _metrics_url(text: str) -> str:
    """Return HOST:PORT completed to a URL. Raises InvalidArgumentError for anything else."""
    url = text if re.match(r"https?://", text) else f"http://{text}"
    try:
        parts = urllib.parse.urlsplit(url)
        named = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        named = False
    if not named or " " in url:
        raise InvalidArgumentError(
            f"--metrics-url {text!r} is not http://HOST:PORT/metrics or HOST:PORT"
        )
    return url if parts.path.strip("/") else f"{url.rstrip('/')}/metrics"
