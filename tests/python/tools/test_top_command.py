"""endcap top as it is run: where metrics are, servers that go and come back, terminals."""

from __future__ import annotations

import contextlib
import gc
import http.server
import json
import os
import pty
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import raw_responses
from cli_runs import assert_error_message, endcap
from metrics_text import EARLIER, LATER

from endcap.errors import InvalidArgumentError
from endcap.tools.top.local_servers import LocalServer, read_arguments
from endcap.tools.top.metrics import MetricsError, scrape
from endcap.tools.top.watch import Watch, choose_metrics


class _Handler(http.server.BaseHTTPRequestHandler):
    responses: list[tuple[int, str]]

    def do_GET(self) -> None:
        code, text = self.responses.pop(0) if len(self.responses) > 1 else self.responses[0]
        self.send_response(code)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:
        return


@contextlib.contextmanager
def metrics_server(*responses: tuple[int, str]) -> Iterator[str]:
    """Serve the responses in turn, the last one repeatedly; yield host and port."""
    handler = type("Handler", (_Handler,), {"responses": list(responses)})
    with http.server.HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_a_response_without_metrics_is_an_error() -> None:
    with metrics_server((404, ""), (200, "<html>nothing</html>")) as address:
        with pytest.raises(MetricsError, match="404"):
            scrape(f"http://{address}/metrics")
        with pytest.raises(MetricsError, match="not in Prometheus' text format"):
            scrape(f"http://{address}/metrics")
    with pytest.raises(MetricsError, match="Connection refused"):
        scrape(f"http://{address}/metrics")
    gc.collect()  # a connection that was left open is a warning, and so an error, here


@pytest.mark.parametrize("begun", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"])
def test_metrics_that_trickle_in_are_not_waited_for(begun: bytes) -> None:
    def trickle(wire: socket.socket, _: int) -> None:
        wire.sendall(begun)
        for _ in range(150):
            wire.sendall(b"#")
            time.sleep(0.02)

    with raw_responses.raw_server(trickle) as server:
        begin = time.monotonic()
        with pytest.raises(MetricsError, match="no response in time"):
            scrape(f"http://{server.address}/metrics", timeout_s=0.2)
        assert time.monotonic() - begin < 1.5
    gc.collect()


def test_a_redirect_is_an_error_that_says_where_to() -> None:
    moved = raw_responses.whole(b"", status="302 Found", Location="/there", Connection="close")
    with (
        raw_responses.raw_server(raw_responses.always(moved)) as server,
        pytest.raises(MetricsError, match="redirects to /there; give that address"),
    ):
        scrape(f"http://{server.address}/metrics")


def test_more_lines_than_metrics_have_are_an_error() -> None:
    text = "nv_x 1\n" * 100_001
    with (
        metrics_server((200, text)) as address,
        pytest.raises(MetricsError, match="more than 100,000 lines, which no metrics have"),
    ):
        scrape(f"http://{address}/metrics")


def test_numbers_that_json_does_not_have_are_not_known() -> None:
    values = ("NaN", "+Inf", "-1e400", "1e308", "1e-320", "NaN")
    names = ("request_success", "count", "exec_count", "queue_duration_us", "request_duration_us")
    before, after = (
        "".join(
            f'# TYPE nv_inference_{name} counter\nnv_inference_{name}{{model="m"}} {value}\n'
            for name, value in zip(names, given, strict=False)
        )
        + "# TYPE nv_inference_pending_request_count gauge\n"
        'nv_inference_pending_request_count{model="m"} +Inf\n'
        "# TYPE nv_cpu_memory_total_bytes gauge\nnv_cpu_memory_total_bytes 1\n"
        "# TYPE nv_cpu_utilization gauge\nnv_cpu_utilization NaN\n"
        for given in ("0" * 5, values)
    )
    with metrics_server((200, before), (200, after)) as address:
        result = endcap("top", "--metrics-url", address, "--once", "--interval", 0.1, "--json")
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout, parse_constant=pytest.fail)
    assert figures["models"][0]["pending"] is None
    assert figures["machine"]["cpu_utilization"] is None


def test_a_server_that_goes_and_comes_back_is_shown() -> None:
    with metrics_server((200, EARLIER), (503, ""), (200, EARLIER), (200, LATER)) as address:
        watch = Watch("127.0.0.1", address, ())
        updates = [watch.update() for _ in range(4)]
    assert [each.interval is not None for each in updates] == [False, False, False, True]
    assert updates[1].problem is not None
    assert "503" in updates[1].problem
    assert updates[2].problem is None


def test_the_metrics_place_follows_the_url() -> None:
    assert Watch("gpu-box:9001", None, ()).url == "http://gpu-box:8002/metrics"
    assert Watch("http://[::1]:1", None, ()).url == "http://[::1]:8002/metrics"
    assert Watch("a", "b:9", ()).url == "http://b:9/metrics"
    assert Watch("a", "https://b/triton/metrics", ()).url == "https://b/triton/metrics"
    with pytest.raises(
        InvalidArgumentError, match="--metrics-url 'b:port' is not http://HOST:PORT"
    ):
        Watch("a", "b:port", ())


def test_a_server_s_ports_are_those_of_its_arguments() -> None:
    plain = read_arguments(7, ["--model-repository=/m"])
    assert plain == LocalServer(7, "127.0.0.1", 8000, 8001, 8002)
    chosen = read_arguments(
        7, ["--http-port=1", "--grpc-port", "2", "--metrics-port=9", "--metrics-port=3", "--http"]
    )
    assert (chosen.http_port, chosen.grpc_port, chosen.metrics_port) == (1, 2, 3)
    assert read_arguments(7, ["--http-address=10.0.0.1"]).metrics_url == (
        "http://10.0.0.1:8002/metrics"
    )
    own = read_arguments(7, ["--http-address=10.0.0.1", "--metrics-address=::", "--metrics-port=9"])
    assert own.metrics_url == "http://[::1]:9/metrics"
    for without in ("--allow-metrics=false", "--allow-metrics=0", "--allow-metrics=False"):
        assert read_arguments(7, [without]).metrics_url is None
    assert read_arguments(7, ["--allow-metrics=true"]).metrics_port == 8002
    with pytest.raises(ValueError, match="invalid literal"):
        read_arguments(7, ["--http-port=x"])


def test_the_one_server_or_that_at_the_usual_port_is_chosen() -> None:
    usual = LocalServer(1, "127.0.0.1", 8000, 8001, 8002)
    other = LocalServer(2, "127.0.0.1", 11, 12, 13)
    silent = LocalServer(3, "127.0.0.1", 21, 22, None)
    assert choose_metrics([]) is None
    assert choose_metrics([other]) == "http://127.0.0.1:13/metrics"
    assert choose_metrics([other, usual, silent]) == "http://127.0.0.1:8002/metrics"
    with pytest.raises(InvalidArgumentError) as several:
        choose_metrics([other, silent])
    assert str(several.value) == (
        "2 Triton servers run on this machine: give the address of one: --url 127.0.0.1:12 "
        "(process 2), --url 127.0.0.1:22 (process 3, without metrics)"
    )
    with pytest.raises(InvalidArgumentError, match="process 3 runs without metrics"):
        choose_metrics([silent])


def test_without_its_parser_it_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client.parser", None)
    assert_error_message(endcap("top"), "needs prometheus-client", "'prometheus-client>=")


def test_once_prints_one_interval() -> None:
    with metrics_server((200, EARLIER), (200, LATER)) as address:
        result = endcap("top", "--metrics-url", address, "--once", "--interval", 0.1, columns=100)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"http://{address}/metrics ")
    assert "corrupt_image" in result.stdout


def test_once_as_json() -> None:
    with metrics_server((200, EARLIER), (200, LATER)) as address:
        result = endcap("top", "--metrics-url", address, "--once", "--interval", 0.1, "--json")
    (line,) = result.stdout.splitlines()
    figures = json.loads(line)
    assert figures["url"] == f"http://{address}/metrics"
    assert figures["models"][0]["batch_size"] == 8
    assert figures["stages"][1]["failures"].keys() == {"corrupt_image"}
    assert figures["machine"]["gpus"][0]["power_w"] == 300


def test_a_model_that_is_not_there_is_an_error_with_those_that_are() -> None:
    with metrics_server((200, EARLIER)) as address:
        result = endcap("top", "--metrics-url", address, "--once", "--model", "n", "--model", "net")
        assert_error_message(result, f"http://{address}/metrics has no model 'n'", "net, post, pre")
        watch = Watch("127.0.0.1", address, ["net", "later"])
        updates = [watch.update() for _ in range(2)]
    assert updates[1].interval is not None  # it goes on: the model may come
    assert all("no model 'later'" in (each.unknown or "") for each in updates)
    with metrics_server((200, EARLIER)) as address:
        assert Watch("127.0.0.1", address, ["net"]).update().unknown is None


def test_once_without_a_server_is_an_error() -> None:
    with metrics_server((200, "")) as address:
        pass  # nothing listens there any more
    result = endcap("top", "--metrics-url", address, "--once")
    assert_error_message(result, f"no metrics at http://{address}/metrics", "port 8002")


def read_until(terminal: int, *texts: str, timeout_s: float = 20.0) -> str:
    shown, deadline = "", time.monotonic() + timeout_s
    while not all(text in shown for text in texts):
        assert time.monotonic() < deadline, shown
        if select.select([terminal], [], [], 0.1)[0]:
            shown += os.read(terminal, 65536).decode(errors="replace")
    return shown


@pytest.mark.parametrize("key", ["q", "\x03"])
def test_a_key_ends_the_live_table_and_leaves_the_terminal_as_it_was(key: str) -> None:
    # A session's first terminal that is opened becomes the one whose Ctrl-C it gets.
    program = "import os; os.close(os.open(os.ttyname(0), os.O_RDWR)); "
    program += "from endcap.cli.app import main; main()"
    with metrics_server((200, EARLIER), (503, ""), (200, EARLIER), (200, LATER)) as address:
        command = [sys.executable, "-c", program, "top", "--metrics-url", address]
        ours, its = pty.openpty()
        running = subprocess.Popen(
            [*command, "--interval", "0.3"],
            stdin=its, stdout=its, stderr=its, start_new_session=True, cwd=Path(__file__).parent,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "90", "LINES": "30"},
        )  # fmt: skip
        os.close(its)
        try:
            shown = read_until(ours, "q quits", "503", "corrupt_image")
            assert shown.count("\x1b[?1049h") == 1  # a screen of its own
            os.write(ours, key.encode())
            read_until(ours, "\x1b[?1049l")
            assert running.wait(10) == 0
        finally:
            running.kill()
            running.wait()
            os.close(ours)
