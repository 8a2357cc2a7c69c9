"""A Prometheus on this machine, with the rules of `deploy/`."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from endcap.server.settings import PortReservation, ServerPorts

_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_READY_WITHIN_S = 30


class Prometheus:
    """Its HTTP API, at `url`."""

    def __init__(self, url: str) -> None:
        self.url = url

    def get(self, path: str, **parameters: str) -> Any:
        query = urllib.parse.urlencode(parameters)
        with _OPENER.open(f"{self.url}/api/v1/{path}?{query}", timeout=10) as response:
            answer = json.load(response)
        assert answer["status"] == "success", answer
        return answer["data"]

    def values(self, expression: str) -> list[float]:
        """The values of an expression, without those that are no number."""
        found = self.get("query", query=expression)["result"]
        values = [float(sample["value"][1]) for sample in found]
        return [value for value in values if value == value]

    def rules(self) -> list[dict[str, Any]]:
        groups = self.get("rules")["groups"]
        return [rule for group in groups for rule in group["rules"]]


@contextlib.contextmanager
def run_prometheus(deploy: Path, target: str, folder: Path) -> Iterator[Prometheus]:
    """Run it with the shipped configuration, but every second and on another target.

    Args:
        deploy: The folder of deployment files.
        target: HOST:PORT of the metrics.
        folder: An empty folder, for its files.
    """
    configuration = yaml.safe_load((deploy / "prometheus" / "prometheus.yml").read_text())
    configuration["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    (job,) = configuration["scrape_configs"]
    job["static_configs"] = [{"targets": [target]}]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(configuration))
    shutil.copy(deploy / "prometheus" / "rules.yaml", folder)
    reservation = PortReservation("127.0.0.1", ServerPorts(http=0, grpc=0, metrics=0))
    address = f"127.0.0.1:{reservation.ports.http}"
    reservation.close()
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={address}",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        server = Prometheus(f"http://{address}")
        deadline = time.monotonic() + _READY_WITHIN_S
        while not _is_ready(server):
            assert process.poll() is None, (folder / "prometheus.log").read_text()
            assert time.monotonic() < deadline, "Prometheus did not get ready"
            time.sleep(0.1)
        yield server
    finally:
        process.terminate()
        process.wait(30)


def _is_ready(server: Prometheus) -> bool:
    with contextlib.suppress(OSError), _OPENER.open(f"{server.url}/-/ready", timeout=5):
        return True
    return False
