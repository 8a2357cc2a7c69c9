"""Picture of the dashboard's panels with the results of a real Prometheus, for docs/monitoring.md.

    .venv/bin/python scripts/dashboard_picture.py measure     seven minutes; needs `prometheus`
    build/bench-venv/bin/python scripts/dashboard_picture.py draw    needs matplotlib

`measure` loads a server on the shipped repository with one request at a time, then with 4, with 16
and with one again, every tenth image corrupt, and writes the results of the panels' expressions to
benchmarks/results/dashboard.json. `draw` makes docs/images/dashboard.png of them.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "dashboard.json"
PICTURE = ROOT / "docs" / "images" / "dashboard.png"
_PHASES = ((1, 90), (4, 120), (16, 120), (1, 90))  # requests in flight, seconds
_STEP_S = 5
_VARIABLE = re.compile(r"\$(instance|model)\b")


def measure() -> None:
    """Run server, Prometheus and load, and write what the panels show."""
    sys.path.insert(0, str(ROOT / "tests" / "support"))
    from prometheus_server import run_prometheus

    from endcap.server import ServerPorts, ServerSettings, TritonServer
    from endcap.tools.bundle import BundleOptions, make_plan, write_bundle

    repository = ROOT / "model_repository"
    options = BundleOptions(models=("detect",))
    settings = ServerSettings(ports=ServerPorts(http=0, grpc=0, metrics=0), models=("detect",))
    with tempfile.TemporaryDirectory() as folder, TritonServer(repository, settings) as server:
        bundle = Path(folder, "deploy")
        write_bundle(make_plan(repository, options), bundle)
        files = Path(folder, "prometheus")
        files.mkdir()
        target = f"127.0.0.1:{server.ports.metrics}"
        with run_prometheus(bundle, target, files) as prometheus:
            start = time.time()
            for in_flight, seconds in _PHASES:
                print(f"{in_flight} in flight for {seconds} s", flush=True)
                _load(server.grpc_url, in_flight, seconds)
            end = time.time()
            dashboard = bundle / "monitoring" / "grafana" / "dashboards" / "endcap.json"
            panels = _read_panels(prometheus, json.loads(dashboard.read_text()), start, end)
    document = {"phases": _PHASES, "start": start, "panels": panels}
    RESULTS.write_text(json.dumps(document, separators=(",", ":")) + "\n")


def _load(url: str, in_flight: int, seconds: float) -> None:
    from endcap.client import DetectionClient

    samples = sorted((ROOT / "model_repository" / "detect" / "samples").glob("*.jpg"))[:9]
    images: list[Any] = [*(path.read_bytes() for path in samples), b"no image"]
    ended = threading.Event()
    threading.Timer(seconds, ended.set).start()
    with DetectionClient(url.removeprefix("grpc://"), concurrency=in_flight) as client:
        while not ended.is_set():
            client.detect(images * max(1, in_flight // 4))


def _read_panels(prometheus: Any, dashboard: Any, start: float, end: float) -> list[dict[str, Any]]:
    panels = []
    for panel in dashboard["panels"]:
        series = []
        for target in panel.get("targets", []):
            found = prometheus.get(
                "query_range",
                query=_VARIABLE.sub(".*", target["expr"]),
                start=str(start),
                end=str(end),
                step=str(_STEP_S),
            )
            for each in found["result"]:
                labels = [each["metric"][key] for key in ("model", "stage", "reason")
                          if key in each["metric"]]  # fmt: skip
                legend = target.get("legendFormat", "")
                name = ", ".join(labels) or ("" if "{{" in legend else legend)
                points = [
                    [round(at - start, 1), float(f"{float(value):.6g}")]
                    for at, value in each["values"]
                ]
                series.append({"name": name, "points": points})
        if series:
            unit = panel["fieldConfig"]["defaults"].get("unit", "none")
            panels.append({"title": panel["title"], "type": panel["type"], "unit": unit,
                           "series": series})  # fmt: skip
    return panels


def draw() -> None:
    """Draw the panels of `measure`."""
    import matplotlib.pyplot as plt

    document = json.loads(RESULTS.read_text())
    panels = [panel for panel in document["panels"] if panel["type"] == "timeseries"]
    columns = 3
    rows = -(-len(panels) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(15, 2.9 * rows), layout="constrained")
    changes = [sum(seconds for _, seconds in document["phases"][:n])
               for n in range(len(document["phases"]))]  # fmt: skip
    for axis, panel in zip(axes.flat, panels, strict=False):
        factor, unit = _UNITS[panel["unit"]]
        shown = [s for s in panel["series"] if any(value for _, value in s["points"])]
        for series in shown or panel["series"][:1]:
            at, values = zip(*series["points"], strict=True)
            axis.plot(at, [value * factor for value in values], label=series["name"], linewidth=1.4)
        for change in changes[1:]:
            axis.axvline(change, color="0.8", linewidth=0.8, zorder=0)
        axis.set_title(panel["title"] + (f" ({unit})" if unit else ""), fontsize=10, loc="left")
        axis.set_ylim(bottom=0)
        axis.tick_params(labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
        if any(series["name"] for series in panel["series"]):
            axis.legend(fontsize=7, frameon=False)
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    in_flight = ", ".join(str(count) for count, _ in document["phases"])
    figure.supxlabel(f"seconds; requests in flight: {in_flight}, from line to line", fontsize=9)
    figure.savefig(PICTURE, dpi=80)
    print(PICTURE)


# Grafana's name of a unit: factor and name here.
_UNITS = {
    "none": (1.0, ""),
    "ops": (1.0, "per second"),
    "reqps": (1.0, "per second"),
    "s": (1e3, "ms"),
    "percentunit": (100.0, "%"),
    "bytes": (1 / 2**20, "MiB"),
}


def main() -> None:
    """Measure or draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("step", choices=["measure", "draw"])
    {"measure": measure, "draw": draw}[parser.parse_args().step]()


if __name__ == "__main__":
    main()
