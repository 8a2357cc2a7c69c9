"""A Triton server that tests run, and what its HTTP endpoints return."""

from __future__ import annotations

import contextlib
import json
import re
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import tritonclient.grpc as grpc_client
from tritonclient.utils import InferenceServerException

from endcap.server import ServerPorts, ServerSettings
from endcap.server.plan import plan_launch
from endcap.server.process import ServerProcess, remove_shared_memory
from tests.support.doc_pages import ROOT

FREE_PORTS = ServerPorts(http=0, grpc=0, metrics=0)
# Some servers here load thirty models, each in two processes of Python, one after the other.
_LOADED_WITHIN_S = 180
_WITHOUT_METRICS = "--allow-metrics=false"
# Where a load failed over a loaded model, the server waits at its end until the timeout.
_MORE_OPTIONS = ("--exit-on-error=false", "--exit-timeout-secs=3")
# Tests load models, and register memory, by clients.
_RESTRICTIONS = ("--http-restricted-api=", "--grpc-restricted-protocol=")
# A server on this machine is never behind a proxy.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_METRIC = re.compile(r"^(\w+)\{(.*)\} (\S+)$")


def get(url: str, body: bytes | None = None) -> bytes:
    request = urllib.request.Request(url, data=body)
    with _OPENER.open(request, timeout=10) as response:
        return bytes(response.read())


def wait_for(condition: Callable[[], Any], *, timeout_s: float = 20.0) -> Any:
    """Returns the condition's first true value; AssertionError when none comes in time."""
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.02)
    return value


def until_taken(action: Callable[[], Any], refusal: type[Exception]) -> None:
    """Acts until that is not refused: a server lets go of a region some time after its response."""

    def taken() -> bool:
        with contextlib.suppress(refusal):
            action()
            return True
        return False

    wait_for(taken)


def rested(count: Callable[[], Any]) -> Any:
    """A count that rests: Triton counts a request some time after its response."""
    before = None
    while (now := count()) != before:
        before = now
        time.sleep(0.1)
    return now


def metrics_in_the_guide(backend: str) -> set[str]:
    """The counters of a backend, such as preprocess, that docs/backends.md names."""
    page = (ROOT / "docs" / "backends.md").read_text(encoding="utf-8")
    return set(re.findall(rf"`(endcap_{backend}_\w+_total)`", page))


@dataclass(frozen=True)
class RunningServer:
    repository: Path
    ports: ServerPorts
    process: ServerProcess

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def grpc(self) -> str:
        return f"127.0.0.1:{self.ports.grpc}"

    @property
    def http(self) -> str:
        return f"127.0.0.1:{self.ports.http}"

    def load(self, *models: str) -> None:
        """Loads models of the repository, in explicit mode, that are not there yet."""
        try:
            states = {name: model.get("state") for name, model in self.index().items()}
        except OSError as error:  # its end must not look like a fault of a later test
            raise AssertionError(
                "\n".join(["the server has ended", *self.process.log_lines()])
            ) from error
        with grpc_client.InferenceServerClient(self.grpc) as client:
            for model in models:
                if states[model] != "READY":
                    client.load_model(model)

    def expect_all(self) -> None:
        """Expects every model of the repository to be ready."""
        failed = {n: m.get("reason") for n, m in self.index().items() if m["state"] != "READY"}
        assert not failed, "\n".join(self.process.log_lines())

    def refusal(self, model: str) -> str:
        """The reason why a model of the repository does not load."""
        with (
            grpc_client.InferenceServerClient(self.grpc) as client,
            contextlib.suppress(InferenceServerException),
        ):
            client.load_model(model)
        found = self.index()[model]
        assert found["state"] == "UNAVAILABLE"
        return found["reason"]

    def log_lines(self, text: str) -> list[str]:
        return [line for line in self.process.log_lines() if text in line]

    def metric(self, name: str, **labels: str) -> float:
        """The value of one metric; KeyError when there is none with these labels."""
        for line in get(f"http://127.0.0.1:{self.ports.metrics}/metrics").decode().splitlines():
            match = _METRIC.match(line)
            if match and match.group(1) == name:
                given = dict(re.findall(r'(\w+)="([^"]*)"', match.group(2)))
                if labels.items() <= given.items():
                    return float(match.group(3))
        raise KeyError(name)

    def metrics(self, backend: str) -> set[str]:
        """The names of those of one of endcap's backends."""
        text = get(f"http://127.0.0.1:{self.ports.metrics}/metrics").decode()
        return set(re.findall(rf"^# TYPE (endcap_{backend}_\w+)", text, re.MULTILINE))

    def statistics(self, model: str) -> dict[str, Any]:
        response = json.loads(get(f"http://{self.http}/v2/models/{model}/stats"))
        return dict(response["model_stats"][0])

    def requests(self, model: str) -> int:
        """How many requests the model has served well, its own and those of other models."""
        return rested(lambda: int(self.statistics(model)["inference_stats"]["success"]["count"]))

    def executions(self, model: str) -> int:
        """How often the model has worked, on one request or several."""
        return rested(lambda: int(self.statistics(model)["execution_count"]))

    def config(self, model: str) -> dict[str, Any]:
        return dict(json.loads(get(f"http://{self.http}/v2/models/{model}/config")))

    def shared_regions(self) -> set[str]:
        """The names of the shared memory that clients have registered."""
        regions = json.loads(get(f"http://{self.http}/v2/systemsharedmemory/status"))
        return {region["name"] for region in regions}

    def resident_bytes(self) -> int:
        """Memory in use now; the peak starts again from here."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")
        return self._memory("VmRSS")

    def peak_resident_bytes(self) -> int:
        return self._memory("VmHWM")

    def _memory(self, field: str) -> int:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1]) * 1024
        raise KeyError(field)

    def index(self) -> dict[str, dict[str, str]]:
        """Name -> state and reason of every model of the repository."""
        models = json.loads(get(f"http://{self.http}/v2/repository/index", b"{}"))
        return {model["name"]: model for model in models}


@contextlib.contextmanager
def run_server(
    repository: Path, *options: str, ports: ServerPorts = FREE_PORTS
) -> Iterator[RunningServer]:
    """Runs a server that also stays up when models failed to load."""
    with tempfile.TemporaryDirectory(prefix="endcap-test-") as scratch:
        plan = plan_launch(repository, ServerSettings(ports=ports), Path(scratch))
        open_to_all = [word for word in plan.command if not word.startswith(_RESTRICTIONS)]
        command = [*open_to_all, *_MORE_OPTIONS, *options]
        process = ServerProcess(command, plan.environment, plan.working_directory)
        server = RunningServer(repository, plan.reservation.ports, process)
        try:
            urls = [f"http://{server.http}/v2/health/live"]
            if _WITHOUT_METRICS not in options:  # the last service that the server starts
                urls.append(f"http://127.0.0.1:{server.ports.metrics}/metrics")
            for url in urls:
                wait_for(partial(_responds, url, process), timeout_s=_LOADED_WITHIN_S)
            plan.reservation.close()
            yield server
        finally:
            process.stop(30)
            remove_shared_memory(plan.shared_memory_prefix)


def _responds(url: str, process: ServerProcess) -> bool:
    assert process.exit_code() is None, "\n".join(process.log_lines())
    with contextlib.suppress(OSError):
        get(url)
        return True
    return False
